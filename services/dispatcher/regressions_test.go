package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
)

// Scheduled messages that come due in the reverse order of their acceptance leave at full speed: the lane is past them.
func TestReverseScheduleIsNotSlow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.LaneWait = time.Second
	r.run(set)
	due := time.Now().Add(time.Second)
	const n = 40
	var ids []string
	for i := range n {
		ids = append(ids, r.accept(order{text: "reverse", class: events.ClassUtility, deliverAt: due.Add(time.Duration(n-i) * time.Millisecond)}))
	}
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
	}
	e := r.sim.Ledger(evolutionsim.Filter{Text: "reverse"}).Entries
	if took := e[len(e)-1].StartedAt.Sub(due); len(e) != n || took > n*set.LaneWait/2 {
		t.Errorf("%d left, the last %s after it was due", len(e), took)
	}
}

// C2 42: the word that a closed instance is open again was lost; the probe finds it, and messages flow.
func TestC2ClosedInstanceIsProbed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.instanceEvent(events.TypeInstanceClosed, "closed")
	r.run(quick())
	r.awaitStage(r.accept(order{text: "the gateway is open"}), events.StageDispatched)
}

// Both spellings of a number are one recipient: the row of the one that left does not prove the other.
func TestSameTextToTwoSpellingsOfOneNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.SkipNumbers = true
	set.LookUps = []time.Duration{300 * time.Millisecond}
	set.Rules.Quiet = time.Millisecond
	r.run(set)
	r.prime()
	r.fault(evolutionsim.Fault{Kind: "reset", When: "before", TextContains: "twin", Times: 1})
	stayed := r.accept(order{text: "twin", number: "5511988887777", window: 4 * time.Second})
	r.awaitUnknown(stayed)
	r.fault(evolutionsim.Fault{Kind: "reset", When: "after", TextContains: "twin", Times: 1})
	left := r.accept(order{text: "twin", number: "551188887777", window: 4 * time.Second})
	for _, id := range []string{stayed, left} {
		if v := r.awaitStage(id, events.StageFailed); !v.Presumed {
			t.Errorf("view %+v\n%s", v, r.story(id))
		}
	}
	if r.ledger("twin") != 1 {
		t.Errorf("ledger %d", r.ledger("twin"))
	}
}

// A gateway that is slow to answer look-ups proves few at a time, but in the end all.
func TestManySuspectsAreProvedByASlowGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.LookUps = []time.Duration{300 * time.Millisecond}
	set.LookUpMax, set.LookUpLimit = 300*time.Millisecond, 500*time.Millisecond
	set.Rules.Quiet = time.Millisecond
	const n = 8
	r.fault(evolutionsim.Fault{Kind: "reset", When: "after", TextContains: "slow", Times: n})
	r.fault(evolutionsim.Fault{Kind: "delay", DelayMS: 150, Call: "findMessages"})
	r.run(set)
	var ids []string
	for i := range n {
		ids = append(ids, r.accept(order{text: fmt.Sprintf("slow %d", i), number: fmt.Sprintf("55119888877%02d", i), class: events.ClassUtility}))
	}
	for _, id := range ids {
		r.await(id, "proof", func(v message.View) bool { return v.Stage == events.StageDispatched })
	}
	if r.ledger("slow") != n {
		t.Errorf("ledger %d", r.ledger("slow"))
	}
}

// A gateway that one instance held is let go when that instance is opened again, by whatever process.
func TestHeldGatewayIsLetGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.SkipNumbers, set.ProbeEvery = true, time.Hour
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 503, Body: `{"error":"service not activated","code":"LICENSE_REQUIRED"}`, ContentType: "application/json", Times: 1,
	})
	d, _ := r.run(set)
	id := r.accept(order{text: "no licence"})
	eventually(t, "held", func() bool { return d.outages.count() > 0 }, nil)
	r.instanceEvent(events.TypeInstanceOpened, "opened")
	r.awaitStage(id, events.StageDispatched)
	if d.outages.count() > 0 {
		t.Error("the gateway is still held")
	}
}
