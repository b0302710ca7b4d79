package receipts

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/services/control"
)

// attic is gateways by their URL: those that hang, those that take their time, those that do not know an instance, and those that answer.
type attic struct {
	mu    sync.Mutex
	now   map[string]int // calls under way, by gateway and by instance
	most  map[string]int
	hangs bool                // all of them, from now on
	calls map[string][]string // instances asked for, by gateway
	done  map[string]time.Time
	named map[string]string // as what an instance was registered last
	heard chan string       // instances that are registered
}

func newAttic() *attic {
	return &attic{now: map[string]int{}, most: map[string]int{}, calls: map[string][]string{}, done: map[string]time.Time{}, named: map[string]string{}, heard: make(chan string, 1000)}
}

func (a *attic) Ingress(context.Context, events.Instance) (control.Ingress, error) {
	return control.Ingress{}, nil
}

func (a *attic) SetWebhook(ctx context.Context, in events.Instance, _ evolution.Webhook) error {
	a.mu.Lock()
	for _, of := range []string{in.GatewayURL, in.ID} {
		a.now[of]++
		a.most[of] = max(a.most[of], a.now[of])
	}
	a.calls[in.GatewayURL] = append(a.calls[in.GatewayURL], in.ID)
	hangs := a.hangs || strings.HasPrefix(in.GatewayURL, "http://hangs")
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.now[in.GatewayURL]--
		a.now[in.ID]--
		a.mu.Unlock()
	}()
	switch {
	case hangs:
		<-ctx.Done()
		return fmt.Errorf("register webhook: %w", ctx.Err())
	case in.GatewayURL == "http://slow":
		time.Sleep(slowAnswer) // in the bubble
	case strings.HasPrefix(in.ID, "unknown"):
		return &evolution.Failure{Call: evolution.CallSetWebhook, Status: 404, Verdict: evolution.Verdict{Scope: evolution.ScopeInstance}}
	}
	a.mu.Lock()
	a.done[in.ID], a.named[in.ID] = time.Now(), in.Name
	a.mu.Unlock()
	a.heard <- in.ID
	return nil
}

const slowAnswer = 50 * time.Millisecond

func behind(p *plane, url, id string) {
	p.instance(events.Instance{ID: id, Name: id, GatewayURL: url})
}

// registrar runs one in a bubble of its own time, as it is by default, until the test is over.
func registrar(t *testing.T, p *plane, a *attic) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = NewRegistrar(p, a, a, RegistrarSettings{BaseURL: "http://in.example"}).Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-over })
}

// within waits for the registration of an instance, and fails when it took longer.
func (a *attic) within(t *testing.T, id string, d time.Duration) {
	t.Helper()
	late := time.After(d)
	for {
		select {
		case got := <-a.heard:
			if got == id {
				return
			}
		case <-late:
			t.Fatalf("%s is not registered after %s", id, d)
		}
	}
}

// A gateway that hangs, with however many instances behind it, has one call at a time, less often each time, and each of its instances
// in turn: a new instance of another gateway is registered at once.
func TestAHungGatewayHoldsUpNoOtherRegistration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, a := newPlane(), newAttic()
		for i := range 200 {
			behind(p, "http://hangs", fmt.Sprintf("dead-%d", i))
		}
		registrar(t, p, a)
		for _, wait := range []time.Duration{time.Second, 20 * time.Second, 10 * time.Minute} {
			time.Sleep(wait) // in the bubble: of no real time
			id := fmt.Sprintf("new-%d", wait/time.Second)
			behind(p, "http://answers", id)
			a.within(t, id, 100*time.Millisecond)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		calls := a.calls["http://hangs"]
		turns := map[string]bool{}
		for _, id := range calls {
			turns[id] = true
		}
		// 15 s a call, and 30 to 60 s between them once it failed a few times
		if n := len(calls); a.most["http://hangs"] != 1 || n < 8 || n > 20 || len(turns) != n {
			t.Errorf("%d calls, %d at once, of %d instances", n, a.most["http://hangs"], len(turns))
		}
	})
}

// Any number of gateways that hang leaves slots to those that do not, once each of them was met.
func TestManyHungGatewaysHoldUpNoOtherRegistration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, a := newPlane(), newAttic()
		for i := range 300 {
			behind(p, fmt.Sprintf("http://hangs-%d", i), fmt.Sprintf("dead-%d", i))
		}
		registrar(t, p, a)
		time.Sleep(5 * time.Minute)
		for i := range 10 {
			id := fmt.Sprintf("new-%d", i)
			behind(p, "http://answers", id)
			a.within(t, id, 100*time.Millisecond)
			time.Sleep(7 * time.Second)
		}
	})
}

// What a gateway says of one instance holds up no other behind it, and is asked for again less and less.
func TestARefusedRegistrationHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, a := newPlane(), newAttic()
		for i := range 50 {
			behind(p, "http://answers", fmt.Sprintf("unknown-%d", i))
		}
		behind(p, "http://answers", "zz")
		registrar(t, p, a)
		a.within(t, "zz", 100*time.Millisecond)
		time.Sleep(10 * time.Minute)
		a.mu.Lock()
		defer a.mu.Unlock()
		if n := len(a.calls["http://answers"]); n < 50*10 || n > 50*30 || a.most["http://answers"] > atOneGateway { // a refusal is an answer
			t.Errorf("%d calls, %d at once", n, a.most["http://answers"])
		}
		if got := a.done["zz"]; time.Since(got) < 10*time.Minute-time.Second {
			t.Errorf("registered again after %s", 10*time.Minute-time.Since(got))
		}
	})
}

// A gateway that answers has several calls at a time, so that a thousand instances behind a slow one are registered in seconds; when it
// hangs, it has one again.
func TestAGatewayThatAnswersHasSeveralRegistrationsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, a := newPlane(), newAttic()
		const n = 1000
		for i := range n {
			behind(p, "http://slow", fmt.Sprintf("in-%d", i))
		}
		registrar(t, p, a)
		began := time.Now()
		for range n {
			<-a.heard
		}
		if took, want := time.Since(began), n*slowAnswer/atOneGateway; took < want || took > want+time.Second || a.most["http://slow"] != atOneGateway {
			t.Errorf("registered in %s, %d at once", took, a.most["http://slow"])
		}
		synctest.Wait()
		a.mu.Lock()
		before := len(a.calls["http://slow"])
		a.hangs = true
		a.mu.Unlock()
		time.Sleep(time.Hour + time.Minute) // all are due again
		a.mu.Lock()
		defer a.mu.Unlock()
		// Eight that began at once, then one every 15 s and the wait between
		if hung := len(a.calls["http://slow"]) - before; hung < atOneGateway || hung > atOneGateway+10 || a.now["http://slow"] > 1 {
			t.Errorf("%d calls while it hung, %d now", hung, a.now["http://slow"])
		}
	})
}

// An instance that is changed while its registration is under way has one at a time, and the newest holds.
func TestAnInstanceHasOneRegistrationAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, a := newPlane(), newAttic()
		for i := range 20 { // so that the gateway has several at once
			behind(p, "http://slow", fmt.Sprintf("in-%d", i))
		}
		registrar(t, p, a)
		for range 20 {
			<-a.heard
		}
		for i := range 10 {
			p.instance(events.Instance{ID: "in-0", Name: fmt.Sprintf("name-%d", i), GatewayURL: "http://slow"})
			time.Sleep(slowAnswer / 3)
		}
		time.Sleep(time.Second)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.most["in-0"] != 1 || a.named["in-0"] != "name-9" {
			t.Errorf("%d at once, the last one as %s", a.most["in-0"], a.named["in-0"])
		}
	})
}
