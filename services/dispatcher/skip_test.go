package dispatcher

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
)

// A fenced event that cannot be read stops its instance, ends included, in this life and the next. Once an operator skips it, and
// nothing else can be skipped, the instance goes on from where it was.
func TestSkipOfAnEventThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keeps()
	d, stop := r.run(quick())
	r.awaitStage(r.accept(order{text: "before"}), events.StageDispatched)
	subject := func(instance string) string {
		return events.EventSubject(r.p, instance, events.GroupDispatch, "translated")
	}
	var strange []uint64
	for _, m := range []*nats.Msg{
		{Subject: subject(instanceID)},
		{Subject: subject(instanceID) + ".By.Hand", Header: nats.Header{"ce-id": {"x"}, "ce-type": {"dispatch.translated.v1"}, "ce-prev": {"1"}}},
	} {
		ack, err := r.js.PublishMsg(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		strange = append(strange, ack.Sequence)
	}
	waits := r.accept(order{text: "waits"})
	over := r.accept(order{text: "over", window: 50 * time.Millisecond})
	accepted := time.Now()
	eventually(t, "a fault", func() bool { return d.Faults() != nil }, nil)
	skip := func(instance string, seq uint64) error {
		_, err := Skip(t.Context(), r.log, r.p, instance, events.DispatchSkipped{Sequence: seq, By: "test", Reason: "published by hand"})
		return err
	}
	for _, c := range []struct {
		name, instance string
		seq            uint64
	}{
		{"an event that can be read", instanceID, strange[0] - 1},
		{"a message", instanceID, strange[1] + 1},
		{"what is not there", instanceID, 1000},
		{"of another instance", "inst-2", strange[0]},
	} {
		if err := skip(c.instance, c.seq); events.CodeOf(err) != events.CodeNotPermitted {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := skip(instanceID, strange[1]); err != nil {
		t.Fatal(err)
	}
	r.awaitFolded(d)
	stop() // the snapshot knows of both
	d, _ = r.run(quick())
	eventually(t, "a fault in the next life", func() bool { return d.Faults() != nil }, nil)
	if n := testutil.ToFloat64(d.metrics.faulty); n != 1 { // an alert stands on it
		t.Errorf("%v instances are counted as stopped", n)
	}
	if n := r.count(waits, events.TypeDispatchStarted) + r.count(over, events.TypeDispatchClosed); n > 0 {
		t.Errorf("%d starts and ends of an instance that is stopped", n)
	}
	eventually(t, "the end of a deadline", func() bool { return time.Since(accepted) > 50*time.Millisecond }, nil)
	if err := skip(instanceID, strange[0]); err != nil {
		t.Fatal(err)
	}
	r.awaitStage(waits, events.StageDispatched)
	r.awaitStage(over, events.StageFailed)
	eventually(t, "no fault", func() bool { return d.Faults() == nil }, nil)
	if n := testutil.ToFloat64(d.metrics.faulty); n != 0 {
		t.Errorf("%v instances are counted as stopped after the last skip", n)
	}
	for _, seq := range strange {
		if err := skip(instanceID, seq); events.CodeOf(err) != events.CodeNotPermitted {
			t.Errorf("again: %v", err)
		}
	}
	q := queue.New(instanceID, queue.DefaultRules()) // whoever folds the log from its first event
	for _, rec := range r.history() {
		q.Apply(rec)
	}
	if held := q.Held(time.Now().Add(time.Hour)); held != queue.HoldNone {
		t.Errorf("held for %q", held)
	}
}
