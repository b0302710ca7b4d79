package dispatcher

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/evolutionsim"
)

// runs changes the version of the gateway while it runs.
func (r *rig) runs(version string) {
	r.t.Helper()
	if err := r.sim.ChangeGateway(evolutionsim.GatewayChange{Version: &version}); err != nil {
		r.t.Fatal(err)
	}
}

// awaitVersion waits until a dispatcher knows that the gateway runs a version.
func (r *rig) awaitVersion(d *Dispatcher, version string) {
	r.t.Helper()
	known := func() string { return d.version(r.sim.URL()) }
	eventually(r.t, version, func() bool { return known() == version }, known)
}

func (d *Dispatcher) version(url string) string {
	d.gateways.mu.Lock()
	defer d.gateways.mu.Unlock()
	return d.gateways.askers[url].client.KnownVersion()
}

// asked reports whether a gateway was asked for its version and told it, or not.
func (d *Dispatcher) asked(url string) bool {
	d.gateways.mu.Lock()
	defer d.gateways.mu.Unlock()
	a := d.gateways.askers[url]
	return a != nil && !a.busy && !a.next.IsZero()
}

// A gateway is asked once for all its instances, whatever their keys, and again until it tells; all its clients know then.
func TestAGatewayIsAskedOnceForAllItsInstances(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("apikey") != "" {
			t.Error("the version is asked with a key")
		}
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":200,"version":"2.4.0"}`)) // the client's own error shows
	}))
	defer server.Close()
	c := &fixedCatalog{catalog: catalog.New(), changes: make(chan struct{}, 1)}
	var all []events.Instance
	for i := range 200 {
		inst := events.Instance{ID: fmt.Sprintf("i-%d", i), GatewayURL: server.URL, GatewayKey: events.Sealed{Blob: fmt.Appendf(nil, "key %d", i)}}
		c.define(inst)
		all = append(all, inst)
	}
	d := New(Config{Catalog: c, Keys: plainKeys{}, Logger: zerolog.Nop(), Gateway: func(url, key string) (*evolution.Client, error) {
		return evolution.New(evolution.Config{BaseURL: url, APIKey: key})
	}})
	defer d.gateways.close()
	d.gateways.moved.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.askVersions(ctx) }()
	eventually(t, "the first question", func() bool { return asked.Load() == 1 }, func() string { return "" })
	chosen := func(inst events.Instance) string {
		client, err := d.gateways.client(ctx, inst)
		if err != nil {
			t.Fatal(err)
		}
		return chooseID(client, evolution.CallSendText)
	}
	for _, inst := range all { // it has told nothing yet: no id is chosen, and nobody asks on the way of a message
		if id := chosen(inst); id != "" && asked.Load() == 1 {
			t.Fatalf("chosen %q", id)
		}
	}
	eventually(t, "told", func() bool { return d.version(server.URL) == "2.4.0" }, func() string { return "" })
	for _, inst := range all {
		if chosen(inst) == "" {
			t.Fatal("no id is chosen")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// The runbook's upgrade, 2.3 to 2.4: drain, upgrade, resume. No dispatcher restarts, and ids are chosen from then on.
func TestAnUpgradeIsKnownWhenItsInstanceGoesOn(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *evolutionsim.Options) { o.Version = "2.3.7" })
	d, _ := r.run(quick())
	before := r.accept(order{text: "before"})
	r.awaitStage(before, events.StageDispatched)
	r.instanceEvent(events.TypeInstanceDraining, "draining")
	r.runs("2.4.0")
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitVersion(d, "2.4.0")
	after := r.accept(order{text: "after"})
	v := r.awaitStage(after, events.StageDispatched)
	if r.chosen(before) != "" || r.chosen(after) == "" || r.chosen(after) != v.GatewayID {
		t.Errorf("chosen %q before, %q after, bound %q", r.chosen(before), r.chosen(after), v.GatewayID)
	}
}

// A downgrade of which nobody says anything is known after a while. What was sent meanwhile with an id that the gateway ignored left once.
func TestADowngradeIsKnownAfterAWhile(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, version24)
	set := quick()
	set.VersionEvery = 2 * time.Second
	d, _ := r.run(set)
	r.runs("2.3.7")
	meanwhile := r.accept(order{text: "meanwhile"})
	v := r.awaitStage(meanwhile, events.StageDispatched)
	if v.GatewayID != r.keyOf("meanwhile") || r.ledger("meanwhile") != 1 {
		t.Errorf("%+v\n%s", v, r.story(meanwhile))
	}
	r.awaitVersion(d, "2.3.7")
	after := r.accept(order{text: "after"})
	r.awaitStage(after, events.StageDispatched)
	if r.chosen(after) != "" {
		t.Errorf("chosen %q", r.chosen(after))
	}
}

// C1 5 across versions: an answer that means "not sent" in 2.3 and 2.4 comes from a gateway that was replaced by another version, which had
// sent. Nobody said anything of it, and the message is not sent again.
func TestAReplacedGatewayIsNotTakenForTheOldOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.run(quick())
	r.awaitStage(r.accept(order{text: "before"}), events.StageDispatched)
	eventually(t, "some time after it was told", func() bool {
		d.gateways.mu.Lock()
		defer d.gateways.mu.Unlock()
		age, _ := d.gateways.askers[r.sim.URL()].client.VersionAge()
		return age > 1100*time.Millisecond
	}, func() string { return "" })
	r.runs("2.2.3")
	r.fault(evolutionsim.Fault{
		Kind: "answer", When: "after", Status: 500, Body: `{"status":500,"error":"Internal Server Error","response":{"message":"Connection Closed"}}`,
		ContentType: "application/json", TextContains: "left", Times: 1,
	})
	id := r.accept(order{text: "left", class: events.ClassUtility})
	eventually(t, "its outcome", func() bool {
		return r.count(id, events.TypeDispatchUnknown)+r.count(id, events.TypeDispatchDeferred) > 0
	}, func() string { return r.story(id) })
	if r.count(id, events.TypeDispatchDeferred) != 0 {
		t.Errorf("deferred\n%s", r.story(id))
	}
	r.awaitStage(id, events.StageDispatched) // a look-up proves it
	if n := r.ledger("left"); n != 1 {
		t.Errorf("left %d times\n%s", n, r.story(id))
	}
	if v := d.version(r.sim.URL()); v != "2.2.3" {
		t.Errorf("known as %s", v)
	}
}
