package compat

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// c1 is the barber shop: free text from a number of its own. Of an answer it looks at response.ok only.
type c1 struct{ base, key, numberID string }

// send posts `{destinationNumber, text}`; extra are the fields that its earlier versions sent without their being documented.
func (c c1) send(t *testing.T, to, body string, extra map[string]any) (ok bool) {
	t.Helper()
	payload := map[string]any{"destinationNumber": to, "text": body}
	for k, v := range extra {
		payload[k] = v
	}
	a, err := fetch(browser(20*time.Second), newRequest(t, request{
		method: http.MethodPost, url: c.base + "/messages/send", body: payload,
		header: map[string]string{"x-api-key": c.key, "x-whatsapp-number-id": c.numberID},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return a.status >= 200 && a.status < 300
}

// c1Event is what its webhook reads.
type c1Event struct {
	event, numberID, from, content, messageID string
	fromMe                                    bool
}

// c1Webhook reads `const { event, data } = body` and the members of data, with a default for each.
func c1Webhook(raw []byte) (c1Event, bool) {
	var body struct {
		Event string         `json:"event"`
		Data  map[string]any `json:"data"`
	}
	if json.Unmarshal(raw, &body) != nil || body.Event == "" || body.Data == nil {
		return c1Event{}, false
	}
	fromMe, _ := body.Data["fromMe"].(bool)
	return c1Event{
		body.Event, stringOf(body.Data, "numberId"), stringOf(body.Data, "from"), stringOf(body.Data, "content"),
		stringOf(body.Data, "messageId"), fromMe,
	}, true
}

func c1Checks(t *testing.T, w *checks) {
	shop := c1{w.v1(), w.keys.own, "whatever-it-was-called"}
	w.check(t, "free_text", func(t *testing.T) {
		if !shop.send(t, someone, "c1: your hour is at 10.", nil) {
			t.Fatal("not ok")
		}
		eventually(t, "it left", func() bool { return w.left("c1: your hour is at 10.") == 1 }, nil)
	})
	w.check(t, "fields_of_earlier_versions", func(t *testing.T) {
		extra := map[string]any{"number": "5511900000000", "delay": 1200, "whatsappNumberId": "n-1"}
		if !shop.send(t, shortNumber, "c1: from an earlier version.", extra) {
			t.Fatal("not ok")
		}
		eventually(t, "it left", func() bool { return w.left("c1: from an earlier version.") == 1 }, nil)
	})
	w.check(t, "not_ok_when_refused", func(t *testing.T) {
		if shop.send(t, "not a number", "c1: never.", nil) || w.left("c1: never.") != 0 {
			t.Error("a refusal was ok")
		}
		if (c1{w.v1(), w.keys.shared, "n"}).send(t, someone, "c1: from the shared number.", nil) {
			t.Error("free text from the shared number was ok")
		}
	})
	w.check(t, "webhook", func(t *testing.T) {
		id := stringOf(w.accepted(t, w.keys.own, text("c1: heard of.")), "id")
		for _, event := range []string{"message.sent", "message.delivered", "message.read"} {
			e, ok := c1Webhook(w.hooks.event(t, "c1", id, event).body)
			want := c1Event{event, "acme-1", "+5511900000002", "c1: heard of.", e.messageID, false}
			if !ok || e != want || e.messageID == "" {
				t.Errorf("%s: %+v, %t", event, e, ok)
			}
		}
	})
}
