package notifier

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
)

func (r *rig) entry(id string) (e events.Endpoint) {
	r.feed.Read(func(c *catalog.Catalog) { e, _ = c.Endpoint(id) })
	return e
}

// byNotifier lists what the notifier made of an endpoint.
func (r *rig) byNotifier(id string) (all []events.Endpoint) {
	r.t.Helper()
	recs, err := r.log.History(r.ctx(), events.ControlSubject(events.KindEndpoint, id), 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, rec := range recs {
		if d := rec.Body.(*events.Defined[events.Endpoint]); d.By == "notifier" && d.Reason != "" {
			all = append(all, d.Value)
		}
	}
	return all
}

// An endpoint is switched off exactly at the limit, once, with two workers; what it misses is on record; its owner's word begins anew.
func TestCase76EndpointIsSwitchedOffAtTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var good atomic.Bool
	rc := r.receive("ep1", func(_ int, w http.ResponseWriter) {
		if !good.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	set := WorkerSettings{Waits: []time.Duration{}, DisableAfter: 3}
	r.worker(set)
	r.worker(set)
	n := 0
	told := func(ends string, tries int) {
		t.Helper()
		n++
		r.tell(fmt.Sprint("msg_", n), 30)
		rc.next(t)
		if subjects, _ := r.attempts("ep1", tries); results(subjects)[tries-1] != ends {
			t.Fatalf("try %d ended %s, want %s", tries, results(subjects)[tries-1], ends)
		}
	}
	told("exhausted", 1)
	told("exhausted", 2)
	good.Store(true)
	told("succeeded", 3)
	good.Store(false)
	told("exhausted", 4)
	told("exhausted", 5)
	if e := r.entry("ep1"); !e.Active || e.Disabled != nil {
		t.Fatalf("below the limit: %+v", e.Disabled)
	}
	told("exhausted", 6)
	awaittest.Eventually(t, limit, 20*time.Millisecond, "it is switched off", func() bool { return !r.entry("ep1").Active }, nil)
	if all := r.byNotifier("ep1"); len(all) != 1 || all[0].Disabled.Reason != events.DisabledFailing || all[0].Disabled.Failures != 3 || all[0].Disabled.At.IsZero() {
		t.Errorf("control says %+v", all)
	}
	if _, tries := r.attempts("ep1", 7); tries[6].Event != events.CustomerWebhookDisabled || tries[6].Reason != events.DisabledFailing || tries[6].Attempt != 0 {
		t.Errorf("the log of deliveries says %+v", tries[6])
	}
	r.tell("msg_missed", 30)
	subjects, tries := r.attempts("ep1", 8)
	missed := tries[7]
	if results(subjects)[7] != events.HookExhausted || missed.Reason != reasonOff || missed.Attempt != 0 || missed.Delivery == nil || missed.MessageID != "msg_missed" {
		t.Errorf("missed: %+v", missed)
	}
	if len(rc.calls) > 0 {
		t.Error("it is called while it is off")
	}

	r.endpoint("ep1", rc.URL, nil) // its owner's word
	told("exhausted", 9)
	told("exhausted", 10)
	if !r.entry("ep1").Active {
		t.Error("failures before it was switched on count")
	}
	good.Store(true)
	told("succeeded", 11)
	r.replay(r.recordedIDs("ep1", 8)[7][:32], "r1", missed)
	if h := rc.next(t); h.Data["id"] != "msg_missed" {
		t.Errorf("replayed: %s", h.Body)
	}
}

// Many deliveries that end at once switch an endpoint off once.
func TestCase76ManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", status(http.StatusForbidden))
	r.endpoint("ep1", rc.URL, nil)
	stop := r.fanout(FanoutSettings{})
	for n := range 12 {
		r.tell(fmt.Sprint("msg_", n), 30)
	}
	awaittest.Eventually(t, limit, 20*time.Millisecond, "all wait", func() bool {
		last, err := r.log.LastSequence(r.ctx(), events.HooksStream(events.HookShard("ep1")))
		return err == nil && last == 12
	}, nil)
	stop()
	set := WorkerSettings{Waits: []time.Duration{}, DisableAfter: 5}
	r.worker(set)
	r.worker(set)
	awaittest.Eventually(t, limit, 20*time.Millisecond, "it is switched off", func() bool { return !r.entry("ep1").Active }, nil)
	note := func() bool {
		found := false
		end := errors.New("end")
		_ = r.log.Tail(r.ctx(), eventlog.TailConfig{Stream: events.StreamHookLog}, func(_ context.Context, b eventlog.Batch) error {
			for _, rec := range b.Events {
				found = found || rec.Body.(*events.HookAttempt).Event == events.CustomerWebhookDisabled
			}
			if b.CaughtUp {
				return end
			}
			return nil
		})
		return found
	}
	awaittest.Eventually(t, limit, 20*time.Millisecond, "it is noted", note, nil)
	if all := r.byNotifier("ep1"); len(all) != 1 || all[0].Disabled.Failures != 5 {
		t.Errorf("control says %+v", all)
	}
	if n := len(rc.calls); n < 5 || n > 12 {
		t.Errorf("called %d times", n)
	}
}

// Only a 410 stops an endpoint before the limit, and only at the address that said so.
func TestCase78OnlyGoneStopsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gone, busy := r.receive("ep1", status(http.StatusGone)), r.receive("ep2", status(http.StatusInternalServerError))
	r.endpoint("ep1", gone.URL, nil)
	r.endpoint("ep2", busy.URL, nil)
	r.endpoint("ep3", "http://no-such-host.invalid/", nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{Waits: []time.Duration{}})
	r.tell("msg_1", 30)
	awaittest.Eventually(t, limit, 20*time.Millisecond, "it is switched off", func() bool { return !r.entry("ep1").Active }, nil)
	if all := r.byNotifier("ep1"); len(all) != 1 || all[0].Disabled.Reason != events.DisabledGone || all[0].URL != gone.URL {
		t.Errorf("control says %+v", all)
	}
	r.attempts("ep2", 1)
	r.attempts("ep3", 1)
	for _, id := range []string{"ep2", "ep3"} {
		if e := r.entry(id); !e.Active || len(r.byNotifier(id)) > 0 {
			t.Errorf("%s is switched off: %+v", id, e)
		}
	}
	w := NewWorker(r.log, r.feed, r.keys, nil, WorkerSettings{})
	moved := r.entry("ep2")
	moved.URL = gone.URL
	if err := w.weigh(r.ctx(), moved, true); err != nil || !r.entry("ep2").Active {
		t.Errorf("what another address said switches it off: %v", err)
	}
}
