package dispatcher

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
)

// A process that was paused between its intent and its call finds that a successor has called the attempt unknown. It alone knows
// that nothing was called, and once let the message fail at its deadline.
func TestR1StartThatWasNotCalledIsDisproved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.SuccessorWait = time.Hour
	d, _ := r.run(set)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	id := r.accept(order{text: "paused before its call"})
	a := d.parts[0].actor(instanceID)
	eventually(t, "folded, and the actor at work", func() bool {
		a.mu.Lock()
		_, ok := a.q.Entry(id)
		a.mu.Unlock()
		d.parts[0].mu.Lock()
		defer d.parts[0].mu.Unlock()
		return ok && d.parts[0].running[instanceID]
	}, nil)
	d.leading.Store(false) // the lease went while it was paused
	a.mu.Lock()
	a.mine["lost nonce"] = true
	a.mu.Unlock()
	s, _ := r.state(id)
	var last uint64
	for _, ev := range []events.Event{
		{Envelope: events.Envelope{Type: events.TypeDispatchStarted, Nonce: "lost nonce"}, Body: &events.DispatchStarted{Call: "sendText"}},
		{Envelope: events.Envelope{Type: events.TypeDispatchUnknown}, Body: &events.DispatchUnknown{Cause: causeOwnerGone}},
	} {
		name := map[string]string{events.TypeDispatchStarted: "started", events.TypeDispatchUnknown: "unknown"}[ev.Type]
		ev.Address = events.EventSubject(r.p, instanceID, events.GroupDispatch, name)
		ev.ID, ev.Source, ev.Time, ev.Subject, ev.TenantID, ev.Attempt = newID(), source, time.Now().UTC(), id, tenant, 1
		ev.QueuedSeq = s.Queued.Position.Sequence
		var err error
		if last, err = r.log.AppendFenced(t.Context(), r.p, instanceID, ev, last); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "disproved", func() bool { return r.count(id, events.TypeDispatchDisproved) == 1 }, func() string { return r.story(id) })
	d.leading.Store(true)
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	v := r.awaitStage(id, events.StageDispatched)
	if n := r.ledger("paused before its call"); n != 1 || v.Attempts != 2 {
		t.Fatalf("ledger %d, view %+v\n%s", n, v, r.story(id))
	}
}
