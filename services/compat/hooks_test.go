package compat

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"pilotstatus.dev/services/demo"
)

func hooksChecks(t *testing.T, w *checks) {
	var mu sync.Mutex
	tried := map[string]int{}
	w.hooks.answers("flaky", func(h hook) int { // fails the first try of each event
		mu.Lock()
		defer mu.Unlock()
		if tried[h.header.Get("webhook-id")]++; tried[h.header.Get("webhook-id")] == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusNoContent // any 2xx is success
	})
	id := stringOf(w.accepted(t, w.keys.own, text("hooks: heard of.")), "id")
	last := w.hooks.event(t, "plain", id, "message.read")

	w.check(t, "union_payload", func(t *testing.T) {
		m := w.await(t, w.keys.own, id, "READ")
		for event, at := range map[string]string{"message.sent": "sentAt", "message.delivered": "deliveredAt", "message.read": "readAt"} {
			data := w.hooks.event(t, "plain", id, event).data(t)
			for field, want := range map[string]any{
				"id": id, "internalMessageId": id, "messageId": m["externalMessageId"], "correlationId": m["correlationId"], "numberId": demo.OwnInstanceID,
				"environment": "LIVE", "destinationNumber": someone, "to": someone, "from": "+" + demo.OwnNumber, "content": "hooks: heard of.",
				"status": map[string]string{"sentAt": "SENT", "deliveredAt": "DELIVERED", "readAt": "READ"}[at],
			} {
				if data[field] != want {
					t.Errorf("%s: %s is %v, want %v", event, field, data[field], want)
				}
			}
			for _, other := range []string{"sentAt", "deliveredAt", "readAt", "failedAt", "errorMessage", "projectSlug", "lastMessageId"} {
				if _, there := data[other]; there != (other == at) {
					t.Errorf("%s: %s is there: %t", event, other, there)
				}
			}
			if stringOf(data, "createdAt") != stringOf(data, at) {
				t.Errorf("%s: createdAt is %v, %s is %v", event, data["createdAt"], at, data[at])
			}
		}
	})
	w.check(t, "failed_payload", func(t *testing.T) {
		failed := w.failing(t, "hooks: refused by the gateway.")
		data := w.hooks.event(t, "plain", failed, "message.failed").data(t)
		if id, there := data["messageId"]; !there || id != nil || stringOf(data, "failedAt") == "" || stringOf(data, "errorMessage") == "" ||
			data["errorCode"] != "GATEWAY_REJECTED" || data["status"] != "FAILED" {
			t.Error(data)
		}
	})
	w.check(t, "event_and_id_are_one", func(t *testing.T) {
		seen := map[string]bool{}
		for _, h := range w.hooks.of("plain", id) {
			key := stringOf(objectOf(t, h.body), "event") + stringOf(h.data(t), "id")
			if seen[key] {
				t.Errorf("%s came twice", h.body)
			}
			seen[key] = true
		}
		if len(seen) != 3 {
			t.Errorf("%d events", len(seen))
		}
	})
	w.check(t, "url_as_it_is", func(t *testing.T) {
		if h := w.hooks.event(t, "c3", id, "message.read"); h.uri != "/c3"+c3Query {
			t.Error(h.uri)
		}
	})
	w.check(t, "subscriptions", func(t *testing.T) {
		w.hooks.event(t, "c1", id, "message.sent") // "*"
		if n := len(w.hooks.of("none", id)); n != 0 {
			t.Errorf("an endpoint without events got %d", n)
		}
		w.hooks.event(t, "flaky", id, "message.read")
		for _, h := range w.hooks.of("flaky", id) {
			if stringOf(objectOf(t, h.body), "event") != "message.read" {
				t.Errorf("not subscribed: %s", h.body)
			}
		}
	})
	w.check(t, "repeats_have_one_body", func(t *testing.T) {
		var got []hook
		eventually(t, "the second try", func() bool { got = w.hooks.of("flaky", id); return len(got) >= 2 }, nil)
		if !bytes.Equal(got[0].body, got[1].body) || got[0].header.Get("webhook-id") != got[1].header.Get("webhook-id") || got[1].said != http.StatusNoContent {
			t.Errorf("%s\n%s", got[0].body, got[1].body)
		}
	})
	w.check(t, "retention_0", func(t *testing.T) {
		private := stringOf(w.accepted(t, w.keys.private, text("hooks: kept by nobody.")), "id")
		data := w.hooks.event(t, "plain", private, "message.delivered").data(t)
		for _, f := range []string{"destinationNumber", "to", "content"} {
			if v, there := data[f]; !there || v != "" {
				t.Errorf("%s is %v", f, v)
			}
		}
		for _, f := range []string{"id", "messageId", "correlationId", "status", "createdAt", "deliveredAt"} {
			if stringOf(data, f) == "" {
				t.Errorf("%s is empty", f)
			}
		}
	})
	w.check(t, "signature_only_adds", func(t *testing.T) {
		verifier, err := standardwebhooks.NewWebhook(w.hooks.secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(last.body, last.header); err != nil {
			t.Error(err)
		}
		for _, guessed := range []string{"X-Pilot-Status-Signature", "X-Webhook-Signature", "X-Signature", "Authorization"} {
			if last.header.Get(guessed) != "" {
				t.Errorf("%s is claimed", guessed)
			}
		}
	})
	w.check(t, "cancel_tells_nobody", func(t *testing.T) {
		canceled := stringOf(w.accepted(t, w.keys.own, with(text("hooks: canceled."), "deliverAt", ahead(time.Hour))), "id")
		w.cancel(t, w.keys.own, canceled)
		w.await(t, w.keys.own, canceled, "CANCELED")
		next := stringOf(w.accepted(t, w.keys.own, text("hooks: after the cancel.")), "id")
		w.hooks.event(t, "plain", next, "message.read")
		if n := len(w.hooks.of("plain", canceled)); n != 0 {
			t.Errorf("%d events", n)
		}
	})
}
