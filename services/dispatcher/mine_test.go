package dispatcher

import (
	"strings"
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
	lay := r.ghost(d) // another one took over while it was paused
	a.mu.Lock()
	a.mine["lost nonce"] = true
	a.mu.Unlock()
	r.foreign(id, events.TypeDispatchStarted, events.TypeDispatchUnknown)
	eventually(t, "disproved", func() bool { return r.count(id, events.TypeDispatchDisproved) == 1 }, func() string { return r.story(id) })
	lay()
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	v := r.awaitStage(id, events.StageDispatched)
	if n := r.ledger("paused before its call"); n != 1 || v.Attempts != 2 {
		t.Fatalf("ledger %d, view %+v\n%s", n, v, r.story(id))
	}
}

// A process that is told to end before it came to that says it on its way out, also of a start that is still open.
func TestR1StartThatWasNotCalledIsGivenBackAtAStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says []string
		want string
	}{
		"a successor called it unknown": {[]string{events.TypeDispatchStarted, events.TypeDispatchUnknown}, events.TypeDispatchDisproved},
		"it is still open":              {[]string{events.TypeDispatchStarted}, events.TypeDispatchDeferred},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			set := quick()
			set.SuccessorWait = time.Hour
			d, stop := r.run(set)
			r.instanceEvent(events.TypeInstancePaused, "paused")
			id := r.accept(order{text: "told to end"})
			r.awaitFolded(d)
			a := d.parts[0].actor(instanceID)
			forget := func(nonce string) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.mine[nonce] = true
			}
			forget("a nonce that never landed") // so that it goes on, whoever owns the instance
			lay := r.ghost(d)
			r.foreign(id, c.says...)
			r.awaitFolded(d)
			forget("lost nonce")
			stop()
			lay()
			if n := r.count(id, c.want); n != 1 {
				t.Fatalf("%d times %s:\n%s", n, c.want, r.story(id))
			}
			r.instanceEvent(events.TypeInstanceResumed, "resumed")
			r.run(quick())
			r.awaitStage(id, events.StageDispatched)
			if n := r.ledger("told to end"); n != 1 {
				t.Errorf("left %d times", n)
			}
		})
	}
}

// Rule R2: a start of the same attempt that another process has put into the log, between this one's choice and its intent, is told
// from its own by the nonce, and is not called.
func TestR2AStartOfAnotherIsNotMine(t *testing.T) {
	t.Parallel()
	r, g, set := gated(t)
	set.SkipNumbers, set.SuccessorWait = false, time.Hour
	d, _ := r.run(set)
	r.prime()
	g.closed.Store(true)
	id := r.accept(order{text: "started by another", number: "5521977776666"})
	g.reached(t)
	r.foreign(id, events.TypeDispatchStarted)
	r.awaitFolded(d)
	g.closed.Store(false)
	g.open <- struct{}{}
	<-time.After(time.Second) // in which nothing may happen
	if n := r.ledger("started by another"); n != 0 {
		t.Fatalf("called %d times\n%s", n, r.story(id))
	}
}

// foreign appends fenced events of a first attempt with the nonce "lost nonce".
func (r *rig) foreign(id string, types ...string) {
	r.t.Helper()
	s, _ := r.state(id)
	var last uint64
	for _, rec := range r.history() {
		if strings.HasPrefix(rec.Type, "dispatch.") {
			last = rec.Position.Sequence
		}
	}
	for _, kind := range types {
		ev := events.Event{Envelope: events.Envelope{Type: kind, Nonce: "lost nonce"}, Body: &events.DispatchStarted{Call: "sendText"}}
		if kind == events.TypeDispatchUnknown {
			ev.Nonce, ev.Body = "", &events.DispatchUnknown{Cause: events.UnknownOwnerGone}
		}
		ev.Address = events.EventSubject(r.p, instanceID, events.GroupDispatch, strings.Split(kind, ".")[1])
		ev.ID, ev.Source, ev.Time, ev.Subject, ev.TenantID, ev.Attempt = newID(), source, time.Now().UTC(), id, tenant, 1
		ev.QueuedSeq = s.Queued.Position.Sequence
		var err error
		if last, err = r.log.AppendFenced(r.t.Context(), r.p, instanceID, ev, last); err != nil {
			r.t.Fatal(err)
		}
	}
}
