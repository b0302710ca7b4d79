package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// Promise P2 for a log that lost events: once an operator has accepted it, nothing that was pending in it starts before a look-up,
// in this fold or in one read from a state; ends and new messages go on. When all were looked up, the event has changed nothing.
func TestNothingInDoubtStartsBeforeALookUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, rules := legalTape(t), drawRules(t)
		rules.Pace = events.Pacing{} // it would hold the new one too
		now := p.now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "now")) * time.Second)
		without := p.queue(rules)
		upTo := p.seq
		p.restored(upTo)
		if rapid.Bool().Draw(t, "twice") {
			p.restored(upTo)
		}
		p.instance("opened") // what comes later is no reason to start
		fresh := msg{id: "new", class: events.ClassOTP, slot: 7, deliverUntil: now.Add(time.Hour)}
		p.queued(fresh)
		q := p.queue(rules)
		if rapid.Bool().Draw(t, "read from a state") {
			q.LookedUp("m0")
			var err error
			if q, err = DecodeState(q.AppendState(nil), rules); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range q.Pending() {
			if held := q.MayStart(e.ID, now); e.QueuedSeq <= upTo && (held == HoldNone || !q.InDoubt(e.ID)) {
				t.Fatalf("%s may start: %q, in doubt %v", e.ID, held, q.InDoubt(e.ID))
			}
		}
		if s, ok := q.Next(now); ok && s.Entry.ID != fresh.id {
			t.Fatalf("%s is next", s.Entry.ID)
		}
		if free := without.Held(now) == HoldNone && without.draining <= max(without.resumed, without.paused); free && q.MayStart(fresh.id, now) != HoldNone {
			t.Fatalf("a new message is held: %s", q.MayStart(fresh.id, now))
		}
		for i, id := range allIDs {
			q.LookedUp(id)
			if q.InDoubt(id) || i == len(allIDs)-1 && q.Doubts() > 0 {
				t.Fatalf("%s is in doubt after its look-up", id)
			}
		}
		same := New(instance, rules) // without the event
		for _, r := range p.log {
			if r.Type != events.TypeDispatchRestored || r.Position.Sequence <= upTo {
				same.Apply(r)
			}
		}
		for _, id := range allIDs {
			same.LookedUp(id)
		}
		want, got := look(same, now), look(q, now)
		want.Group, got.Group, want.Turns, got.Turns = 0, 0, nil, nil
		if diff := cmp.Diff(want, got, entries); diff != "" {
			t.Fatalf("(-without +looked up):\n%s", diff)
		}
	})
}

// What was appended twice counts once, and only for what was accepted before; the widest word counts.
func TestRestoredTwiceIsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, rules := legalTape(t), drawRules(t)
		upTo := uint64(rapid.IntRange(0, int(p.seq)).Draw(t, "up to"))
		p.restored(upTo)
		once := look(p.queue(rules), p.now)
		p.restored(uint64(rapid.IntRange(0, int(upTo)).Draw(t, "again up to")))
		twice := look(p.queue(rules), p.now)
		once.Group, twice.Group = 0, 0
		if diff := cmp.Diff(once, twice, entries); diff != "" {
			t.Fatalf("(-once +twice):\n%s", diff)
		}
	})
}

func TestDoubt(t *testing.T) {
	t.Parallel()
	called := events.DispatchDeferred{Called: true}
	for _, c := range []struct {
		name  string
		steps func(*tape)
		want  Hold
	}{
		{"never tried", func(p *tape) { p.restored(1) }, HoldDoubt},
		{"accepted after the word", func(p *tape) { p.restored(0) }, HoldNone},
		{"tried before", func(p *tape) { p.started("a", 1); p.deferred("a", 1, 0, called); p.restored(3) }, HoldDoubt},
		{"tried since", func(p *tape) { p.restored(1); p.started("a", 1); p.deferred("a", 1, 0, called) }, HoldNone},
		{"begun before, ended since", func(p *tape) { p.started("a", 1); p.restored(2); p.deferred("a", 1, 0, called) }, HoldDoubt},
		{"tried since, and lost again", func(p *tape) {
			p.restored(1)
			p.started("a", 1)
			p.deferred("a", 1, 0, called)
			p.restored(4)
		}, HoldDoubt},
		{"unknown", func(p *tape) { p.started("a", 1); p.unknown("a", 1); p.restored(3) }, HoldUnknown},
		{"proved", func(p *tape) { p.restored(1); p.proved("a", 0) }, HoldNotPending},
		{"canceled", func(p *tape) { p.restored(1); p.ended(events.ClosedCanceled, "a") }, HoldNotPending},
		{"out of attempts", func(p *tape) { p.restored(1); p.started("a", 1); p.disproved("a", 1, events.FailGatewayRejected) }, HoldExhausted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newTape()
			p.queued(msg{id: "a", deliverUntil: after(600)})
			c.steps(p)
			rules := DefaultRules()
			rules.Quiet = 0
			q := p.queue(rules)
			mustHold(t, q, "a", after(1), c.want)
			if q.InDoubt("a") != (c.want == HoldDoubt || c.name == "unknown") || q.Doubts() != len(q.Doubtful()) {
				t.Errorf("in doubt: %v", q.InDoubt("a"))
			}
			if c.want == HoldDoubt {
				mustClose(t, q, "a", events.ClosedExpired, after(600), HoldNone)
			}
		})
	}
}

// A look-up counts for the doubt it was made in, and whoever reads only headers, or a body that says nonsense, holds all.
func TestDoubtComesAgain(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	first := p.restored(1)
	q := p.queue(DefaultRules())
	q.LookedUp("a")
	mustHold(t, q, "a", p.now, HoldNone)
	q.Apply(first)
	mustHold(t, q, "a", p.now, HoldNone)
	p.at(9).queued(msg{id: "b"})
	q.Apply(p.log[2])
	again := p.restored(99)
	again.Body = nil
	q.Apply(again)
	var ids []string
	for _, e := range q.Doubtful() {
		ids = append(ids, e.ID)
	}
	if upTo, at := q.Restored(); !slices.Equal(ids, []string{"a", "b"}) || upTo != 4 || !at.Equal(after(9)) {
		t.Errorf("in doubt %v, up to %d at %v", fmt.Sprint(ids), upTo, at)
	}
}
