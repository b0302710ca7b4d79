package compat

import (
	"encoding/json"
	"net/http"
	"testing"
)

// c4 are the edge functions: one URL below /api/v1, one template, and `await response.json()` before anything else.
type c4 struct{ url, key string }

// notify fails as the function does when the answer is no JSON.
func (c c4) notify(t *testing.T, number, message string) (ok bool, data map[string]any, err error) {
	t.Helper()
	a, err := fetch(plain, newRequest(t, request{
		method: http.MethodPost, url: c.url, key: c.key, body: map[string]any{
			"templateId": "generic_notification", "destinationNumber": number, "variables": map[string]string{"message": message},
		},
	}))
	if err != nil {
		return false, nil, err
	}
	err = json.Unmarshal(a.raw, &data)
	return a.status >= 200 && a.status < 300, data, err
}

func c4Checks(t *testing.T, w *checks) {
	edge := c4{w.apiV1() + "/messages/send", w.keys.shared}
	w.check(t, "generic_notification", func(t *testing.T) {
		ok, data, err := edge.notify(t, shortNumber, "c4: seu pedido saiu.")
		if !ok || err != nil || stringOf(data, "id") == "" {
			t.Fatalf("%t, %v, %v", ok, data, err)
		}
		w.await(t, w.keys.shared, stringOf(data, "id"), "READ")
		if n := w.left("Aviso: c4: seu pedido saiu. (automático)"); n != 1 {
			t.Errorf("%d left", n)
		}
	})
	w.check(t, "always_parses", func(t *testing.T) {
		for name, c := range map[string]struct {
			url, key, number, message string
		}{
			"no key":        {edge.url, "", someone, "x"},
			"another key":   {edge.url, "ps_live_nobody", someone, "x"},
			"no number":     {edge.url, edge.key, "", "x"},
			"blank":         {edge.url, edge.key, someone, " "},
			"another path":  {w.apiV1() + "/messages/sent", edge.key, someone, "x"},
			"nowhere":       {w.app.URLs().API + "/", edge.key, someone, "x"},
			"too long":      {edge.url, edge.key, someone, string(make([]byte, 100_000))},
			"not approved":  {edge.url, w.keys.draft, someone, "x"},
			"a slash":       {edge.url + "/", "", someone, "x"},
			"no such route": {w.apiV1() + "/messages/" + "msg_x", edge.key, someone, "x"},
		} {
			ok, data, err := c4{c.url, c.key}.notify(t, c.number, c.message)
			if ok || err != nil || stringOf(data, "error") == "" || stringOf(data, "code") == "" {
				t.Errorf("%s: %t, %v, %v", name, ok, data, err)
			}
		}
	})
}
