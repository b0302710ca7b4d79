package compat

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/services/demo"
)

// decidedChecks shows what Pilot does where the documents of the old service say two things.
func decidedChecks(t *testing.T, w *checks) {
	w.check(t, "any_host", func(t *testing.T) {
		for _, host := range []string{"pilotstatus.online", "pilotstatus.com.br", "api.pilotstatus.com.br"} {
			req := newRequest(t, request{method: http.MethodPost, url: w.v1() + "/messages/send", key: w.keys.own, body: text("decided: host.")})
			req.Host = host
			if a, err := fetch(plain, req); err != nil || a.status != http.StatusAccepted {
				t.Errorf("%s: %d %s, %v", host, a.status, a.raw, err)
			}
		}
	})
	w.check(t, "key_prefix_decides_nothing", func(t *testing.T) {
		raw := "ps_test_" + random(20) // a LIVE key of the old system whose prefix says otherwise
		w.key("key-odd", events.Key{TenantID: demo.TenantID, ProjectID: demo.ProjectID, InstanceID: demo.OwnInstanceID}, raw)
		id := stringOf(w.accepted(t, raw, text("decided: prefix.")), "id")
		if m := w.await(t, w.keys.own, id, "READ"); m["environment"] != "LIVE" {
			t.Error(m)
		}
	})
	w.check(t, "scheduled_is_queued", func(t *testing.T) {
		out := w.accepted(t, w.keys.own, with(text("decided: later."), "deliverAt", ahead(time.Hour)))
		id := stringOf(out, "id")
		if m := w.read(t, w.keys.own, id).json(t); out["status"] != "QUEUED" || m["status"] != "QUEUED" {
			t.Error(m)
		}
		w.cancel(t, w.keys.own, id)
		if m := w.await(t, w.keys.own, id, "CANCELED"); !slices.Contains(statuses, stringOf(m, "status")) {
			t.Error(m)
		}
	})
	w.check(t, "template_approval", func(t *testing.T) {
		raw := []byte(`{"body":{"text":"Not approved for production."}}`)
		put(w.world, events.KindTemplate, "tpl-unapproved", events.Template{
			ID: "tpl-unapproved", TenantID: demo.TenantID, ProjectID: demo.ProjectID, Name: "unapproved", Category: events.Utility,
			Versions: []events.TemplateVersion{{Version: 1, Structure: raw, State: events.TemplateApproved}},
		})
		body := map[string]any{"templateId": "unapproved", "destinationNumber": profile}
		if a := w.send(t, w.keys.own, body); a.status != http.StatusNotFound || stringOf(a.json(t), "code") != "TEMPLATE_NOT_APPROVED_FOR_PRODUCTION" {
			t.Errorf("LIVE: %d %s", a.status, a.raw)
		}
		if a := w.send(t, w.keys.test, body); a.status != http.StatusAccepted {
			t.Errorf("TEST: %d %s", a.status, a.raw)
		}
	})
	w.check(t, "business_scoped_ids_are_no_numbers", func(t *testing.T) {
		if a := w.send(t, w.keys.own, map[string]any{"destinationNumber": "BR.1349876543210", "text": "x"}); a.status != http.StatusBadRequest {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
	w.check(t, "number_header_selects_nothing", func(t *testing.T) {
		a := w.call(t, request{
			method: http.MethodPost, url: w.v1() + "/messages/send", key: w.keys.own, body: text("decided: number."),
			header: map[string]string{"x-whatsapp-number-id": demo.SharedInstanceID},
		})
		if a.status != http.StatusAccepted || a.json(t)["sourceNumber"] != demo.OwnNumber {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
}
