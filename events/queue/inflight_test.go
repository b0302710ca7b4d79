package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// Promise P5 inside a process: what a turn is busy with counts as an open start before the log knows of one, holds its slot, and is not
// chosen again; it does not hold itself.
func TestP5ATakenMessageCountsAsOpen(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range 6 {
		p.queued(msg{id: fmt.Sprintf("m%d", i), slot: uint8(i % 3)})
	}
	q := p.queue(concurrent(2))
	first, _ := q.Next(p.now)
	q.Take(first.Entry.ID)
	may := func(id string, want Hold) {
		t.Helper()
		if got := q.MayStart(id, p.now); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	may(first.Entry.ID, HoldNone)
	may("m3", HoldSlot)
	second, ok := q.Next(p.now)
	if !ok || second.Entry.ID != "m1" {
		t.Fatalf("%+v is next", second)
	}
	q.Take(second.Entry.ID)
	if q.Held(p.now) != HoldConcurrency || q.Taken() != 2 {
		t.Errorf("held: %q, %d taken", q.Held(p.now), q.Taken())
	}
	if s, ok := q.Next(p.now); ok {
		t.Errorf("%s is a third", s.Entry.ID)
	}
	may("m1", HoldNone)
	p.started("m0", 1) // a turn and its start are one
	q.Apply(p.log[len(p.log)-1])
	may("m1", HoldNone)
	q.Release("m1") // it came to nothing
	may("m1", HoldNone)
	may("m3", HoldSlot)
	if o := p.queue(concurrent(2)); o.Taken() != 0 {
		t.Error("what another process is busy with is not known here")
	}
}

// On a paced number nothing else that costs tokens is begun while a turn has not started yet: what it takes is not known.
func TestATurnTakesItsTokensWhenItStarts(t *testing.T) {
	t.Parallel()
	rules := pacedRules(own(events.Pace{RatePerMinute: 60, Burst: 2, Costs: map[events.Category]float64{events.OTP: 0}}))
	rules.Concurrency = 3
	p := newTape()
	p.queued(msg{id: "a", slot: 1})
	p.queued(msg{id: "b", slot: 2})
	p.queued(msg{id: "o", slot: 3, class: events.ClassOTP})
	q := p.queue(rules)
	q.Take("a")
	s, ok := q.Next(p.now)
	if !ok || s.Entry.ID != "o" {
		t.Fatalf("%+v, want the one that costs nothing", s)
	}
	q.Take("o")
	if s, ok := q.Next(p.now); ok {
		t.Fatalf("%s does not wait", s.Entry.ID)
	}
	p.started("a", 1)
	q.Apply(p.log[len(p.log)-1])
	q.Release("o")
	if s, ok = q.Next(p.now); !ok {
		t.Fatal("nothing goes on")
	}
}

// After a call without an answer the gateway is asked for one thing at a time, until it is known what became of it.
func TestOneAtATimeWhileAnAttemptIsUnknown(t *testing.T) {
	t.Parallel()
	rules := concurrent(4)
	p := newTape()
	for i := range 6 {
		p.queued(msg{id: fmt.Sprintf("m%d", i), slot: uint8(i)})
	}
	for i := range 3 {
		p.started(fmt.Sprintf("m%d", i), 1)
	}
	q := p.queue(rules)
	for i := range 3 {
		if !q.MayCall(fmt.Sprintf("m%d", i)) {
			t.Errorf("m%d may not call", i)
		}
	}
	p.unknown("m1", 1)
	q = p.queue(rules)
	if q.Limit() != 1 || !q.MayCall("m0") || q.MayCall("m2") {
		t.Errorf("limit %d, the oldest may call: %v, a younger one: %v", q.Limit(), q.MayCall("m0"), q.MayCall("m2"))
	}
	p.accepted("m0", 1, "G-0")
	p.deferred("m2", 1, 0, events.DispatchDeferred{})
	q = p.queue(rules)
	later := p.now.Add(rules.Quiet)
	if _, ok := q.Next(later.Add(-1)); ok {
		t.Error("a start while it has to be quiet")
	}
	s, ok := q.Next(later)
	if !ok {
		t.Fatal("nothing after the quiet time")
	}
	q.Take(s.Entry.ID)
	if s, ok := q.Next(later); ok {
		t.Errorf("%s is a second", s.Entry.ID)
	}
	p.proved("m1", 1)
	q = p.queue(rules)
	if q.Limit() != 4 {
		t.Errorf("limit %d once it is proved", q.Limit())
	}
}

// Promise P5 when the concurrency is lowered while starts are open: only so many of them, the oldest, still call. Whatever the facts, at
// most the limit may call at any time.
func TestP5NoMoreCallsThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newTape()
		n := rapid.IntRange(1, 8).Draw(t, "open")
		for i := range n {
			p.queued(msg{id: fmt.Sprintf("m%d", i), slot: uint8(i)})
			p.started(fmt.Sprintf("m%d", i), 1)
		}
		for i := range n {
			switch rapid.SampledFrom([]string{"open", "open", "accepted", "unknown", "proved"}).Draw(t, "fact") {
			case "accepted":
				p.accepted(fmt.Sprintf("m%d", i), 1, "")
			case "unknown":
				p.unknown(fmt.Sprintf("m%d", i), 1)
			case "proved": // its call may be under way
				p.proved(fmt.Sprintf("m%d", i), 1)
			}
		}
		q := p.queue(concurrent(rapid.IntRange(0, 9).Draw(t, "C")))
		may, open := 0, len(q.Open())
		for i := range n {
			if q.MayCall(fmt.Sprintf("m%d", i)) {
				may++
			}
		}
		if may != min(open, q.Limit()) {
			t.Fatalf("%d of %d may call, the limit is %d", may, open, q.Limit())
		}
		if now := p.now.Add(time.Hour); open >= q.Limit() && q.Held(now) != HoldConcurrency {
			t.Fatalf("%d open, held: %q", open, q.Held(now))
		}
	})
}

// A turn that has not started gives way to a higher category that waits for nothing but it.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls int
		tell  func(p *tape)
		want  bool
	}{
		"nothing else":               {1, func(*tape) {}, false},
		"a code":                     {1, func(p *tape) { p.queued(msg{id: "o", class: events.ClassOTP, slot: 1}) }, true},
		"a code of the same slot":    {3, func(p *tape) { p.queued(msg{id: "o", class: events.ClassOTP}) }, false},
		"a code with room beside it": {2, func(p *tape) { p.queued(msg{id: "o", class: events.ClassOTP, slot: 1}) }, false},
		"a code that is not due":     {1, func(p *tape) { p.queued(msg{id: "o", class: events.ClassOTP, slot: 1, deliverAt: after(60)}) }, false},
		"an urgent one":              {1, func(p *tape) { p.queued(msg{id: "u", class: events.ClassUtilityUrgent, slot: 1}) }, false},
		"a lower one":                {1, func(p *tape) { p.queued(msg{id: "m", class: events.ClassMarketing, slot: 1}) }, false},
		"it has started": {1, func(p *tape) {
			p.queued(msg{id: "o", class: events.ClassOTP, slot: 1})
			p.started("me", 1)
		}, false},
		"paused": {1, func(p *tape) {
			p.queued(msg{id: "o", class: events.ClassOTP, slot: 1})
			p.instance("paused")
		}, false},
	} {
		p := newTape()
		p.queued(msg{id: "me"})
		c.tell(p)
		q := p.queue(concurrent(c.calls))
		if q.Overtaken("me", p.now) {
			t.Errorf("%s: no turn is busy with it", name)
		}
		q.Take("me")
		if got := q.Overtaken("me", p.now); got != c.want || q.Taken() != 1 {
			t.Errorf("%s: %v, %d taken", name, got, q.Taken())
		}
	}
}

// A turn that gives way to a code keeps what its class waited for: where a code comes whenever somebody types, the first of many tenants
// goes after as many turns as aging allows.
func TestATurnThatGivesWayKeepsItsClaim(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range 30 {
		p.queued(msg{id: fmt.Sprintf("low%d", i), class: events.ClassMarketing, tenant: fmt.Sprintf("t-%d", i)})
	}
	rules := DefaultRules()
	q := p.queue(rules)
	newest := func() { q.Apply(p.log[len(p.log)-1]) }
	typed, codes := map[string]bool{}, 0
	for {
		s, ok := q.Next(p.now)
		if !ok {
			t.Fatal("nothing is next")
		}
		id := s.Entry.ID
		q.Take(id)
		low := s.Entry.Lane.Class == events.ClassMarketing
		if low && !typed[id] && !s.Claimed {
			typed[id] = true
			p.queued(msg{id: fmt.Sprintf("otp%d", codes), class: events.ClassOTP, tenant: "t-codes"})
			newest()
			if !q.Overtaken(id, p.now) {
				t.Fatalf("the code does not overtake %s", id)
			}
			q.GiveWay(id)
			q.Release(id)
			continue
		}
		p.started(id, 1)
		newest()
		p.accepted(id, 1, "G-"+id)
		newest()
		q.Release(id)
		if low {
			break
		}
		if codes++; codes >= rules.AgingTurns {
			t.Fatalf("%d codes went, and nothing else", codes)
		}
	}
	if len(typed) != 1 {
		t.Errorf("%d messages typed before the first went: the tenant lost its turn", len(typed))
	}
}

// With calls in parallel too: two turns that give way at once keep what their class has waited, and one that was had is not given back.
func TestTurnsThatGiveWayTogetherKeepTheirClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gives []int // which of the two gives way, in this order; the other one starts
		first bool  // whether MARKETING then goes before the tenth code since
	}{
		"both":               {[]int{0, 1}, true},
		"both, in turn":      {[]int{1, 0}, true},
		"only the first":     {[]int{0}, false},
		"only the later one": {[]int{1}, false},
	} {
		p := newTape()
		for i := range 4 {
			p.queued(msg{id: fmt.Sprintf("low%d", i), class: events.ClassMarketing, tenant: fmt.Sprintf("t-%d", i), slot: uint8(i)})
		}
		rules := DefaultRules()
		rules.Concurrency = 2
		q := p.queue(rules)
		newest := func() { q.Apply(p.log[len(p.log)-1]) }
		codes := 0
		code := func() {
			codes++
			p.queued(msg{id: fmt.Sprintf("otp%d", codes), class: events.ClassOTP, tenant: "t-codes", slot: uint8(8 + codes%2)})
			newest()
		}
		take := func(want events.Class) string {
			s, ok := q.Next(p.now)
			if !ok || s.Entry.Lane.Class != want {
				t.Fatalf("%s: next is %+v, want one of %s", name, s.Entry, want)
			}
			q.Take(s.Entry.ID)
			return s.Entry.ID
		}
		send := func(id string) {
			p.started(id, 1)
			newest()
			p.accepted(id, 1, "G-"+id)
			newest()
			q.Release(id)
		}
		for range 8 {
			code()
			send(take(events.ClassOTP))
		}
		both := []string{take(events.ClassMarketing), take(events.ClassMarketing)}
		code()
		code()
		if !q.Overtaken(both[0], p.now) || !q.Overtaken(both[1], p.now) {
			t.Fatalf("%s: they are not overtaken", name)
		}
		for i, id := range both {
			if !slices.Contains(c.gives, i) {
				send(id)
			}
		}
		for _, i := range c.gives {
			q.GiveWay(both[i])
			q.Release(both[i])
		}
		send(take(events.ClassOTP)) // the ninth
		code()
		if s, _ := q.Next(p.now); (s.Entry.Lane.Class == events.ClassMarketing) != c.first {
			t.Errorf("%s: after nine codes comes %s", name, s.Entry.Lane.Class)
		}
	}
}
