package dispatcher

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// Rule R1: the fold is asked again right before the intent. A pause that was read after the message was chosen leaves no start in
// the log.
func TestR1NoIntentOnceThePauseIsRead(t *testing.T) {
	t.Parallel()
	r, g, set := gated(t)
	set.SkipNumbers = false // the number check comes between choice and intent
	d, _ := r.run(set)
	r.prime()
	g.closed.Store(true)
	id := r.accept(order{text: "chosen", number: "5521977776666"})
	g.reached(t)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	last, err := r.log.LastSequence(t.Context(), events.EventsStream(r.p))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.parts[r.p].wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	g.closed.Store(false)
	g.open <- struct{}{}
	<-time.After(time.Second) // in which nothing may happen
	if n := r.count(id, events.TypeDispatchStarted); n != 0 {
		t.Fatalf("%d starts\n%s", n, r.story(id))
	}
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(id, events.StageDispatched)
}

// Promise P5, rule R1: with sends that take a while, two dispatchers that both believe to own the instance never have two under way.
func TestP5TwoDispatchersThatBothLeadNeverOverlap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 50, TextContains: "overlap"})
	one, two := quick(), quick()
	two.ID = "d2"
	d1, _ := r.run(one)
	d2, _ := r.runAstray(two)
	awaitOwner(t, d1)
	awaitOwner(t, d2)
	const n = 12
	for range n {
		r.accept(order{text: "overlap", class: events.ClassUtility})
	}
	eventually(t, "all dispatched", func() bool { return r.ledger("overlap") >= n }, nil)
	if report := r.sim.Ledger(evolutionsim.Filter{}); report.Total != n || report.MaxInFlight[simName] > 1 {
		t.Fatalf("%d sends for %d messages, %d at once", report.Total, n, report.MaxInFlight[simName])
	}
}
