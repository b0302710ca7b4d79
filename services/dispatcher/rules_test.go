package dispatcher

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// gate holds the gateway connections of sends back: what happens between the intent and the write can be arranged.
type gate struct {
	closed  atomic.Bool
	waiting chan struct{} // a dial waits
	open    chan struct{}
}

// reached waits until a call has come to the gate.
func (g *gate) reached(t *testing.T) {
	t.Helper()
	select {
	case <-g.waiting:
	case <-time.After(patience):
		t.Fatal("no call comes to the gate")
	}
}

func newGate() *gate { return &gate{waiting: make(chan struct{}, 16), open: make(chan struct{}, 16)} }

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.closed.Load() {
		g.waiting <- struct{}{}
		select {
		case <-g.open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// gated makes a rig whose sends wait at the gate. Every call uses a connection of its own.
func gated(t *testing.T) (*rig, *gate, Settings) {
	t.Helper()
	r, g := newRig(t), newGate()
	r.dial, r.keep = g.dial, time.Nanosecond
	set := quick()
	set.SkipNumbers = true
	set.Budget, set.CallLimit, set.SuccessorWait = 20*time.Second, 25*time.Second, 30*time.Second // what is arranged at the gate takes its time
	return r, g, set
}

// prime lets the dispatcher learn the gateway's version before the gate closes.
func (r *rig) prime() {
	r.t.Helper()
	r.awaitStage(r.accept(order{text: "prime"}), events.StageDispatched)
}

func TestR4PauseAfterTheIntentStopsTheCall(t *testing.T) {
	t.Parallel()
	r, g, set := gated(t)
	d, _ := r.run(set)
	r.prime()
	g.closed.Store(true)
	id := r.accept(order{text: "held back"})
	g.reached(t)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	r.awaitFolded(d)
	g.closed.Store(false)
	g.open <- struct{}{}
	eventually(t, "deferred", func() bool { return r.count(id, events.TypeDispatchDeferred) == 1 }, func() string { return r.story(id) })
	if n := r.ledger("held back"); n != 0 {
		t.Fatalf("ledger %d", n)
	}
	s, _ := r.state(id)
	if sum := s.Record.Summarize(); sum.Called() {
		t.Fatalf("the log says a call was made: %+v", sum)
	}
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(id, events.StageDispatched)
	if n := r.ledger("held back"); n != 1 {
		t.Fatalf("ledger %d", n)
	}
}

func TestR4IntentOlderThanItsBudgetIsNotCalled(t *testing.T) {
	t.Parallel()
	r, g, set := gated(t)
	var ahead atomic.Int64
	set.MaxClockSkew = time.Hour
	set.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	r.run(set)
	r.prime()
	g.closed.Store(true)
	id := r.accept(order{text: "too old"})
	g.reached(t)
	ahead.Store(int64(set.withDefaults().Budget)) // the connection is there in time, the process was paused: the age is what is tested
	g.closed.Store(false)
	g.open <- struct{}{}
	v := r.awaitStage(id, events.StageDispatched)
	if v.Attempts < 2 || r.ledger("too old") != 1 {
		t.Fatalf("view %+v, ledger %d\n%s", v, r.ledger("too old"), r.story(id))
	}
}

func TestR4NoCallAfterTheDeadline(t *testing.T) {
	t.Parallel()
	r, g, set := gated(t)
	r.run(set)
	r.prime()
	g.closed.Store(true)
	id := r.accept(order{text: "over", window: 4 * time.Second}) // it has come to the gate by then
	until := time.Now().Add(4 * time.Second)
	g.reached(t)
	<-time.After(time.Until(until) + 10*time.Millisecond)
	g.closed.Store(false)
	g.open <- struct{}{}
	v := r.awaitStage(id, events.StageFailed)
	if v.ErrorCode != events.FailExpired || r.ledger("over") != 0 {
		t.Fatalf("view %+v, ledger %d\n%s", v, r.ledger("over"), r.story(id))
	}
}

// outcomeFrom plays a successor: it appends an event of the group while the owner's call is under way.
func (r *rig) successor(id string, typ, name string, body any) {
	r.t.Helper()
	s, _ := r.state(id)
	last := s.Record[len(s.Record)-1]
	ev := events.Event{
		Address: events.EventSubject(r.p, instanceID, events.GroupDispatch, name),
		Envelope: events.Envelope{
			ID: newID(), Type: typ, Source: source, Time: time.Now().UTC(), Subject: id, TenantID: tenant,
			Attempt: last.Attempt, QueuedSeq: s.Queued.Position.Sequence,
		},
		Body: body,
	}
	if _, err := r.log.AppendFenced(r.t.Context(), r.p, instanceID, ev, last.Seq); err != nil {
		r.t.Fatal(err)
	}
}

// answerLate lets the gateway take its time, and a successor call the attempt unknown meanwhile.
func answerLate(t *testing.T, f evolutionsim.Fault) (*rig, string) {
	t.Helper()
	r := newRig(t)
	f.TextContains = "slow"
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 3000, TextContains: "slow", Times: 1}) // the successor speaks meanwhile
	if f.Kind != "" {
		r.fault(f)
	}
	set := quick()
	set.LookUps = []time.Duration{time.Minute}
	set.CallLimit, set.SuccessorWait = 10*time.Second, 15*time.Second
	r.run(set)
	id := r.accept(order{text: "slow answer"})
	eventually(t, "the gateway has the request", func() bool { // before, the last check would stop it
		return !slices.ContainsFunc(r.sim.Faults(), func(f evolutionsim.Fault) bool { return f.Kind == "delay" && f.Times > 0 })
	}, nil)
	r.successor(id, events.TypeDispatchUnknown, "unknown", &events.DispatchUnknown{Cause: "owner_gone"})
	return r, id
}

func TestR1LateAcceptanceIsAProof(t *testing.T) {
	t.Parallel()
	r, id := answerLate(t, evolutionsim.Fault{})
	v := r.awaitStage(id, events.StageDispatched)
	if r.count(id, events.TypeDispatchProved) != 1 || r.count(id, events.TypeDispatchAccepted) != 0 || v.GatewayID == "" {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

func TestR1LateRefusalDisprovesAndItsCodeEnds(t *testing.T) {
	t.Parallel()
	r, id := answerLate(t, evolutionsim.Fault{
		Kind: "answer", Status: 413, Body: `{"status":413}`, ContentType: "application/json", Times: 1,
	})
	v := r.awaitStage(id, events.StageFailed)
	if v.ErrorCode != events.FailGatewayRejected || v.Presumed || v.Attempts != 1 || r.count(id, events.TypeDispatchDisproved) != 1 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

func TestR1OutcomeAfterTheEndIsEvidenceOnly(t *testing.T) {
	t.Parallel()
	r, id := answerLate(t, evolutionsim.Fault{})
	s, _ := r.state(id)
	r.successor(id, events.TypeDispatchClosed, "closed", &events.DispatchClosed{
		Reason: events.ClosedTimeout, Code: events.FailDeliveryTimeout, Presumed: true,
		Messages: []events.ClosedMessage{{ID: id, QueuedSeq: s.Queued.Position.Sequence}},
	})
	eventually(t, "late evidence", func() bool { return r.count(id, events.TypeEvidenceLate) == 1 }, func() string { return r.story(id) })
	if _, v := r.state(id); v.Stage != events.StageFailed || !v.Presumed {
		t.Fatalf("view %+v", v)
	}
}

func TestR2StartOfMineThatWasNotCalledIsDeferredAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.SuccessorWait = time.Hour
	d, _ := r.run(set)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	id := r.accept(order{text: "landed late"})
	eventually(t, "folded", func() bool {
		a := d.parts[0].actor(instanceID)
		a.mu.Lock()
		defer a.mu.Unlock()
		_, ok := a.q.Entry(id)
		return ok
	}, nil)
	a := d.parts[0].actor(instanceID)
	a.mu.Lock()
	a.mine["lost nonce"] = true
	a.mu.Unlock()
	s, _ := r.state(id)
	ev := events.Event{
		Address: events.EventSubject(r.p, instanceID, events.GroupDispatch, "started"),
		Envelope: events.Envelope{
			ID: newID(), Type: events.TypeDispatchStarted, Source: source, Time: time.Now().UTC(), Subject: id, TenantID: tenant,
			Attempt: 1, Nonce: "lost nonce", QueuedSeq: s.Queued.Position.Sequence,
		},
		Body: &events.DispatchStarted{Call: "sendText"},
	}
	if _, err := r.log.AppendFenced(t.Context(), r.p, instanceID, ev, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deferred", func() bool { return r.count(id, events.TypeDispatchDeferred) == 1 }, func() string { return r.story(id) })
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(id, events.StageDispatched)
}
