package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/evolutionsim"
)

// backlog accepts so many messages, each to a number of its own.
func (r *rig) backlog(n int) (ids []string) {
	for i := range n {
		ids = append(ids, r.accept(order{text: "backlog", class: events.ClassUtility, number: fmt.Sprintf("55119%08d", 70000000+i)}))
	}
	return ids
}

// awaitLeft waits until that many of the backlog left, each once.
func (r *rig) awaitLeft(n int) {
	r.t.Helper()
	eventually(r.t, "all left", func() bool { return r.ledger("backlog") >= n }, func() string { return fmt.Sprint(r.ledger("backlog")) })
	if got := r.ledger("backlog"); got != n {
		r.t.Errorf("%d left of %d", got, n)
	}
}

// C1 5: an instance that lost WhatsApp is parked by the number check, before anything is begun: its gateway is asked for one number, and
// then by probes, whatever the backlog. When it is there again all leave.
func TestC1TheNumberCheckParksAnInstanceThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 150} {
		t.Run(fmt.Sprint(n, " messages"), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.change("connecting")
			ids := r.backlog(n)
			set := quick()
			set.ProbeEvery = 100 * time.Millisecond
			r.run(set)
			eventually(t, "park", func() bool { return len(r.parks()) > 0 }, func() string { return r.story(ids[0]) })
			if p := r.parks(); p[0] != instanceID+" "+events.ParkInstance+" "+evolution.CauseConnectionClosed {
				t.Errorf("parks %v", p)
			}
			<-time.After(2 * time.Second) // in which it may be probed at waits that double from 50 to 100 ms on
			if asked := r.sim.Stats().Requests; asked > 9 {
				t.Errorf("%d requests for %d messages", asked, n)
			}
			if starts := r.total(events.TypeDispatchStarted); starts != 0 || len(r.parks()) != 1 {
				t.Errorf("%d starts, parks %v", starts, r.parks())
			}
			r.change("open")
			r.awaitLeft(n)
			if starts := r.total(events.TypeDispatchStarted); starts != n {
				t.Errorf("%d starts for %d messages", starts, n)
			}
		})
	}
}

// C2 42: an instance that calls itself connected, and is not when it is asked for a number, is tried again later each time, not as often
// as it is probed. An operator's word makes it go at once.
func TestC2FrozenConnectedBacksOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	boom := `{"data":null,"isBoom":true,"isServer":false,"output":{"statusCode":428,"payload":{"statusCode":428,"message":"Connection Closed"},"headers":{}}}`
	r.fault(evolutionsim.Fault{Kind: "answer", Call: "whatsappNumbers", Status: 400, Body: boom, ContentType: "application/json"})
	r.backlog(20)
	set := quick()
	set.ProbeEvery = 10 * time.Millisecond
	d, _ := r.run(set)
	eventually(t, "some parks", func() bool { return len(r.parks()) >= 3 }, nil)
	<-time.After(2 * time.Second)
	if n := len(r.parks()); n > 14 || r.total(events.TypeDispatchStarted) != 0 { // 200 without a wait
		t.Errorf("%d parks, %d starts", n, r.total(events.TypeDispatchStarted))
	}
	a := d.parts[0].actor(instanceID)
	for range 20 { // a wait that an operator's word can be seen to end
		a.holdoff.failed(a.holdoff.opensAt(), 0.999)
	}
	r.healed()
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitLeft(20)
}

// C2 42: so is one whose numbers are known, so that only the send shows it.
func TestC2FrozenConnectedBacksOffWithoutAnyCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := quick()
	set.ProbeEvery = 10 * time.Millisecond
	r.run(set)
	r.prime() // its number is known
	r.fault(evolutionsim.Fault{
		Kind: "answer", Call: "sendText", Status: 500, ContentType: "application/json",
		Body: `{"status":500,"error":"Internal Server Error","response":{"message":"Connection Closed"}}`,
	})
	r.backlog(20)
	eventually(t, "some parks", func() bool { return len(r.parks()) >= 3 }, nil)
	<-time.After(2 * time.Second)
	if n := len(r.parks()); n > 14 || r.total(events.TypeDispatchStarted) > 15 { // 80 without a wait
		t.Errorf("%d parks, %d starts", n, r.total(events.TypeDispatchStarted))
	}
	r.healed()
	r.awaitLeft(20)
}

// lockedKeys open no gateway key while they are locked.
type lockedKeys struct {
	plainKeys
	locked atomic.Bool
	asked  atomic.Int64
}

func (k *lockedKeys) OpenSecret(ctx context.Context, entity string, s events.Sealed) ([]byte, error) {
	if k.asked.Add(1); k.locked.Load() {
		return nil, errors.New("the key store is not there")
	}
	return k.plainKeys.OpenSecret(ctx, entity, s)
}

// Who cannot open the key of its gateway begins nothing, and asks for the key at waits that grow, whatever the backlog.
func TestAKeyThatCannotBeOpenedHoldsItsInstance(t *testing.T) {
	t.Parallel()
	r, keys := newRig(t), &lockedKeys{}
	r.keys = keys
	keys.locked.Store(true)
	r.backlog(150)
	r.run(quick())
	eventually(t, "asked for the key", func() bool { return keys.asked.Load() >= 3 }, nil)
	<-time.After(2 * time.Second)
	// The question for the version needs no key.
	if n, requests := keys.asked.Load(), r.sim.Stats().Requests; n > 14 || requests > n || r.sim.Stats().Accepted != 0 || r.total(events.TypeDispatchStarted) != 0 {
		t.Errorf("asked %d times, %d requests, %d starts", n, requests, r.total(events.TypeDispatchStarted))
	}
	keys.locked.Store(false)
	r.awaitLeft(150)
}

// far makes connections to the gateway take their time; all wait for ready, when it is not nil.
type far struct {
	takes atomic.Int64 // nanoseconds
	ready chan struct{}
}

func (f *far) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d := time.Duration(f.takes.Load()); d > 0 {
		select {
		case <-f.ready: // never of nil
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// deferredFor lists why attempts of a message were put off.
func (r *rig) deferredFor(id string) (causes []string) {
	for _, rec := range r.history() {
		if b, ok := rec.Body.(*events.DispatchDeferred); ok && rec.Subject == id {
			causes = append(causes, b.Cause)
		}
	}
	return causes
}

// A connection that takes longer than an intent may be old goes on being made after the try that began it, and a later try has it.
func TestAGatewayThatIsSlowToConnectIsCalled(t *testing.T) {
	t.Parallel()
	r, f := newRig(t), &far{}
	r.dial = f.dial
	set := quick()
	set.SkipNumbers, set.Budget = true, time.Second
	d, _ := r.run(set)
	r.prime()
	f.takes.Store(int64(2300 * time.Millisecond))
	d.gateways.close() // the connection that is there idles no longer
	id := r.accept(order{text: "far away"})
	v := r.awaitStage(id, events.StageDispatched)
	causes := r.deferredFor(id)
	if v.Attempts < 2 || v.Attempts > 4 || r.ledger("far away") != 1 || len(causes) != v.Attempts-1 {
		t.Fatalf("%+v, ledger %d\n%s", v, r.ledger("far away"), r.story(id))
	}
	for _, c := range causes {
		if c != evolution.CauseNotConnected {
			t.Errorf("put off for %s", c)
		}
	}
}

// A gateway that gives no connection at all is told as out of reach after three tries, and probed; when it is reached again all leave.
func TestAGatewayThatNeverConnectsIsParkedAsOutOfReach(t *testing.T) {
	t.Parallel()
	r, f := newRig(t), &far{ready: make(chan struct{})}
	r.dial = f.dial
	set := quick()
	set.SkipNumbers, set.Budget, set.CallLimit, set.SuccessorWait = true, time.Second, 30*time.Second, time.Minute
	d, _ := r.run(set)
	r.prime()
	f.takes.Store(int64(time.Hour))
	d.gateways.close()
	r.backlog(30)
	eventually(t, "park", func() bool { return d.outages.count() == 1 }, nil)
	if p := r.parks(); len(p) != 1 || p[0] != instanceID+" "+events.ParkGateway+" "+evolution.CauseNotConnected {
		t.Errorf("parks %v", p)
	}
	if n := r.total(events.TypeDispatchStarted); n != 1+escalateAfter {
		t.Errorf("%d starts, one of them before", n)
	}
	for _, rec := range r.history() {
		if b, ok := rec.Body.(*events.DispatchDeferred); ok && b.ElapsedMS > 10_000 {
			t.Errorf("a try took %d ms, with a budget of %s", b.ElapsedMS, set.Budget)
		}
	}
	close(f.ready)
	r.awaitLeft(30)
}

// A log that is slow leaves a connection no time: that is not said to be the gateway's fault, which would hold all instances behind it.
func TestASlowLogParksNoGateway(t *testing.T) {
	t.Parallel()
	r, f := newRig(t), &far{}
	r.dial, r.keep = f.dial, time.Nanosecond     // each call has a connection of its own
	f.takes.Store(int64(300 * time.Millisecond)) // of a distant gateway
	const sync, budget = 500 * time.Millisecond, 700 * time.Millisecond
	var slow atomic.Bool
	slow.Store(true)
	set := quick()
	set.SkipNumbers, set.Budget = true, budget
	r.disk(set, func() error {
		if slow.Load() {
			<-time.After(sync)
		}
		return nil
	})
	r.backlog(10)
	eventually(t, "tries", func() bool { return r.total(events.TypeDispatchDeferred) > escalateAfter }, nil)
	slow.Store(false)
	r.awaitLeft(10)
	if p := r.parks(); len(p) != 0 {
		t.Errorf("parks %v", p)
	}
}

// R4: starts that are too old at their write, one after the other, are made at waits that grow.
func TestR4StartsThatGetTooOldBackOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var ahead, aging atomic.Int64
	r.keep = time.Nanosecond // each call has a connection of its own
	r.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if aging.Load() > 0 {
			aging.Add(-1)
			ahead.Add(int64(3 * time.Second)) // as after a pause of the process
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	set := quick()
	set.SkipNumbers, set.MaxClockSkew = true, time.Hour
	set.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	d, _ := r.run(set)
	r.prime()
	a := d.parts[0].actor(instanceID)
	aging.Store(4)
	id := r.accept(order{text: "aged", window: 10 * time.Minute})
	eventually(t, "waits", func() bool {
		a.holdoff.mu.Lock()
		defer a.holdoff.mu.Unlock()
		return a.holdoff.fails >= 3
	}, func() string { return r.story(id) })
	v := r.awaitStage(id, events.StageDispatched)
	if v.Attempts != 5 || r.ledger("aged") != 1 {
		t.Errorf("%+v, ledger %d\n%s", v, r.ledger("aged"), r.story(id))
	}
	for _, c := range r.deferredFor(id) {
		if c != causeStopped {
			t.Errorf("put off for %s", c)
		}
	}
}
