package queue

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
)

func mustHold(t *testing.T, q *Queue, id string, now time.Time, want Hold) {
	t.Helper()
	if got := q.MayStart(id, now); got != want {
		t.Errorf("start of %s: %q, want %q", id, got, want)
	}
	if s, ok := q.Next(now); ok && want != HoldNone && s.Entry.ID == id {
		t.Errorf("%s was chosen although it is held: %q", id, want)
	} else if !ok && want == HoldNone {
		t.Errorf("nothing was chosen although %s may start", id)
	}
}

func mustClose(t *testing.T, q *Queue, id, reason string, now time.Time, want Hold) {
	t.Helper()
	if got := q.MayClose(id, reason, now); got != want {
		t.Errorf("end %s of %s: %q, want %q", reason, id, got, want)
	}
}

func policy(p Policy) Rules {
	r := DefaultRules()
	r.Policies = map[events.Category]Policy{events.OTP: p, events.Utility: p, events.Marketing: p}
	return r
}

func concurrent(c int) Rules {
	r := DefaultRules()
	r.Concurrency = c
	return r
}

func TestR1FewerThanCOpenStarts(t *testing.T) {
	t.Parallel()
	for _, c := range []int{0, 1, 2, 3} {
		p := newTape()
		for i, id := range []string{"a", "b", "c", "d"} {
			p.queued(msg{id: id, slot: uint8(i)})
		}
		q := p.queue(concurrent(c))
		for i, id := range []string{"a", "b", "c", "d"} {
			want := HoldNone
			if i >= max(1, c) {
				want = HoldConcurrency
			}
			mustHold(t, q, id, p.now, want)
			if want == HoldNone {
				p.started(id, 1)
				q.Apply(p.log[len(p.log)-1])
			}
		}
	}
}

func TestR1NoneInThisSlotNoneOfThisMessage(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a", slot: 1})
	p.queued(msg{id: "b", slot: 1})
	p.queued(msg{id: "c", slot: 2})
	p.started("a", 1)
	q := p.queue(concurrent(5))
	mustHold(t, q, "a", p.now, HoldOpenStart)
	mustHold(t, q, "b", p.now, HoldSlot)
	mustHold(t, q, "c", p.now, HoldNone)
	mustClose(t, q, "a", events.ClosedCanceled, p.now, HoldOpenStart)
	mustClose(t, q, "b", events.ClosedCanceled, p.now, HoldNone)
}

// A receipt may be here before the answer of the call it speaks of: the call still holds its slot (promise P5).
func TestR1AProvedStartIsStillOpen(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1} {
		p := newTape()
		p.queued(msg{id: "a"})
		p.queued(msg{id: "b"})
		p.started("a", 1)
		p.proved("a", n)
		q := p.queue(DefaultRules())
		q.Compact(p.seq, p.now)
		mustHold(t, q, "b", p.now, HoldConcurrency)
		if open := q.Open(); len(open) != 1 || open[0].ID != "a" {
			t.Fatalf("open %v", open)
		}
		p.accepted("a", 1, "G")
		q.Apply(p.log[len(p.log)-1])
		mustHold(t, q, "b", p.now, HoldNone)
		q.Compact(p.seq, p.now)
		if q.Len() != 1 {
			t.Errorf("%d left", q.Len())
		}
	}
}

func TestR1NothingFollowsAnEndAProofOrAnAcceptance(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(*tape){
		"accepted":            func(p *tape) { p.started("a", 1); p.accepted("a", 1, "G") },
		"accepted without id": func(p *tape) { p.started("a", 1); p.accepted("a", 1, "") },
		"refused":             func(p *tape) { p.started("a", 1); p.refused("a", 1) },
		"proved":              func(p *tape) { p.started("a", 1); p.unknown("a", 1); p.proved("a", 1) },
		"proved of no number": func(p *tape) { p.started("a", 1); p.unknown("a", 1); p.proved("a", 0) },
		"canceled":            func(p *tape) { p.ended(events.ClosedCanceled, "a") },
		"closed of many":      func(p *tape) { p.queued(msg{id: "z"}); p.ended(events.ClosedExpired, "z", "a") },
		"presumed":            func(p *tape) { p.started("a", 1); p.unknown("a", 1); p.ended(events.ClosedTimeout, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTape()
			p.queued(msg{id: "a"})
			settle(p)
			q := p.queue(policy(AfterAbsence))
			late := p.now.Add(30 * 24 * time.Hour)
			for _, now := range []time.Time{p.now.Add(2 * time.Minute), late} {
				mustHold(t, q, "a", now, HoldNotPending)
				for _, reason := range []string{events.ClosedExpired, events.ClosedCanceled, events.ClosedFailed, events.ClosedTimeout} {
					mustClose(t, q, "a", reason, now, HoldNotPending)
				}
				if c := q.Closes(now, 10); len(c) != 0 {
					t.Errorf("ends %+v", c)
				}
			}
			q.Compact(p.seq, late)
			if q.Len() != 0 || q.Floor() != p.seq {
				t.Errorf("%d left after compaction to %d", q.Len(), q.Floor())
			}
		})
	}
}

func TestR3OnlyWhatIsPendingStarts(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	q := p.queue(DefaultRules())
	mustHold(t, q, "b", p.now, HoldNotPending) // a lane may deliver it before the tail has
	mustClose(t, q, "b", events.ClosedCanceled, p.now, HoldNotPending)
	p.queuedSeq["b"] = 50
	p.started("b", 1) // facts without their message: still not pending
	q = p.queue(DefaultRules())
	mustHold(t, q, "b", p.now, HoldConcurrency)
	mustClose(t, q, "b", events.ClosedCanceled, p.now, HoldNotPending)
}

func TestR3ABrokenChainHoldsTheInstance(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	p.queued(msg{id: "b"})
	p.started("a", 1)
	p.deferred("a", 1, 0, events.DispatchDeferred{})
	p.started("a", 2)
	p.refused("a", 2)
	whole := p.queue(DefaultRules())
	mustHold(t, whole, "b", p.now, HoldNone)
	q := New(instance, DefaultRules())
	for i, r := range p.log {
		if i != 3 { // the tail lost one
			q.Apply(r)
		}
	}
	if q.ChainIntact() {
		t.Fatal("a hole is not seen")
	}
	mustHold(t, q, "b", p.now, HoldBroken)
	mustClose(t, q, "b", events.ClosedCanceled, p.now, HoldBroken)
	q.Apply(p.log[3])
	mustHold(t, q, "b", p.now, HoldNone)

	q = New(instance, DefaultRules())
	for i, r := range p.log {
		if i != 3 {
			q.Apply(r)
		}
	}
	q.Compact(p.seq, p.now)
	if q.GroupSequence() != p.group {
		t.Errorf("group at %d, want %d", q.GroupSequence(), p.group)
	}
	mustHold(t, q, "b", p.now, HoldBroken) // for good: what was lost stays lost
}

func TestR5WhatFollowsIsAFunctionOfTheFold(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	p.started("a", 1)
	p.deferred("a", 1, 5, events.DispatchDeferred{Called: true})
	for range 3 { // whoever folds, however often it was asked before
		q := p.queue(DefaultRules())
		mustHold(t, q, "a", after(4.9), HoldNotDue)
		for range 3 {
			s, ok := q.Next(after(5))
			if !ok || s.Entry.ID != "a" || s.Attempt != 2 || s.Fresh {
				t.Fatalf("%+v %v", s, ok)
			}
		}
		if wake := p.queue(DefaultRules()).Wake(p.now); !wake.Equal(after(5)) {
			t.Errorf("wakes at %v", wake)
		}
	}
}

func TestR7WithAnUnknownAttemptAnEndIsOnlyPresumed(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a", deliverUntil: after(100)})
	p.started("a", 1)
	p.unknown("a", 1)
	for _, absence := range []bool{false, true} { // absence is no disproof
		if absence {
			p.absent("a", 1)
		}
		q := p.queue(DefaultRules())
		for _, reason := range []string{events.ClosedExpired, events.ClosedCanceled, events.ClosedFailed} {
			mustClose(t, q, "a", reason, after(5000), HoldOutstanding)
		}
		mustClose(t, q, "a", events.ClosedTimeout, after(699), HoldNotOver)
		mustClose(t, q, "a", events.ClosedTimeout, after(700), HoldNone)
		if c := q.Closes(after(699.9), 10); len(c) != 0 {
			t.Errorf("ends %+v", c)
		}
		c := q.Closes(after(700), 10)
		if len(c) != 1 || c[0].Reason != events.ClosedTimeout || c[0].Code != events.FailDeliveryTimeout || !c[0].Presumed {
			t.Errorf("ends %+v", c)
		}
	}
	p.disproved("a", 1, "")
	q := p.queue(DefaultRules())
	mustClose(t, q, "a", events.ClosedTimeout, after(5000), HoldNoneOutstand)
	if c := q.Closes(after(100), 10); len(c) != 1 || c[0].Code != events.FailExpiredAfterAttempts || c[0].Presumed {
		t.Errorf("ends %+v", c)
	}
}

func TestR8TheNextAttemptNeedsPermission(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		steps        func(*tape)
		never, after Hold
	}{
		{"deferred", func(p *tape) { p.deferred("a", 1, 0, events.DispatchDeferred{Called: true}) }, HoldNone, HoldNone},
		{"unknown", func(p *tape) { p.unknown("a", 1) }, HoldUnknown, HoldUnknown},
		{"disproved", func(p *tape) { p.unknown("a", 1); p.disproved("a", 1, "") }, HoldNone, HoldNone},
		{"absent", func(p *tape) { p.unknown("a", 1); p.absent("a", 1) }, HoldUnknown, HoldNone},
		{"absent, then proved", func(p *tape) { p.unknown("a", 1); p.absent("a", 1); p.proved("a", 1) }, HoldNotPending, HoldNotPending},
		{"proved of no number after absent", func(p *tape) { p.unknown("a", 1); p.absent("a", 1); p.proved("a", 0) }, HoldNotPending, HoldNotPending},
		{"disproved with a final code", func(p *tape) { p.unknown("a", 1); p.disproved("a", 1, events.FailGatewayRejected) }, HoldExhausted, HoldExhausted},
		{"second unknown after absent first", func(p *tape) { p.unknown("a", 1); p.absent("a", 1); p.started("a", 2); p.unknown("a", 2) }, HoldUnknown, HoldUnknown},
		{
			"second deferred after absent first",
			func(p *tape) {
				p.unknown("a", 1)
				p.absent("a", 1)
				p.started("a", 2)
				p.deferred("a", 2, 0, events.DispatchDeferred{Called: true})
			},
			HoldNone, HoldNone,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newTape()
			p.queued(msg{id: "a"})
			p.started("a", 1)
			c.steps(p)
			now := after(120) // the breaker is closed again
			mustHold(t, p.queue(policy(Never)), "a", now, c.never)
			mustHold(t, p.queue(policy(AfterAbsence)), "a", now, c.after)
			q := p.queue(policy(Never)) // a change of policy works on what is there
			q.SetRules(policy(AfterAbsence))
			mustHold(t, q, "a", now, c.after)
			q.SetRules(policy(Never))
			mustHold(t, q, "a", now, c.never)
		})
	}
}

func TestR10RefusedAfterProvedIsNoEnd(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	p.started("a", 1)
	p.unknown("a", 1)
	p.absent("a", 1)
	p.started("a", 2)
	p.proved("a", 1)
	p.refused("a", 2)
	q := p.queue(policy(AfterAbsence))
	e, ok := q.Entry("a")
	if !ok || e.Summary().End != nil || !e.Summary().Proved {
		t.Fatalf("%+v", e)
	}
	mustHold(t, q, "a", after(500), HoldNotPending)
	if c := q.Closes(after(1e6), 10); len(c) != 0 || len(q.Open()) != 0 {
		t.Errorf("ends %+v", c)
	}
}

func TestAnUnreadableEventInTheGroupHoldsTheInstance(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"delegated", "started"} {
		p := newTape()
		p.queued(msg{id: "a", deliverUntil: after(10)})
		p.other(events.GroupMessage, "translated") // outside the group it changes nothing
		p.other("weather", "changed")
		q := p.queue(DefaultRules())
		mustHold(t, q, "a", p.now, HoldNone)
		r := p.other(events.GroupDispatch, name)
		r.Known, r.Type = false, "dispatch."+name+".v9"
		q.Apply(r)
		mustHold(t, q, "a", p.now, HoldUnreadable)
		mustClose(t, q, "a", events.ClosedExpired, after(20), HoldUnreadable)
		if q.GroupSequence() != p.group || len(q.Closes(after(20), 10)) != 0 {
			t.Error("an end was given on a group that was not read")
		}
	}
}
