package dispatcher

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/evolutionsim"
)

func simInstance(name string) evolutionsim.Instance {
	return evolutionsim.Instance{Name: name, Number: "5511900000000", State: "open"}
}

// everywhere answers sends and probes alike.
func (r *rig) everywhere(status int, body, instance string) {
	r.t.Helper()
	for _, call := range []string{"", "connectionState"} {
		r.fault(evolutionsim.Fault{Kind: "answer", Status: status, Body: body, ContentType: "application/json", Call: call, Instance: instance})
	}
}

func (r *rig) healed() {
	for _, f := range r.sim.Faults() {
		r.sim.RemoveFault(f.ID)
	}
}

func (r *rig) total(typ string) (n int) {
	for _, rec := range r.history() {
		if rec.Type == typ {
			n++
		}
	}
	return n
}

const license = `{"error":"service not activated","code":"LICENSE_REQUIRED"}`

// C1 13: a gateway without its licence parks once for all behind it, in every dispatcher; one instance asks for it, at the pace of
// one; and when it is back all leave.
func TestC1LicenseParksTheGatewayForEveryDispatcher(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	instances := r.many(40)
	r.everywhere(503, license, "")
	set := quick()
	set.ProbeEvery = 100 * time.Millisecond
	d1, _ := r.run(set)
	set.ID = "d2"
	d2, _ := r.run(set)
	var ids []string
	for _, id := range instances {
		ids = append(ids, r.accept(order{text: "licensed", instance: id}))
	}
	both := func(n int) func() bool {
		return func() bool { return d1.outages.count() == n && d2.outages.count() == n }
	}
	eventually(t, "both dispatchers know", both(1), func() string { return strings.Join(r.parks(), "\n") })
	for _, p := range r.parks() {
		if !strings.HasSuffix(p, events.ParkGateway+" "+evolution.CauseLicenseRequired) {
			t.Errorf("parked as %s", p)
		}
	}
	eventually(t, "what was begun has ended, and probes are left", func() bool {
		before := r.sim.Stats().Requests
		<-time.After(100 * time.Millisecond)
		return r.sim.Stats().Requests-before <= 4
	}, nil)
	late := r.accept(order{text: "licensed", instance: instances[7]})
	before, began := r.sim.Stats().Requests, time.Now()
	eventually(t, "probes", func() bool { return r.sim.Stats().Requests >= before+8 }, func() string { return "" })
	// These are probes, 50 ms apart at least.
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("8 requests in %s: more than one instance asks", took)
	}
	if r.count(late, events.TypeDispatchStarted) != 0 {
		t.Error("a message was begun while its gateway was known to be unusable")
	}
	if n := r.total(events.TypeDispatchDeferred); n > len(instances) {
		t.Errorf("%d deferred for %d instances", n, len(instances))
	}
	r.healed()
	for _, id := range append(ids, late) {
		r.awaitStage(id, events.StageDispatched)
	}
	eventually(t, "both dispatchers know that it is back", both(0), func() string { return strings.Join(r.parks(), "\n") })
	if n := r.ledger("licensed"); n != len(ids)+1 {
		t.Errorf("ledger %d", n)
	}
}

// C1 14: an instance whose key is refused is parked; three within a minute park the gateway. When the key is right again all leave.
func TestC1ThreeRefusedKeysParkTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	instances := r.many(4)
	r.everywhere(401, `{"status":401,"error":"Unauthorized","response":{"message":"Unauthorized"}}`, "")
	d, _ := r.run(quick())
	var ids []string
	for i, id := range instances[:3] { // one after the other: each park is known to the next
		ids = append(ids, r.accept(order{text: "key", instance: id}))
		eventually(t, "park", func() bool { return len(r.parks()) > i }, func() string { return strings.Join(r.parks(), "\n") })
	}
	for i, p := range r.parks() {
		want := instances[i] + " " + events.ParkInstance + " " + evolution.CauseUnauthorized
		if i == 2 {
			want = instances[i] + " " + events.ParkGateway + " " + evolution.CauseUnauthorized
		}
		if p != want {
			t.Errorf("park %d is %q, want %q", i, p, want)
		}
	}
	eventually(t, "the gateway is held", func() bool { return d.outages.count() == 1 }, func() string { return "" })
	fourth := r.accept(order{text: "key", instance: instances[3]})
	before := r.sim.Stats().Requests
	eventually(t, "probes", func() bool { return r.sim.Stats().Requests >= before+6 }, func() string { return "" })
	if r.count(fourth, events.TypeDispatchStarted) != 0 {
		t.Error("the fourth was begun behind a gateway that refuses keys")
	}
	r.healed()
	for _, id := range append(ids, fourth) {
		r.awaitStage(id, events.StageDispatched)
	}
}

// A gateway that answers somebody is usable: those that it refuses stay parked, the others go on.
func TestTheGatewayOfOtherInstancesGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	instances := r.many(4)
	for _, name := range []string{simName, "more-0", "more-1"} {
		r.everywhere(401, `{"status":401,"error":"Unauthorized","response":{"message":"Unauthorized"}}`, name)
	}
	d, _ := r.run(quick())
	for i, id := range instances[:3] {
		r.accept(order{text: "key", instance: id})
		eventually(t, "park", func() bool { return len(r.parks()) > i }, func() string { return strings.Join(r.parks(), "\n") })
	}
	r.awaitStage(r.accept(order{text: "mine is right", instance: instances[3]}), events.StageDispatched)
	if last := r.parks()[len(r.parks())-1]; d.outages.count() != 0 || !strings.HasSuffix(last, events.ParkInstance+" "+causeAnswers) {
		t.Errorf("%d gateways held, newest park %q", d.outages.count(), last)
	}
	if r.ledger("key") != 0 {
		t.Error("a refused one was sent")
	}
	r.healed()
	eventually(t, "all left", func() bool { return r.ledger("key") == 3 }, func() string { return "" })
}

// A gateway that cannot be reached is parked after three failures in a row, instead of each message being tried at it.
func TestAGatewayOutOfReachIsParkedAndProbed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var down atomic.Bool
	r.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if down.Load() {
			return nil, errors.New("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	down.Store(true)
	set := quick()
	set.SkipNumbers = true
	d, _ := r.run(set)
	var ids []string
	for range 30 {
		ids = append(ids, r.accept(order{text: "out of reach", class: events.ClassUtility}))
	}
	eventually(t, "park", func() bool { return d.outages.count() == 1 }, func() string { return strings.Join(r.parks(), "\n") })
	if p := r.parks(); len(p) != 1 || !strings.HasSuffix(p[0], events.ParkGateway+" "+evolution.CauseNotConnected) {
		t.Errorf("parks %v", p)
	}
	if n := r.total(events.TypeDispatchStarted); n != escalateAfter {
		t.Errorf("%d attempts at a gateway out of reach", n)
	}
	down.Store(false)
	for _, id := range ids {
		if v := r.awaitStage(id, events.StageDispatched); v.Attempts > 1+escalateAfter {
			t.Errorf("%d attempts", v.Attempts)
		}
	}
}

// C1 4: after a call without an answer nothing starts before the instance answers a number check, whatever the time.
func TestC1TheBreakerWaitsForANumberCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "answer", Status: 504, Body: `<html>`, ContentType: "text/html", TextContains: "lost", Times: 1})
	set := quick()
	set.LookUps = []time.Duration{time.Hour}
	set.Rules.Quiet = 20 * time.Millisecond
	r.run(set)
	lost := r.accept(order{text: "lost"})
	r.awaitUnknown(lost)
	id, err := r.sim.AddFault(evolutionsim.Fault{Call: "whatsappNumbers", Kind: "answer", Status: 500, Body: `{}`, ContentType: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	before := r.sim.Stats().Requests
	next := r.accept(order{text: "next"})
	eventually(t, "checks", func() bool { return r.sim.Stats().Requests >= before+3 }, func() string { return r.story(next) })
	if n := r.count(next, events.TypeDispatchStarted); n != 0 {
		t.Fatalf("%d starts while the number check is not answered", n)
	}
	r.sim.RemoveFault(id)
	r.awaitStage(next, events.StageDispatched)
	if v := r.awaitStage(lost, events.StageUnconfirmed); v.Attempts != 1 {
		t.Errorf("%+v", v)
	}
}

// By setting, an answer that the sender cannot be used fails its message; the sender goes on.
func TestFailBySetting(t *testing.T) {
	t.Parallel()
	for cause, c := range map[string]struct {
		status int
		body   string
		code   events.ErrorCode
	}{
		evolution.CauseUnauthorized:    {401, `{"status":401,"error":"Unauthorized","response":{"message":"Unauthorized"}}`, events.FailGatewayRejected},
		evolution.CauseInstanceUnknown: {404, `{"status":404,"error":"Not Found","response":{"message":["The \"acme\" instance does not exist"]}}`, evolution.CodeInstanceMissing},
		evolution.CauseLicenseRequired: {503, license, events.FailGatewayRejected},
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fault(evolutionsim.Fault{Kind: "answer", Status: c.status, Body: c.body, ContentType: "application/json", Times: 1})
			set := quick()
			set.FailOn = []string{cause}
			r.run(set)
			id := r.accept(order{text: "by setting"})
			v := r.awaitStage(id, events.StageFailed)
			if v.ErrorCode != c.code || v.Presumed || !v.Refunded || len(r.parks()) != 0 {
				t.Errorf("%+v, parks %v", v, r.parks())
			}
			for _, rec := range r.history() {
				if b, ok := rec.Body.(*events.DispatchRefused); ok && b.Cause != cause {
					t.Errorf("refused by %q", b.Cause)
				}
			}
			r.awaitStage(r.accept(order{text: "by setting"}), events.StageDispatched)
		})
	}
}

// A limit that the gateway names is the instance's: another message does not try it meanwhile, and the wait is no attempt of either.
func TestALimitHoldsTheInstance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 429, Body: `{}`, ContentType: "application/json", Headers: map[string]string{"Retry-After": "2"}, TextContains: "one", Times: 1,
	})
	r.run(quick())
	one := r.accept(order{text: "one"})
	eventually(t, "deferred", func() bool { return r.count(one, events.TypeDispatchDeferred) == 1 }, func() string { return r.story(one) })
	two := r.accept(order{text: "two"})
	r.awaitStage(one, events.StageDispatched)
	r.awaitStage(two, events.StageDispatched)
	var limited, begun time.Time
	for _, rec := range r.history() {
		if rec.Subject == one && rec.Type == events.TypeDispatchDeferred {
			limited = rec.Time
		}
		if rec.Subject == two && rec.Type == events.TypeDispatchStarted {
			begun = rec.Time
		}
	}
	if wait := begun.Sub(limited); wait < 1900*time.Millisecond {
		t.Errorf("the other message tried after %s", wait)
	}
}

// C1: a limit is over when the gateway said, not when a call that was under way beside it succeeds.
func TestALimitOutlivesACallBesideIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wide(2)
	r.fault(evolutionsim.Fault{Kind: "delay", DelayMS: 3000, Call: "sendText", TextContains: "slow", Times: 1}) // the limit is told meanwhile
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 429, Body: `{}`, ContentType: "application/json", Headers: map[string]string{"Retry-After": "6"}, TextContains: "limited", Times: 1,
	})
	r.run(quick())
	slow := r.accept(order{text: "slow", slot: 1, number: "5511988887701"})
	eventually(t, "started", func() bool { return r.count(slow, events.TypeDispatchStarted) == 1 }, nil)
	limited := r.accept(order{text: "limited", slot: 2, number: "5511988887702"})
	eventually(t, "deferred", func() bool { return r.count(limited, events.TypeDispatchDeferred) == 1 }, nil)
	third := r.accept(order{text: "third", slot: 3, number: "5511988887703"})
	r.awaitStage(third, events.StageDispatched)
	var told, accepted, begun time.Time
	for _, rec := range r.history() {
		switch {
		case rec.Subject == limited && rec.Type == events.TypeDispatchDeferred:
			told = rec.Time
		case rec.Subject == slow && rec.Type == events.TypeDispatchAccepted:
			accepted = rec.Time
		case rec.Subject == third && rec.Type == events.TypeDispatchStarted:
			begun = rec.Time
		}
	}
	if !accepted.After(told) {
		t.Fatalf("the slow call was over %s before the limit", told.Sub(accepted))
	}
	if wait := begun.Sub(told); wait < 5900*time.Millisecond {
		t.Errorf("another message was tried after %s", wait)
	}
}

// C1 5 and 10: an instance that lost WhatsApp, or that its gateway has not loaded, parks by its first answer, fails nothing, and sends
// when it is there again.
func TestC1AnInstanceThatIsNotThereParksAndResumes(t *testing.T) {
	t.Parallel()
	yes, no, open, connecting := true, false, "open", "connecting"
	for name, c := range map[string]struct{ gone, back evolutionsim.Change }{
		evolution.CauseConnectionClosed: {evolutionsim.Change{State: &connecting}, evolutionsim.Change{State: &open}},
		evolution.CauseNotLoaded:        {evolutionsim.Change{Unloaded: &yes}, evolutionsim.Change{Unloaded: &no, State: &open}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			change := func(c evolutionsim.Change) {
				if err := r.sim.ChangeInstance(simName, c); err != nil {
					t.Fatal(err)
				}
			}
			change(c.gone)
			set := quick()
			set.SkipNumbers = true // the check would keep a message back before its call
			r.run(set)
			var ids []string
			for range 5 {
				ids = append(ids, r.accept(order{text: "later", class: events.ClassUtility}))
			}
			eventually(t, "park", func() bool { return len(r.parks()) > 0 }, func() string { return r.story(ids[0]) })
			before := r.sim.Stats().Requests
			eventually(t, "probes", func() bool { return r.sim.Stats().Requests >= before+2 }, nil)
			if p := r.parks(); len(p) != 1 || p[0] != instanceID+" "+events.ParkInstance+" "+name || r.total(events.TypeDispatchStarted) != 1 {
				t.Errorf("parks %v, %d starts", p, r.total(events.TypeDispatchStarted))
			}
			change(c.back)
			for _, id := range ids {
				r.awaitStage(id, events.StageDispatched)
			}
		})
	}
}
