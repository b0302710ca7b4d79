package dispatcher

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// lateness says how long after its time each scheduled message reached the gateway, once it has; a message that left early or
// twice is an error.
func (r *rig) lateness(due map[string]time.Time) []time.Duration {
	r.t.Helper()
	var late []time.Duration
	for text, at := range due {
		e := r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries
		if len(e) != 1 {
			r.t.Errorf("%s left %d times", text, len(e))
			continue
		}
		if e[0].StartedAt.Before(at) {
			r.t.Errorf("%s left %s early", text, at.Sub(e[0].StartedAt))
		}
		late = append(late, e[0].StartedAt.Sub(at))
	}
	slices.Sort(late)
	return late
}

// At rest a message leaves at its time: never early, and not more than 200 ms late. A quarter of them is held to it: a loaded machine
// delays many, a timer that ticks too seldom delays all but a few.
func TestScheduledLeavesAtItsTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.SkipNumbers = true
	r.run(set)
	r.awaitStage(r.accept(order{text: "warm."}), events.StageDispatched)
	due := map[string]time.Time{}
	var ids []string
	first := time.Now().Add(time.Second).Truncate(time.Millisecond)
	for i := range 16 {
		text, at := fmt.Sprintf("due %d.", i), first.Add(time.Duration(i)*370*time.Millisecond)
		due[text] = at
		ids = append(ids, r.accept(order{text: text, deliverAt: at}))
	}
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
	}
	late := r.lateness(due)
	t.Logf("late by %v", late)
	if quarter := late[len(late)/4]; quarter > 200*time.Millisecond {
		t.Errorf("three quarters of the messages left more than %s late", quarter)
	}
}

// A scheduled message outlives every dispatcher that knew of it: restarts at a snapshot, a start that reads the log, and another
// one that takes over.
func TestScheduledSurvivesRestartsAndTakeovers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keeps()
	set := quick()
	set.ID = "first"
	_, stop := r.run(set)
	due := map[string]time.Time{}
	var ids []string
	at := time.Now().Add(6 * time.Second).Truncate(time.Millisecond)
	for i := range 5 {
		text := fmt.Sprintf("survivor %d.", i)
		due[text] = at
		ids = append(ids, r.accept(order{text: text, deliverAt: at}))
	}
	r.awaitStage(r.accept(order{text: "before."}), events.StageDispatched)
	stop() // leaves a snapshot
	set.ID = "second"
	second, stopSecond := r.run(set)
	eventually(t, "the second leads", second.Leading, nil)
	set.ID = "third"
	third, _ := r.run(set) // warm beside it
	eventually(t, "the third is ready", func() bool { return third.Ready() == nil }, nil)
	stopSecond()
	r.kept = nil
	set.ID = "fourth"
	fourth, _ := r.run(set) // from the first event of the log
	eventually(t, "the fourth is ready", func() bool { return fourth.Ready() == nil }, nil)
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
		if n := r.called(id); n != 1 {
			t.Errorf("%d calls: %s", n, r.story(id))
		}
	}
	r.lateness(due)
}
