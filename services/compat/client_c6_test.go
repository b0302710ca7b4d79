package compat

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/services/demo"
)

// c6 sends codes: all variables made strings, only res.ok looked at. It prefers the id of a key where one is configured.
type c6 struct{ base, key, keyID string }

func (c c6) sendCode(t *testing.T, template, number string, variables map[string]any) (ok bool, a answer) {
	t.Helper()
	texts := map[string]string{}
	for k, v := range variables {
		texts[k] = fmt.Sprint(v)
	}
	header := map[string]string{}
	if c.keyID != "" {
		header["x-api-key-id"] = c.keyID
	}
	if c.key != "" {
		header["x-api-key"] = c.key
	}
	a, err := fetch(plain, newRequest(t, request{
		method: http.MethodPost, url: c.base + "/messages/send", header: header,
		body: map[string]any{"templateId": template, "destinationNumber": number, "variables": texts},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return a.status >= 200 && a.status < 300, a
}

func c6Checks(t *testing.T, w *checks) {
	w.check(t, "code_from_the_shared_number", func(t *testing.T) {
		ok, a := c6{w.v1(), w.keys.shared, ""}.sendCode(t, demo.TemplateOTP, someone, map[string]any{"code": 481_516})
		if !ok {
			t.Fatalf("%d %s", a.status, a.raw)
		}
		w.await(t, w.keys.shared, stringOf(a.json(t), "id"), "READ")
		if n := w.left("481516"); n != 1 {
			t.Errorf("%d left", n)
		}
	})
	w.check(t, "id_of_a_key_beside_the_key", func(t *testing.T) {
		if ok, a := (c6{w.v1(), w.keys.shared, demo.LiveKeyID}).sendCode(t, demo.TemplateOTP, someone, map[string]any{"code": 481_517}); !ok {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
	w.check(t, "secret_id_alone", func(t *testing.T) {
		id := random(16)
		digest := apikey.Digest(id)
		w.key("key-by-id", events.Key{TenantID: demo.TenantID, ProjectID: demo.ProjectID, SecretIDHash: hex.EncodeToString(digest[:])}, "")
		if ok, a := (c6{w.v1(), "", id}).sendCode(t, demo.TemplateOTP, someone, map[string]any{"code": 481_519}); !ok {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
	w.check(t, "id_of_a_key_alone", func(t *testing.T) { // the id under which a key is listed is no secret: whoever reads it could send
		ok, a := c6{w.v1(), "", demo.LiveKeyID}.sendCode(t, demo.TemplateOTP, someone, map[string]any{"code": 481_518})
		if ok || a.status != http.StatusUnauthorized || stringOf(a.json(t), "error") == "" {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
	w.check(t, "not_ok_when_refused", func(t *testing.T) {
		if ok, a := (c6{w.v1(), w.keys.shared, ""}).sendCode(t, demo.TemplateOTP, someone, map[string]any{"code": ""}); ok || a.status != http.StatusBadRequest {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
}
