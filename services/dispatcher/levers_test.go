package dispatcher

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// retryNow appends an operator's word that the next attempt is due.
func (r *rig) retryNow(id string) {
	r.t.Helper()
	r.about(id, events.TypeMessageRetryRequested, events.EventSubject(r.p, instanceID, events.GroupMessage, "retry_requested"),
		&events.MessageRetryRequested{By: "operator:ana", Reason: "test"})
}

// about appends an event about a message, outside the fenced group.
func (r *rig) about(id, typ, address string, body any) {
	r.t.Helper()
	s, _ := r.state(id)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if _, err := r.log.Append(ctx, events.Event{
		Address: address,
		Envelope: events.Envelope{
			ID: uuid.NewString(), Type: typ, Source: "pilot/test", Time: time.Now().UTC(), Subject: id, TenantID: tenant,
			QueuedSeq: s.Queued.Position.Sequence,
		},
		Body: body,
	}); err != nil {
		r.t.Fatal(err)
	}
}

// An operator's retry of a message that waits for its next attempt makes it go at once.
func TestRetryRequestedGoesNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 429, Body: `{}`, ContentType: "application/json", Headers: map[string]string{"Retry-After": "50"},
		TextContains: "limited", Times: 1,
	})
	r.run(quick())
	id := r.accept(order{text: "limited"})
	eventually(t, "deferred", func() bool { return r.count(id, events.TypeDispatchDeferred) == 1 }, func() string { return r.story(id) })
	began := time.Now()
	r.retryNow(id)
	v := r.awaitStage(id, events.StageDispatched)
	if took := time.Since(began); took > 30*time.Second || v.Attempts != 2 || r.ledger("limited") != 1 {
		t.Fatalf("after %s: %+v\n%s", took, v, r.story(id))
	}
}

// R8: an operator's word that an unknown attempt had no effect permits the next one, also when the budget was spent.
func TestR8AnOperatorsDisproofPermitsTheNextAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "hang", When: "before", TextContains: "lost", Times: 1})
	set := quick()
	set.CallLimit, set.Budget = 300*time.Millisecond, 200*time.Millisecond
	set.LookUps = []time.Duration{time.Minute}
	set.Rules.Quiet = time.Hour // ends with the doubt
	set.Rules.Attempts = map[events.Category]int{events.OTP: 1}
	r.run(set)
	id := r.accept(order{text: "lost"})
	r.awaitUnknown(id)
	r.successor(id, events.TypeDispatchDisproved, "disproved",
		&events.DispatchDisproved{By: events.DisprovedOperator, Who: "operator:ana", Reason: "not on the phone"})
	v := r.awaitStage(id, events.StageDispatched)
	if r.called(id) != 2 || r.ledger("lost") != 1 {
		t.Fatalf("%+v, ledger %d\n%s", v, r.ledger("lost"), r.story(id))
	}
}

// An operator may be wrong: an acceptance that comes after the word, and before another call, is the proof, and nothing is sent again.
func TestALateAcceptanceIsStrongerThanAnOperatorsWord(t *testing.T) {
	t.Parallel()
	r, id := answerLate(t, evolutionsim.Fault{})
	r.instanceEvent(events.TypeInstancePaused, "paused")
	r.successor(id, events.TypeDispatchDisproved, "disproved",
		&events.DispatchDisproved{By: events.DisprovedOperator, Who: "operator:ana", Reason: "not on the phone"})
	r.awaitStage(id, events.StageDispatched)
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(r.accept(order{text: "next"}), events.StageDispatched)
	if n := r.count(id, events.TypeDispatchStarted); n != 1 || r.ledger("slow") != 1 || r.count(id, events.TypeDispatchProved) != 1 {
		t.Fatalf("%d starts, ledger %d\n%s", n, r.ledger("slow"), r.story(id))
	}
}

// C3 case 50: a drain lets out what was accepted before it; what is left of it is told, and what comes after goes when it is resumed.
func TestADrainEndsWithNothingLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.run(quick())
	before := r.accept(order{text: "before", deliverAt: time.Now().Add(3 * time.Second)}) // after it was seen to wait
	r.instanceEvent(events.TypeInstanceDraining, "draining")
	after := r.accept(order{text: "after"})
	left := func() (held bool, n int) {
		l := d.parts[0].report(time.Now()).Instances[instanceID]
		return l.Held && l.Drains, l.Left
	}
	eventually(t, "one is left", func() bool { held, n := left(); return held && n == 1 }, nil)
	r.awaitStage(before, events.StageDispatched)
	eventually(t, "none is left", func() bool { held, n := left(); return held && n == 0 }, nil)
	if r.count(after, events.TypeDispatchStarted) != 0 {
		t.Fatalf("what came after a drain began:\n%s", r.story(after))
	}
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(after, events.StageDispatched)
}
