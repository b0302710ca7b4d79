package compat

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/services/demo"
)

// statuses are all that a client is ever told.
var statuses = []string{"QUEUED", "SENT", "DELIVERED", "READ", "FAILED", "CANCELED"}

func returnChecks(t *testing.T, w *checks) {
	w.check(t, "accepted", func(t *testing.T) {
		begun := time.Now()
		a := w.send(t, w.keys.own, text("return: accepted."))
		out := a.json(t)
		for field, want := range map[string]any{"status": "QUEUED", "origin": "Acme", "sourceNumber": demo.OwnNumber} {
			if out[field] != want {
				t.Errorf("%s is %v", field, out[field])
			}
		}
		for _, field := range []string{"id", "correlationId", "createdAt"} {
			if stringOf(out, field) == "" {
				t.Errorf("no %s in %s", field, a.raw)
			}
		}
		id := stringOf(out, "id")
		if _, err := time.Parse(time.RFC3339, stringOf(out, "createdAt")); err != nil || url.PathEscape(id) != id || time.Since(begun) > 10*time.Second {
			t.Errorf("%s after %s, %v", a.raw, time.Since(begun), err)
		}
	})
	w.check(t, "refusals", func(t *testing.T) { returnRefusals(t, w) })
	w.check(t, "variable_details", func(t *testing.T) {
		order := func(variables map[string]any) string {
			a := w.send(t, w.keys.own, map[string]any{"destinationNumber": someone, "templateId": demo.TemplateUtility, "variables": variables})
			details, err := json.Marshal(a.json(t)["details"])
			if err != nil || a.status != http.StatusBadRequest {
				t.Errorf("%d %s", a.status, a.raw)
			}
			return string(details)
		}
		if got := order(map[string]any{"order": "7"}); got != `{"missingKeys":["name"]}` {
			t.Error(got)
		}
		if got := order(map[string]any{"order": 7, "name": " "}); got != `{"invalidKeys":[{"key":"order","reason":"not_a_string"},{"key":"name","reason":"blank"}]}` {
			t.Error(got)
		}
	})
	w.check(t, "status", func(t *testing.T) { returnStatus(t, w) })
	w.check(t, "cancel", func(t *testing.T) {
		id := stringOf(w.accepted(t, w.keys.own, with(text("return: never."), "deliverAt", ahead(time.Hour))), "id")
		out := w.cancel(t, w.keys.own, id, "msg_none").json(t)
		got, err := json.Marshal(out)
		if want := `{"cancelled":["` + id + `"],"failed":[{"id":"msg_none","reason":"NOT_FOUND"}]}`; err != nil || string(got) != want {
			t.Errorf("%s, want %s", got, want)
		}
		if m := w.await(t, w.keys.own, id, "CANCELED"); w.left("return: never.") != 0 || m["errorMessage"] != nil {
			t.Error(m)
		}
	})
	w.check(t, "opt_in", func(t *testing.T) {
		a := w.call(t, request{method: http.MethodGet, url: w.v1() + "/messages/opt-in?destinationNumber=%2B5511988887777", key: w.keys.shared})
		want := `{"authorized":true,"enabled":false,"firstOptInAt":null,"lastSeenAt":null,"reason":null,"required":false}`
		if got, err := json.Marshal(a.json(t)); err != nil || a.status != http.StatusOK || string(got) != want {
			t.Errorf("%d %s", a.status, got)
		}
	})
}

// returnRefusals holds the codes of the old service against ours. Each is a problem with a string error and a string code.
func returnRefusals(t *testing.T, w *checks) {
	const refused = "return: refused."
	code := func(t string, more ...any) map[string]any {
		return with(map[string]any{"destinationNumber": someone, "templateId": t}, more...)
	}
	for name, c := range map[string]struct {
		key    string
		body   any
		status int
		code   string
	}{
		"no JSON":             {w.keys.own, "{", 400, "VALIDATION_ERROR"},
		"two destinations":    {w.keys.own, with(text(refused), "groupId", "1@g.us"), 400, "VALIDATION_ERROR"},
		"two modes":           {w.keys.own, code("boas_vindas", "text", refused), 400, "VALIDATION_ERROR"},
		"missing variables":   {w.keys.own, code("boas_vindas"), 400, "MISSING_TEMPLATE_VARIABLES"},
		"blank variable":      {w.keys.own, code("boas_vindas", "variables", map[string]any{"nome": ""}), 400, "INVALID_TEMPLATE_VARIABLE_VALUE"},
		"no key":              {"", text(refused), 401, "UNAUTHORIZED"},
		"LIVE not approved":   {w.keys.draft, code("boas_vindas"), 403, "PROJECT_NOT_APPROVED"},
		"TEST destination":    {w.keys.test, code("plain-notice"), 403, "DESTINATION_NOT_ALLOWED_IN_TEST"},
		"MARKETING, shared":   {w.keys.shared, code(demo.TemplateMarket, "variables", map[string]any{"name": "a"}), 403, "TEMPLATE_CATEGORY_MARKETING_REQUIRES_OWN_NUMBER"},
		"free text, shared":   {w.keys.shared, text(refused), 403, "FREE_TEXT_REQUIRES_OWN_NUMBER"},
		"no template":         {w.keys.own, code("none"), 404, "TEMPLATE_NOT_FOUND"},
		"another's template":  {w.keys.own, code("tpl-other"), 404, "TEMPLATE_NOT_FOUND"},
		"a window that is no": {w.keys.own, with(text(refused), "deliverUntil", ahead(-time.Hour)), 400, "VALIDATION_ERROR"},
	} {
		a := w.send(t, c.key, c.body)
		out := a.json(t)
		if a.status != c.status || stringOf(out, "code") != c.code || stringOf(out, "error") == "" {
			t.Errorf("%s: %d %s, want %d %s", name, a.status, a.raw, c.status, c.code)
		}
	}
	if n := w.left(refused); n > 0 {
		t.Errorf("%d of what was refused have left", n)
	}
}

func returnStatus(t *testing.T, w *checks) {
	body := map[string]any{"destinationNumber": someone, "templateId": "boas_vindas", "variables": map[string]any{"nome": "return"}}
	later := stringOf(w.accepted(t, w.keys.own, with(body, "deliverAt", ahead(time.Hour))), "id")
	fields := []string{"id", "status", "correlationId", "destinationNumber", "template", "createdAt", "sentAt", "deliveredAt", "readAt", "externalMessageId", "errorMessage"}
	first := w.read(t, w.keys.own, later).json(t)
	for _, f := range fields {
		if _, there := first[f]; !there { // null, not absent
			t.Errorf("%s is missing", f)
		}
	}
	if first["template"] != "boas_vindas" || first["sentAt"] != nil || first["errorMessage"] != nil {
		t.Errorf("%v", first)
	}
	w.cancel(t, w.keys.own, later)
	delete(body, "deliverAt")
	out := w.accepted(t, w.keys.own, body)
	id := stringOf(out, "id")
	height := 0
	eventually(t, "it is read", func() bool {
		now := stringOf(w.read(t, w.keys.own, id).json(t), "status")
		at := slices.Index(statuses, now)
		if at < height {
			t.Errorf("%s after %s", now, statuses[height])
		}
		height = max(height, at)
		return now == "READ"
	}, nil)
	m := w.await(t, w.keys.own, id, "READ")
	for _, f := range fields {
		if m[f] == nil && f != "errorMessage" {
			t.Errorf("%s is null", f)
		}
	}
	for _, by := range []string{id, stringOf(out, "correlationId"), stringOf(m, "externalMessageId")} {
		if got := w.read(t, w.keys.own, by).json(t)["id"]; got != id {
			t.Errorf("by %s: %v", by, got)
		}
		if a := w.read(t, w.keys.other, by); a.status != http.StatusNotFound {
			t.Errorf("outside of the scope: %d %s", a.status, a.raw)
		}
	}
}
