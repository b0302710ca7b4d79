package compat

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/services/demo"
)

func behaveChecks(t *testing.T, w *checks) {
	w.check(t, "default_windows", func(t *testing.T) {
		for window, c := range map[time.Duration]struct {
			template string
			values   map[string]any
		}{
			2 * time.Minute: {demo.TemplateOTP, map[string]any{"code": "090807"}},
			time.Hour:       {"plain-notice", nil},
			4 * time.Hour:   {demo.TemplateMarket, map[string]any{"name": "a"}},
		} {
			at := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Millisecond)
			out := w.accepted(t, w.keys.own, map[string]any{
				"destinationNumber": someone, "templateId": c.template, "variables": c.values, "deliverAt": at.Format(time.RFC3339Nano),
			})
			if until, err := time.Parse(time.RFC3339Nano, stringOf(out, "deliverUntil")); err != nil || until.Sub(at) != window {
				t.Errorf("%s: %s, %v", c.template, until.Sub(at), err)
			}
			w.cancel(t, w.keys.own, stringOf(out, "id"))
		}
	})
	w.check(t, "failed_after_its_window", func(t *testing.T) {
		until := time.Now().Add(5 * time.Second).Truncate(time.Millisecond) // as it is kept
		id := stringOf(w.accepted(t, w.keys.away, with(text("behave: nobody sends it."), "deliverUntil", until.UTC().Format(time.RFC3339Nano))), "id")
		e := w.hooks.event(t, "away", id, "message.failed").data(t)
		if e["status"] != "FAILED" || stringOf(e, "errorMessage") == "" || w.left("behave: nobody sends it.") != 0 {
			t.Error(e)
		}
		if at, err := time.Parse(time.RFC3339Nano, stringOf(e, "failedAt")); err != nil || at.Before(until) || at.Sub(until) > 15*time.Second { // 5 s, and what a machine may stand still
			t.Errorf("failed %s after its window, %v", at.Sub(until), err)
		}
		var m map[string]any
		eventually(t, "the read says so", func() bool {
			a := w.read(t, w.keys.away, id)
			m = a.json(t)
			return a.status == http.StatusOK && m["status"] == "FAILED"
		}, nil)
		if stringOf(m, "errorMessage") == "" {
			t.Error(m)
		}
	})
	w.check(t, "sent_on_evidence_only", func(t *testing.T) {
		const body = "behave: its receipts are lost."
		w.fault(t, fault{Kind: "receipts", Mode: "lost", TextContains: body})
		id := stringOf(w.accepted(t, w.keys.own, text(body)), "id")
		eventually(t, "it left", func() bool { return w.left(body) == 1 }, nil)
		var m map[string]any
		eventually(t, "the gateway took it", func() bool {
			m = w.read(t, w.keys.own, id).json(t)
			return m["stage"] == "DISPATCHED"
		}, nil)
		if m["status"] != "QUEUED" || m["sentAt"] != nil {
			t.Error(m)
		}
	})
	w.check(t, "no_status_goes_back", func(t *testing.T) {
		const body = "behave: its receipts come in reverse."
		w.fault(t, fault{Kind: "receipts", Mode: "reversed", TextContains: body})
		id := stringOf(w.accepted(t, w.keys.own, text(body)), "id")
		w.await(t, w.keys.own, id, "READ")
		w.hooks.event(t, "plain", id, "message.read")
		later := stringOf(w.accepted(t, w.keys.own, text("behave: after it.")), "id")
		w.hooks.event(t, "plain", later, "message.read") // what came late has been folded by now
		if m := w.read(t, w.keys.own, id).json(t); m["status"] != "READ" {
			t.Error(m)
		}
	})
	w.check(t, "one_id_one_message", func(t *testing.T) {
		var all sync.WaitGroup
		ids := make([]string, 10)
		for i := range ids { // the same body ten times is ten messages, each once
			all.Go(func() { ids[i] = stringOf(w.accepted(t, w.keys.own, text("behave: ten of them.")), "id") })
		}
		all.Wait()
		for _, id := range ids {
			w.await(t, w.keys.own, id, "READ")
		}
		if n := w.left("behave: ten of them."); n != len(ids) {
			t.Errorf("%d left", n)
		}
	})
	w.check(t, "an_absent_number_takes_messages", func(t *testing.T) {
		// A bound number that was never seen connected takes messages, which wait inside their windows; one that was seen to be
		// closed for a minute refuses them with 409.
		id := stringOf(w.accepted(t, w.keys.away, with(text("behave: waits."), "deliverUntil", ahead(time.Minute))), "id")
		if a := w.cancel(t, w.keys.away, id); a.status == http.StatusOK && len(listOf(a.json(t), "cancelled")) != 1 {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
}
