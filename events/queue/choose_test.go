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

// send takes turns at a time: each is started and accepted at once. It gives the ids, "id/n" for a retry.
func send(p *tape, q *Queue, now time.Time, turns int) (ids []string) {
	p.now = now
	for range turns {
		s, ok := q.Next(now)
		if !ok {
			break
		}
		id := s.Entry.ID
		if s.Attempt > 1 {
			id = fmt.Sprintf("%s/%d", id, s.Attempt)
		}
		ids = append(ids, id)
		p.started(s.Entry.ID, s.Attempt)
		p.accepted(s.Entry.ID, s.Attempt, "G-"+s.Entry.ID)
		q.Apply(p.log[len(p.log)-2])
		q.Apply(p.log[len(p.log)-1])
	}
	return ids
}

func TestClassesGoInTheirOrder(t *testing.T) {
	t.Parallel()
	p := newTape()
	classes := events.Classes()
	slices.Reverse(classes)
	for _, c := range classes {
		p.queued(msg{id: string(c), class: c})
	}
	p.queued(msg{id: "bulk", class: "bulk"}) // a class of a later version is left to those who know it
	var want []string
	for _, c := range events.Classes() {
		want = append(want, string(c))
	}
	if diff := cmp.Diff(want, send(p, p.queue(DefaultRules()), p.now, 10)); diff != "" {
		t.Error(diff)
	}
}

// C3 case 48: each lower class gets one turn in AgingTurns, however long the stream of the higher one is; the higher one has the rest.
func TestAgingBound(t *testing.T) {
	t.Parallel()
	for _, turns := range []int{0, 2, 5, 10} {
		p := newTape()
		for i := range 60 {
			p.queued(msg{id: fmt.Sprintf("o%d", i), class: events.ClassOTP})
		}
		for i := range 60 {
			p.at(float64(i)).queued(msg{id: fmt.Sprintf("u%d", i), class: events.ClassUtility})
			p.queued(msg{id: fmt.Sprintf("m%d", i), class: events.ClassMarketing})
		}
		rules := DefaultRules()
		rules.AgingTurns = turns
		got := send(p, p.queue(rules), p.now, 60)
		every := max(3, turns) // of three classes none can have more than each third turn for sure
		for i := every; i <= len(got); i += every {
			lower := ""
			for _, id := range got[i-every : i] {
				if id[0] != 'o' {
					lower += id[:1]
				}
			}
			if lower != "um" {
				t.Errorf("one turn each in %d: %s in %v", every, lower, got[i-every:i])
			}
		}
	}
}

// With more than one slot the lower class may find its own slot taken at each of its turns; it must not lose its claim by that.
func TestAgingBoundWithSlots(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range 100 {
		p.queued(msg{id: fmt.Sprintf("o%d", i), class: events.ClassOTP, slot: uint8(i % 2)})
	}
	p.queued(msg{id: "m", class: events.ClassMarketing, slot: 0})
	q := p.queue(concurrent(2))
	apply := func() { q.Apply(p.log[len(p.log)-1]) }
	start := func() string {
		s, ok := q.Next(p.now)
		if !ok {
			t.Fatal("nothing to start")
		}
		p.started(s.Entry.ID, 1)
		apply()
		return s.Entry.ID
	}
	running := []string{start(), start()} // both slots are always busy; they come free in turn
	for range 30 {
		if slices.Contains(running, "m") {
			return
		}
		p.accepted(running[0], 1, "G-"+running[0])
		apply()
		running = append(running[1:], start())
	}
	t.Error("the lower class had no turn in 30")
}

func TestAClassThatDoesNotWaitHasNoClaim(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range 30 {
		p.queued(msg{id: fmt.Sprintf("o%d", i), class: events.ClassOTP})
	}
	q := p.queue(DefaultRules())
	send(p, q, p.now, 15) // alone
	p.queued(msg{id: "m", class: events.ClassMarketing})
	q.Apply(p.log[len(p.log)-1])
	if i := slices.Index(send(p, q, p.now, 12), "m"); i != 9 {
		t.Errorf("turn %d, want the tenth", i+1)
	}
}

func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range 4 {
		p.queued(msg{id: fmt.Sprintf("a%d", i), tenant: "t-a"})
	}
	for i := range 3 {
		p.queued(msg{id: fmt.Sprintf("b%d", i), tenant: "t-b"})
	}
	p.queued(msg{id: "c0", tenant: "t-c"})
	want := []string{"a0", "b0", "c0", "a1", "b1", "a2", "b2", "a3"}
	if diff := cmp.Diff(want, send(p, p.queue(DefaultRules()), p.now, 20)); diff != "" {
		t.Error(diff)
	}
}

func TestOrderInALane(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "r"})
	p.started("r", 1)
	p.deferred("r", 1, 20, events.DispatchDeferred{Called: true}) // due at 20
	p.at(1).queued(msg{id: "later", deliverAt: after(15)})
	p.at(2).queued(msg{id: "a"})
	p.queued(msg{id: "b"}) // the same time, the next sequence
	p.at(18).queued(msg{id: "c"})
	p.at(20).queued(msg{id: "tie"}) // r was accepted before
	p.at(30).queued(msg{id: "d"})
	want := []string{"a", "b", "later", "c", "r/2", "tie", "d"}
	if diff := cmp.Diff(want, send(p, p.queue(DefaultRules()), after(40), 20)); diff != "" {
		t.Error(diff)
	}
}

func TestOrderOverTheSlotsOfATenant(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a", slot: 2})
	p.queued(msg{id: "b", slot: 1})
	p.at(1).queued(msg{id: "c", slot: 0})
	for range 20 {
		q := p.queue(concurrent(3))
		if s, ok := q.Next(after(2)); !ok || s.Entry.ID != "a" {
			t.Fatalf("%+v, want the lower sequence", s)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, send(p, p.queue(concurrent(3)), after(2), 5)); diff != "" {
		t.Error(diff)
	}
}

func TestARetryKeepsItsClass(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "m", class: events.ClassMarketing})
	p.queued(msg{id: "o", class: events.ClassOTP})
	p.started("o", 1)
	p.deferred("o", 1, 2, events.DispatchDeferred{Called: true})
	if diff := cmp.Diff([]string{"o/2", "m"}, send(p, p.queue(DefaultRules()), after(3), 5)); diff != "" {
		t.Error(diff)
	}
}

func TestDeliverAtIsNeverEarly(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a", deliverAt: after(100)})
	p.queued(msg{id: "b", deliverAt: after(50)})
	q := p.queue(DefaultRules())
	for s := 0.0; s < 50; s += 7 {
		if x, ok := q.Next(after(s)); ok {
			t.Fatalf("%s at %v s", x.Entry.ID, s)
		}
		if !q.Wake(after(s)).Equal(after(50)) {
			t.Fatalf("wakes at %v", q.Wake(after(s)))
		}
	}
	if diff := cmp.Diff([]string{"b"}, send(p, q, after(50), 5)); diff != "" {
		t.Error(diff)
	}
	mustHold(t, q, "a", after(99.999), HoldNotDue)
	if diff := cmp.Diff([]string{"a"}, send(p, q, after(100), 5)); diff != "" {
		t.Error(diff)
	}
}

func TestNothingStartsAfterItsDeadline(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a", deliverUntil: after(10)})
	p.queued(msg{id: "b", deliverUntil: after(20)})
	q := p.queue(DefaultRules())
	mustHold(t, q, "a", after(10), HoldDeadline)
	if s, ok := q.Next(after(10)); !ok || s.Entry.ID != "b" {
		t.Error("what is over holds the lane")
	}
}

// Every message is chosen once, and the order inside each lane is (readyAt, sequence), whatever the mix.
func TestEveryMessageHasItsTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newTape()
		lane := map[string]string{}
		n := rapid.IntRange(1, 40).Draw(t, "messages")
		for i := range n {
			m := msg{
				id: fmt.Sprintf("m%02d", i), class: rapid.SampledFrom(events.Classes()).Draw(t, "class"),
				tenant: rapid.SampledFrom([]string{"t-a", "t-b", "t-c"}).Draw(t, "tenant"), slot: rapid.Uint8Range(0, 2).Draw(t, "slot"),
			}
			lane[m.id] = fmt.Sprint(m.class, m.tenant, m.slot)
			p.queued(m)
		}
		got := send(p, p.queue(DefaultRules()), p.now, n+1)
		last := map[string]string{}
		for _, id := range got {
			if id <= last[lane[id]] {
				t.Fatalf("%s after %s in one lane", id, last[lane[id]])
			}
			last[lane[id]] = id
		}
		if len(got) != n {
			t.Fatalf("%d of %d had a turn", len(got), n)
		}
	})
}

func TestRulesSetLive(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a"})
	p.queued(msg{id: "b"})
	p.started("a", 1)
	p.deferred("a", 1, 0, events.DispatchDeferred{Called: true})
	q := p.queue(DefaultRules())
	if _, ok := q.Next(p.now); !ok { // both stand in the lane
		t.Fatal("nothing")
	}
	fewer := DefaultRules()
	fewer.Attempts = map[events.Category]int{events.Utility: 1}
	q.SetRules(fewer)
	mustHold(t, q, "a", p.now, HoldExhausted)
	mustHold(t, q, "b", p.now, HoldNone) // the lane goes on
	if c := q.Closes(p.now, 5); len(c) != 1 || c[0].Code != events.FailAttemptsExhausted {
		t.Errorf("ends %+v", c)
	}
	q.SetRules(DefaultRules())
	mustHold(t, q, "a", p.now, HoldNone)
	if c := q.Closes(p.now, 5); len(c) != 0 {
		t.Errorf("ends %+v", c)
	}
	q.SetRules(Rules{}) // no budget named: one attempt
	mustHold(t, q, "a", p.now, HoldExhausted)
}
