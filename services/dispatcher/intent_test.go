package dispatcher

import (
	"testing"

	"pilotstatus.dev/events"
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
	<-g.waiting
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
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(id, events.StageDispatched)
	if n := r.count(id, events.TypeDispatchStarted); n != 1 {
		t.Fatalf("%d starts\n%s", n, r.story(id))
	}
}
