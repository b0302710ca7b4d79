package dispatcher

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// wide lets the instance make several calls at a time, to a gateway that takes its time.
func (r *rig) wide(calls int) events.Instance {
	r.t.Helper()
	inst := r.instance()
	inst.Concurrency, inst.MaxConcurrency = calls, 8
	r.catalog.define(inst)
	return inst
}

func (r *rig) slow(ms int) {
	r.t.Helper()
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: ms, Call: "sendText", Times: 1000})
}

// crowd lets the first turns take long, so that as many calls as may be are under way at once, however slow the machine begins them.
func (r *rig) crowd() {
	r.t.Helper()
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 2000, TextContains: "turn 00.", Times: 1000})
}

// recipients accepts n messages to each of so many recipients, each with a slot of its own; the text tells recipient and turn.
func (r *rig) recipients(recipients, n int) (ids []string) {
	for i := range n {
		for to := range recipients {
			ids = append(ids, r.accept(order{
				text: fmt.Sprintf("to %d turn %02d.", to, i), class: events.ClassUtility, number: fmt.Sprintf("55119888877%02d", to), slot: uint8(to),
			}))
		}
	}
	return ids
}

// ordered checks that the gateway took the messages to each recipient in the order in which they were accepted, each once.
func (r *rig) ordered(recipients, n int) {
	r.t.Helper()
	next := make([]int, recipients)
	for _, e := range r.sim.Ledger(evolutionsim.Filter{}).Entries {
		var to, turn int
		if _, err := fmt.Sscanf(e.Text, "to %d turn %d.", &to, &turn); err != nil {
			r.t.Fatalf("%q: %v", e.Text, err)
		}
		if turn != next[to] {
			r.t.Errorf("recipient %d: turn %d, want %d", to, turn, next[to])
		}
		next[to]++
	}
	for to, got := range next {
		if got != n {
			r.t.Errorf("recipient %d has %d of %d", to, got, n)
		}
	}
}

// opens gives the most starts that were open at a time in the log, from a place in it on.
func (r *rig) opens(from uint64) (most int) {
	open := map[string]bool{}
	for _, rec := range r.history() {
		switch rec.Type {
		case events.TypeDispatchStarted:
			open[rec.Subject] = true
			if rec.Position.Sequence > from {
				most = max(most, len(open))
			}
		case events.TypeDispatchAccepted, events.TypeDispatchRefused, events.TypeDispatchDeferred, events.TypeDispatchUnknown:
			delete(open, rec.Subject)
		}
	}
	return most
}

// openSince counts the starts up to a place in the log that are still open.
func (r *rig) openSince(seq uint64) int {
	open := map[string]bool{}
	for _, rec := range r.history() {
		switch rec.Type {
		case events.TypeDispatchStarted:
			open[rec.Subject] = rec.Position.Sequence <= seq
		case events.TypeDispatchAccepted, events.TypeDispatchRefused, events.TypeDispatchDeferred, events.TypeDispatchUnknown:
			delete(open, rec.Subject)
		}
	}
	maps.DeleteFunc(open, func(_ string, before bool) bool { return !before })
	return len(open)
}

// awaitConcurrency waits until the actor has heard how many calls its instance allows.
func (r *rig) awaitConcurrency(d *Dispatcher, calls int) {
	r.t.Helper()
	eventually(r.t, "heard of it", func() bool {
		a := d.parts[0].actor(instanceID)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.q.Rules().Concurrency == calls
	}, nil)
}

// Promise P5 with a raised concurrency: four calls at a time and never more, in order for each recipient.
func TestP5AsManyCallsAsTheInstanceAllows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wide(4)
	r.crowd()
	r.slow(20)
	r.run(quick())
	const recipients, turns = 6, 6
	for _, id := range r.recipients(recipients, turns) {
		r.awaitStage(id, events.StageDispatched)
	}
	r.ordered(recipients, turns)
	if most := r.sim.Ledger(evolutionsim.Filter{}).MaxInFlight[simName]; most != 4 || r.opens(0) != 4 {
		t.Errorf("%d calls at once, %d starts open at once, want 4", most, r.opens(0))
	}
}

// Lowered while calls are under way, it holds for every start that follows.
func TestP5ConcurrencyIsLoweredLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inst := r.wide(4)
	r.crowd()
	r.slow(50)
	d, _ := r.run(quick())
	const recipients, turns = 5, 4
	ids := r.recipients(recipients, turns)
	eventually(t, "four at once", func() bool { return r.opens(0) == 4 }, nil)
	inst.Concurrency = 1
	r.catalog.define(inst)
	r.awaitConcurrency(d, 1)
	heard := r.end(r.p)
	eventually(t, "what was open has ended", func() bool { return r.openSince(heard) == 0 }, nil)
	last := r.end(r.p)
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
	}
	r.ordered(recipients, turns)
	if most := r.opens(last); most > 1 {
		t.Errorf("%d open at once", most)
	}
	inst.Concurrency = 3
	r.catalog.define(inst)
	if r.recipients(recipients, 3); r.opens(0) > 4 {
		t.Errorf("%d open at once", r.opens(0))
	}
	eventually(t, "three at once again", func() bool { return r.opens(last) == 3 }, nil)
}

// A start that was appended when more calls were allowed makes none: it is told at the write.
func TestP5ConcurrencyLoweredBeforeTheWrite(t *testing.T) {
	t.Parallel()
	r, g, set := gated(t)
	inst := r.wide(2)
	d, _ := r.run(set)
	r.prime()
	g.closed.Store(true)
	one := r.accept(order{text: "the older", slot: 1})
	g.reached(t)
	two := r.accept(order{text: "the younger", slot: 2})
	g.reached(t)
	inst.Concurrency = 1
	r.catalog.define(inst)
	r.awaitConcurrency(d, 1)
	g.closed.Store(false)
	g.open <- struct{}{}
	g.open <- struct{}{}
	for _, id := range []string{one, two} {
		r.awaitStage(id, events.StageDispatched)
	}
	if r.count(one, events.TypeDispatchDeferred) != 0 || r.count(two, events.TypeDispatchStarted) != 2 {
		t.Errorf("older:\n%syounger:\n%s", r.story(one), r.story(two))
	}
	if most := r.sim.Ledger(evolutionsim.Filter{}).MaxInFlight[simName]; most != 1 {
		t.Errorf("%d calls at once", most)
	}
}

// Promise P5 with a raised concurrency, and two dispatchers that both believe: together they make no more calls than the instance allows.
func TestP5TwoWhoBothBelieveShareTheConcurrency(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wide(3)
	r.slow(30)
	one, two := quick(), quick()
	two.ID = "d2"
	d1, _ := r.run(one)
	d2, _ := r.runAstray(two)
	awaitOwner(t, d1)
	awaitOwner(t, d2)
	const recipients, turns = 6, 8
	ids := r.recipients(recipients, turns)
	eventually(t, "all dispatched", func() bool { return r.sim.Ledger(evolutionsim.Filter{}).Total >= int64(len(ids)) }, nil)
	if !d1.owns(instanceID) || !d2.owns(instanceID) {
		t.Error("one of them gave way: nothing was tried")
	}
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
	}
	r.ordered(recipients, turns)
	if most := r.sim.Ledger(evolutionsim.Filter{}).MaxInFlight[simName]; most > 3 {
		t.Errorf("%d calls at once", most)
	}
}

// While what became of one call is not in the log, no other begins.
func TestNothingIsTakenWhileAnOutcomeIsNotInTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wide(4)
	d, _ := r.run(quick())
	r.awaitStage(r.accept(order{text: "before"}), events.StageDispatched)
	a := d.parts[0].actor(instanceID)
	a.unsaid.Add(1)
	id := r.accept(order{text: "after", slot: 3})
	r.awaitFolded(d)
	<-time.After(300 * time.Millisecond) // in which nothing may happen
	if n := r.count(id, events.TypeDispatchStarted); n != 0 {
		t.Fatalf("started %d times", n)
	}
	a.unsaid.Add(-1)
	a.kick()
	r.awaitStage(id, events.StageDispatched)
}

// A dispatcher that is told to stop lets the calls under way end, each with its outcome; what was not begun is left to the next one.
func TestStopWaitsForEveryCallUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wide(4)
	r.slow(2500) // it is told to stop meanwhile
	set := quick()
	set.Drain = patience
	_, stop := r.run(set)
	ids := r.recipients(6, 1)
	eventually(t, "four at once", func() bool { return r.opens(0) == 4 }, nil)
	stop()
	accepted := 0
	for _, id := range ids {
		if r.count(id, events.TypeDispatchAccepted) == 1 {
			accepted++
		}
		if n, m := r.count(id, events.TypeDispatchStarted), r.count(id, events.TypeDispatchAccepted); n != m {
			t.Errorf("%d starts, %d outcomes\n%s", n, m, r.story(id))
		}
	}
	if accepted < 4 {
		t.Errorf("%d ended", accepted)
	}
	set.ID = "next"
	r.run(set)
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
	}
	r.ordered(6, 1)
}
