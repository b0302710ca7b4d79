package dispatcher

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
)

// The pace is in the log: who takes over waits for the rest of the gap, and does not begin with a full bucket. A change by an operator
// holds at once, for the gap that is running too.
func TestPaceSurvivesATakeoverAndChangesLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inst := r.instance()
	inst.Pace = events.Pace{RatePerMinute: 1}
	r.catalog.define(inst)
	_, stop := r.run(quick())
	r.awaitStage(r.accept(order{text: "first.", class: events.ClassUtility}), events.StageDispatched)
	second := r.accept(order{text: "second.", class: events.ClassUtility})
	stop()
	set := quick()
	set.ID = "next"
	d, _ := r.run(set)
	r.awaitFolded(d)
	r.awaitWorking(d)
	if r.count(second, events.TypeDispatchStarted) != 0 {
		t.Fatalf("the successor did not wait\n%s", r.story(second))
	}
	inst.Pace.RatePerMinute = 6000
	r.catalog.define(inst)
	r.awaitStage(second, events.StageDispatched)
}

// A shared number is paced as a person by default: the second message waits for half a minute at least, a code only for a tenth of it.
func TestASharedNumberIsPacedAsAPerson(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inst := r.instance()
	inst.Shared, inst.TenantID = true, events.PlatformTenant
	r.catalog.define(inst)
	d, _ := r.run(quick())
	first := r.accept(order{text: "first.", class: events.ClassUtility})
	r.awaitStage(first, events.StageDispatched)
	second := r.accept(order{text: "second.", class: events.ClassUtility})
	code := r.accept(order{text: "1234"})
	r.awaitStage(code, events.StageDispatched)
	started := func(id string) time.Time {
		s, _ := r.state(id)
		return s.Record[0].At
	}
	if gap := started(code).Sub(started(first)); gap < 3*time.Second || gap >= events.HumanGapShortest {
		t.Errorf("the code left %s after another message", gap)
	}
	if r.count(second, events.TypeDispatchStarted) != 0 {
		t.Errorf("the second did not wait\n%s", r.story(second))
	}
	a := d.parts[0].actor(instanceID)
	a.mu.Lock()
	until := a.q.PacedUntil(events.Utility)
	a.mu.Unlock()
	if gap := until.Sub(started(first)); gap < events.HumanGapShortest || gap > 2*events.HumanGapLongest {
		t.Errorf("the second is due after %s", gap)
	}
}

// awaitWorking waits until the actor has looked at its queue with the rules of its instance.
func (r *rig) awaitWorking(d *Dispatcher) {
	r.t.Helper()
	a := d.parts[0].actor(instanceID)
	eventually(r.t, "the actor at work", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return !a.q.Rules().Pace.Free()
	}, nil)
}
