package dispatcher

import (
	"slices"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/evolutionsim"
)

// pauseless is less than any lease of these tests takes to run out, and more than a machine stands still.
const pauseless = 8 * time.Second

// failoverWithin is how long an instance may wait for its next call when its dispatcher was killed with nothing begun.
const failoverWithin = 5 * time.Second

// A dispatcher that is killed loses its instances to the other one, which has folded the log and needs only to hear of it.
func TestTheOtherTakesOverInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.ID, set.LeaseTTL = "killed", 0 // as in production
	killed, _, kill := r.runApart(set)
	awaitOwner(t, killed)
	warm, _, _ := r.runApart(named(set, "killed", false))
	eventually(t, "it is warm", func() bool { return warm.Ready() == nil && warm.Leading() }, nil)
	r.awaitStage(r.accept(order{text: "before"}), events.StageDispatched)
	eventually(t, "the instance is where it should be", func() bool { return killed.owns(instanceID) && !warm.owns(instanceID) }, nil)
	still := awaittest.Watch(t)
	began := time.Now()
	kill()
	id := r.accept(order{text: "after"})
	r.awaitStage(id, events.StageDispatched)
	e := r.sim.Ledger(evolutionsim.Filter{Text: "after"}).Entries
	if len(e) != 1 {
		t.Fatalf("left %d times", len(e))
	}
	took, lost := e[0].StartedAt.Sub(began), still.Lost()
	t.Logf("the next call came %s after the kill, of which the machine stood still for %s", took, lost)
	if took-lost > failoverWithin {
		t.Errorf("that is more than %s", failoverWithin)
	}
}

// gaps gives the longest time between two sends, in the order in which the gateway got them.
func (r *rig) gaps(text string) (longest time.Duration) {
	entries := r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries
	slices.SortFunc(entries, func(a, b evolutionsim.Entry) int { return a.StartedAt.Compare(b.StartedAt) })
	for i := range len(entries) - 1 {
		longest = max(longest, entries[i+1].StartedAt.Sub(entries[i].StartedAt))
	}
	return longest
}

// onceEach checks that everything left exactly once, one at a time, and without a doubt.
func (r *rig) onceEach(text string, ids []string) {
	r.t.Helper()
	var unknown []string
	awaittest.Eventually(r.t, patience, 200*time.Millisecond, "all dispatched", func() bool { // many are looked at in one reading of the log
		left := map[string]bool{}
		unknown = nil
		for _, rec := range r.history() {
			switch rec.Type {
			case events.TypeDispatchAccepted, events.TypeDispatchProved:
				left[rec.Subject] = true
			case events.TypeDispatchUnknown:
				unknown = append(unknown, rec.Subject)
			}
		}
		return !slices.ContainsFunc(ids, func(id string) bool { return !left[id] })
	}, nil)
	for _, id := range unknown {
		r.t.Errorf("its outcome was unknown:\n%s", r.story(id))
	}
	report := r.sim.Ledger(evolutionsim.Filter{Text: text})
	if len(report.Entries) != len(ids) || report.MaxInFlight[simName] > 1 {
		r.t.Errorf("%d sends for %d messages, %d at once", len(report.Entries), len(ids), report.MaxInFlight[simName])
	}
}

// made counts the turns that a dispatcher took for the instance: none, or some.
func (d *Dispatcher) made() bool { return d.parts[0].actor(instanceID).turnTime.Load() > 0 }

// One that joins takes its share of a backlog after the turn that is under way, without a pause and without a second call.
func TestWhoJoinsTakesItsShareWithoutAPause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 100, TextContains: "handed over"})
	set := quick()
	set.ID = "first"
	first, _ := r.run(set)
	awaitOwner(t, first)
	var ids []string
	for range 30 {
		ids = append(ids, r.accept(order{text: "handed over", class: events.ClassUtility}))
	}
	eventually(t, "some left", func() bool { return r.ledger("handed over") > 3 }, nil)
	second, _ := r.run(named(quick(), "first", true))
	awaitOwner(t, second)
	eventually(t, "one owns it", func() bool { return !first.owns(instanceID) }, nil)
	eventually(t, "the second took a turn, and all left", func() bool {
		left := r.ledger("handed over")
		if !second.made() && len(ids)-left < 5 { // there is work until it has
			ids = append(ids, r.accept(order{text: "handed over", class: events.ClassUtility}))
		}
		return second.made() && left >= len(ids)
	}, nil)
	r.onceEach("handed over", ids)
	if !first.made() {
		t.Error("the first took no turn")
	}
	if gap := r.gaps("handed over"); gap > pauseless {
		t.Errorf("nothing was sent for %s", gap)
	}
	eventually(t, "the first rests", func() bool { return first.parts[0].atRest() }, nil)
}

// atRest reports that nothing runs for any instance.
func (p *partition) atRest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running) == 0 && p.lanes.Load() == 0
}

// Each of two dispatchers is stopped in order and started again, while messages come in: none waits for a lease to run out.
func TestRollingRestartPausesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := func(set Settings) (*Dispatcher, func()) {
		d, stop := r.run(set)
		eventually(t, set.ID+" works", d.Leading, nil)
		return d, stop
	}
	set := quick()
	set.ID = "a-1"
	a, stopA := run(set)
	b, stopB := run(named(quick(), a.set.ID, false)) // each owns the instance when it is stopped
	var mu sync.Mutex
	var ids []string
	over, load := make(chan struct{}), sync.WaitGroup{}
	end := sync.OnceFunc(func() { close(over); load.Wait() })
	t.Cleanup(end) // before the log goes
	load.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range 1000 {
			select {
			case <-over:
				return
			case <-tick.C:
				id := r.accept(order{text: "rolling", class: events.ClassUtility})
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		}
	})
	eventually(t, "some left", func() bool { return r.ledger("rolling") > 5 }, nil)
	stopA()
	a, _ = run(named(quick(), b.set.ID, false))
	awaitOwner(t, b)
	stopB()
	run(named(quick(), a.set.ID, false))
	n := r.ledger("rolling")
	eventually(t, "some more left", func() bool { return r.ledger("rolling") > n+5 }, nil)
	end()
	r.onceEach("rolling", ids)
	if gap := r.gaps("rolling"); gap > pauseless {
		t.Errorf("nothing was sent for %s", gap)
	} else {
		t.Logf("nothing was sent for %s at most", gap)
	}
}

// Promise P3: one that owns an instance and does nothing does not make its ends late.
func TestP3AnEndIsMadeThoughItsOwnerDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.EndMargin = 500 * time.Millisecond
	d, _ := r.run(set)
	lay := r.ghost(d)
	id := r.accept(order{text: "nobody sends this", window: time.Second})
	v := r.awaitStage(id, events.StageFailed)
	s, _ := r.state(id)
	if late := v.FailedAt.Sub(s.Queued.DeliverUntil); v.ErrorCode != events.FailExpired || late > 5*time.Second || late < d.set.EndMargin {
		t.Errorf("%s, %s after its deadline", v.ErrorCode, late)
	}
	if n := r.ledger("nobody sends this"); n != 0 {
		t.Errorf("who does not own it sent it %d times", n)
	}
	eventually(t, "it rests again", d.parts[0].atRest, nil)
	lay()
	r.awaitStage(r.accept(order{text: "the ghost is gone"}), events.StageDispatched)
}

// A lease that lies: somebody else writes in the name of a dispatcher. It says the truth again with its next word, and whatever was
// believed meanwhile, each message is called once.
func TestStolenLeaseIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.ID = "robbed"
	robbed, _ := r.run(set)
	awaitOwner(t, robbed)
	other, _ := r.run(named(quick(), "robbed", false))
	eventually(t, "the other works too", other.Leading, nil)
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 50, TextContains: "robbed"})
	var ids []string
	for range 15 {
		ids = append(ids, r.accept(order{text: "robbed", class: events.ClassUtility}))
	}
	eventually(t, "some left", func() bool { return r.ledger("robbed") > 3 }, nil)
	lie, err := roster.Member{ID: "robbed", Beat: 1 << 40}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	lies := 0
	eventually(t, "the other one believed a lie, and all left", func() bool {
		left := r.ledger("robbed")
		if !other.made() && len(ids)-left < 5 { // there is work until a lie was believed
			ids = append(ids, r.accept(order{text: "robbed", class: events.ClassUtility}))
		}
		if lies++; lies%2 == 0 {
			err = r.leases.Note(t.Context(), roster.Key("robbed"), lie, time.Minute)
		} else {
			err = r.leases.Note(t.Context(), roster.Key("robbed"), []byte("no word of a dispatcher"), time.Minute)
		}
		if err != nil {
			t.Fatal(err)
		}
		return other.made() && left >= len(ids)
	}, nil)
	if !robbed.made() {
		t.Error("who was robbed took no turn")
	}
	r.onceEach("robbed", ids)
	awaitOwner(t, robbed)
}

// Dispatchers that hear each other say no more than that they live: each answered the other's word with one of its own, some hundred
// times a second.
func TestMembersSpeakOnceASecond(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	beats := func() (n uint64) {
		live, err := Live(t.Context(), r.leases)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range live.Members() {
			n += m.Beat
		}
		return n
	}
	for _, id := range []string{"d-1", "d-2"} {
		set := quick()
		set.ID, set.LeaseTTL = id, 0 // as in production
		d, _ := r.run(set)
		eventually(t, id+" works", d.Leading, nil)
	}
	began, before := time.Now(), beats()
	<-time.After(2500 * time.Millisecond) // in which little may happen
	n := beats() - before
	took := time.Since(began)
	if most := 2*uint64(took/time.Second) + 4; n < 2 || n > most {
		t.Errorf("two dispatchers spoke %d times in %s", n, took)
	}
}

// An instance without work has no goroutine and no lane, and its dispatcher reports none for it.
func TestAnInstanceWithoutWorkRests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.Idle = 50 * time.Millisecond
	d, _ := r.run(set)
	r.awaitStage(r.accept(order{text: "then nothing"}), events.StageDispatched)
	eventually(t, "it rests", d.parts[0].atRest, nil)
	r.awaitStage(r.accept(order{text: "and again"}), events.StageDispatched)
	eventually(t, "it rests again", d.parts[0].atRest, nil)
}
