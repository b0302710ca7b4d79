package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// foreign appends an event of the fenced group that nobody here can read; a stranger names no event before it.
func (p *tape) foreign(named bool) uint64 {
	r := p.other(events.GroupDispatch, "delegated")
	if !named {
		p.log[len(p.log)-1].Address = events.EventSubject(1, instance, events.GroupDispatch, "Started.by-hand")
		p.log[len(p.log)-1].Known, p.log[len(p.log)-1].Type = true, events.TypeDispatchStarted
		p.log[len(p.log)-1].Prev = 0
	}
	return r.Position.Sequence
}

// An operator's word passes over exactly the event that cannot be read: the queue answers as if it had not been there, wherever state
// is written in between; until then it holds.
func TestSkippedIsAsIfItHadNotBeen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before, rules := legalTape(t), drawRules(t)
		p := newTape()
		p.now = before.now
		foreign := map[uint64]bool{}
		put := func() {
			if rapid.IntRange(0, 3).Draw(t, "foreign") == 0 {
				foreign[p.foreign(rapid.Bool().Draw(t, "named"))] = true
			}
		}
		for _, r := range before.log { // the same events at other places
			put()
			r.QueuedSeq = 0
			p.queuedSeq[r.Subject] = p.seq + 1
			if _, ok := r.Body.(*events.DispatchRestored); ok {
				r.Body = &events.DispatchRestored{UpTo: p.seq}
			}
			p.now = r.Time
			p.put(r)
		}
		put()
		clean := New(instance, rules)
		group := uint64(0)
		for _, r := range p.log {
			if foreign[r.Position.Sequence] {
				continue
			}
			if addr, _ := events.ParseEventSubject(r.Address); addr.Group == events.GroupDispatch {
				r.Prev, group = group, r.Position.Sequence
			}
			clean.Apply(r)
		}
		for seq := range foreign {
			p.skipped(seq)
		}
		now := p.now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "now")) * time.Second)
		q := New(instance, rules)
		for i, r := range p.log {
			q.Apply(r)
			if rapid.IntRange(0, 3).Draw(t, "compact") == 0 {
				q.Compact(r.Position.Sequence, time.Time{})
			}
			if rapid.IntRange(0, 3).Draw(t, "state") == 0 {
				var err error
				if q, err = DecodeState(q.AppendState(nil), rules); err != nil {
					t.Fatal(err)
				}
			}
			left := len(q.Unreadable())
			if held := q.Held(now); left > 0 && held != HoldUnreadable && held != HoldBroken {
				t.Fatalf("at %d: %d cannot be read, and it is held for %q", i+1, left, held)
			}
		}
		clean.Compact(p.seq, time.Time{})
		q.Compact(p.seq, time.Time{})
		want, got := look(clean, now), look(q, now)
		want.Group, got.Group, want.Turns, got.Turns = 0, 0, nil, nil
		if diff := cmp.Diff(want, got, entries); diff != "" {
			t.Fatalf("(-never there +skipped):\n%s", diff)
		}
	})
}

// What can be read is not taken back by a skip, and a hole in the chain stays one.
func TestASkipOfWhatCanBeReadMeansNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, rules := legalTape(t), drawRules(t)
		want := look(p.queue(rules), p.now)
		for range rapid.IntRange(1, 3).Draw(t, "skips") {
			p.skipped(uint64(rapid.IntRange(0, int(p.seq)+5).Draw(t, "skipped")))
		}
		got := look(p.queue(rules), p.now)
		want.Group, got.Group = 0, 0
		if diff := cmp.Diff(want, got, entries); diff != "" {
			t.Fatalf("(-before +skipped):\n%s", diff)
		}
	})
}

func TestSkip(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	first, second := p.foreign(true), p.foreign(false)
	q := p.queue(DefaultRules())
	if got := q.Unreadable(); !slices.Equal(got, []uint64{first, second}) {
		t.Errorf("unreadable: %v", got)
	}
	mustHold(t, q, "a", p.now, HoldBroken)
	q.Compact(p.seq, p.now)
	q.Apply(p.skipped(second))
	mustHold(t, q, "a", p.now, HoldUnreadable)
	q.Apply(p.skipped(first))
	mustHold(t, q, "a", p.now, HoldNone)
	if len(q.Unreadable()) > 0 || !q.ChainIntact() || q.GroupSequence() != p.group {
		t.Errorf("unreadable %v, chain %v", q.Unreadable(), q.ChainIntact())
	}
	p.started("a", 1)
	q.Apply(p.log[len(p.log)-1])
	p.group = 0
	q.Apply(p.dispatch("a", "accepted", 1, &events.DispatchAccepted{})) // can be read, and did not come through the fence
	q.Apply(p.skipped(p.seq))
	if q.ChainIntact() {
		t.Error("a broken chain was skipped")
	}
}
