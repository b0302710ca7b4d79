package dispatcher

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/snapshots"
)

// elsewhere defines an instance behind the gateway of the rig, before instanceID by its name and in the other partition of two.
func (r *rig) elsewhere() (id string, p events.Partition) {
	r.t.Helper()
	inst := r.instance()
	for i := 0; id == "" || events.PartitionOf(id, r.parts) == r.p; i++ {
		id = fmt.Sprintf("far-%d", i)
	}
	inst.ID, inst.Name = id, "far"
	if err := r.sim.AddInstance(simInstance(inst.Name)); err != nil {
		r.t.Fatal(err)
	}
	r.catalog.define(inst)
	return id, events.PartitionOf(id, r.parts)
}

// parkedWide appends that a gateway is unusable, as an instance behind it found.
func (r *rig) parkedWide(id string) {
	r.t.Helper()
	_, err := r.log.Append(r.t.Context(), events.Event{
		Address:  events.EventSubject(events.PartitionOf(id, r.parts), id, events.GroupInstance, "parked"),
		Envelope: events.Envelope{ID: uuid.NewString(), Type: events.TypeInstanceParked, Source: "pilot/test", Time: time.Now().UTC()},
		Body:     &events.InstanceChanged{By: "test", Reason: evolution.CauseLicenseRequired, Scope: events.ParkGateway},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// lose takes the stream of a partition away: it can be neither read nor written.
func (r *rig) lose(p events.Partition) {
	r.t.Helper()
	if err := r.js.DeleteStream(r.t.Context(), events.EventsStream(p)); err != nil {
		r.t.Fatal(err)
	}
	r.lost = map[events.Partition]bool{p: true}
}

// halt has dispatchers that start from now on stop a partition: their witness has seen more of it than there is.
func (r *rig) halt(p events.Partition) {
	r.t.Helper()
	w := snapshots.NewWitness(r.t.TempDir())
	if err := w.Write(p.String(), snapshots.Mark{Sequence: 1000, EventID: "lost", Chain: strings.Repeat("0", 64)}); err != nil {
		r.t.Fatal(err)
	}
	r.witness = w
}

// seal has a partition take nothing more; it can be read.
func (r *rig) seal(p events.Partition) {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), events.EventsStream(p))
	if err != nil {
		r.t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.Sealed = true
	if _, err := r.js.UpdateStream(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
}

// heard is a log that may be read while it is written.
type heard struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

// logger is where the dispatchers of the rig log.
func (r *rig) logger() zerolog.Logger {
	if r.says != nil {
		return zerolog.New(r.says)
	}
	return testLogger()
}

// lines gives those that hold a text.
func (h *heard) lines(text string) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for line := range strings.Lines(h.b.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// A partition that cannot be read keeps the others of a dispatcher that starts back for some time, and no longer. What is known of parks
// holds all the same.
func TestAPartitionThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	r := newRigOf(t, 2, nil)
	_, far := r.elsewhere()
	r.lose(far)
	says := &heard{}
	r.says = says
	set := quick()
	set.parksWithin = 500 * time.Millisecond
	began := time.Now()
	d, _ := r.run(set)
	id := r.accept(order{text: "goes on"})
	r.awaitStage(id, events.StageDispatched)
	if took := time.Since(began); took < set.parksWithin {
		t.Errorf("it left after %s, and the parks of a partition were not known", took)
	}
	if !d.outages.known() {
		t.Error("what is missing is waited for")
	}
	const warning = "work begins without the parks"
	if lines := says.lines(warning); len(lines) != 1 || !strings.Contains(lines[0], `"partitions":["`+far.String()+`"]`) || !strings.Contains(lines[0], `"warn"`) {
		t.Errorf("it says %q", lines)
	}
	r.everywhere(503, license, "")
	r.accept(order{text: "held"})
	eventually(t, "held", func() bool { return d.outages.count() == 1 }, nil)
}

// A gateway whose holder is gone is held no longer, and the metric says so.
func TestARemovedInstanceHoldsNoGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.many(2)
	r.everywhere(503, license, "")
	set := quick()
	set.ProbeEvery = time.Hour
	d, _ := r.run(set)
	parked := func(n int) func() bool {
		return func() bool { return d.outages.count() == n && testutil.ToFloat64(d.metrics.gateways) == float64(n) }
	}
	r.parkedWide(ids[1])
	eventually(t, "held", parked(1), nil)
	r.catalog.change(events.RemovedType(events.KindInstance), events.KindInstance, ids[1], &events.Removed{})
	eventually(t, "free", parked(0), nil)
}

// Who holds a gateway may be unable to ask for it, or to say that it is back: the others behind it go on all the same.
func TestAGatewayIsNotHeldByWhoCannotLetGo(t *testing.T) {
	t.Parallel()
	for name, hinder := range map[string]func(r *rig, id string, p events.Partition, set *Settings){
		"its partition is stopped":    func(r *rig, _ string, p events.Partition, _ *Settings) { r.halt(p) },
		"its partition takes nothing": func(r *rig, _ string, p events.Partition, _ *Settings) { r.seal(p) },
		"its dispatcher does nothing": func(r *rig, id string, p events.Partition, set *Settings) {
			g := roster.Member{Serves: []events.Partition{p}}
			for i := 0; g.ID == "" || roster.Owner([]string{set.ID, g.ID}, id) != g.ID; i++ {
				g.ID = fmt.Sprintf("ghost-%d", i)
			}
			raw, err := g.Encode()
			if err == nil {
				err = r.leases.Note(r.t.Context(), roster.Key(g.ID), raw, time.Minute)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigOf(t, 2, nil)
			id, far := r.elsewhere()
			r.parkedWide(id)
			set := quick()
			hinder(r, id, far, &set)
			d, _ := r.run(set)
			r.awaitStage(r.accept(order{text: "goes on"}), events.StageDispatched)
			if d.outages.count() != 0 || len(r.parks()) != 1 {
				t.Errorf("%d gateways held, parks %v", d.outages.count(), r.parks())
			}
		})
	}
}

// What the one that asks finds is in the log, and lets all dispatchers go on, also where others were parked that cannot say so.
func TestEveryDispatcherHearsThatAGatewayIsBack(t *testing.T) {
	t.Parallel()
	r := newRigOf(t, 2, nil)
	id, far := r.elsewhere()
	r.parkedWide(id)
	r.halt(far)
	set := quick()
	one, _ := r.run(set)
	set = named(quick(), set.ID, false)
	set.ProbeEvery = time.Hour // it asks nobody itself
	two, _ := r.run(set)
	eventually(t, "both work", func() bool { return one.Leading() && two.Leading() && one.owns(instanceID) }, nil)
	eventually(t, "both know", func() bool { return two.outages.count() == 1 }, nil)
	r.parkedWide(instanceID)
	eventually(t, "both have heard", func() bool { return two.outages.count() == 0 }, func() string { return strings.Join(r.parks(), "\n") })
}

// However long a gateway is away, whoever holds it and however many wait: each dispatcher asks seldom, and none not at all.
func TestLoadOnAGatewayThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRigOf(t, 2, nil)
	id, far := r.elsewhere()
	instances := r.many(40)
	r.parkedWide(id)
	r.halt(far)
	r.everywhere(503, license, "")
	set := quick()
	set.ProbeEvery, set.ProbeMax = 100*time.Millisecond, 400*time.Millisecond
	var waiting []string
	for _, id := range instances {
		if events.PartitionOf(id, r.parts) == r.p {
			waiting = append(waiting, r.accept(order{text: "away", instance: id}))
		}
	}
	if len(waiting) < 10 {
		t.Fatalf("%d wait", len(waiting))
	}
	set.ID = "d1"
	d1, _ := r.run(set)
	set.ID = "d2"
	d2, _ := r.run(set)
	eventually(t, "both hold it", func() bool { return d1.Leading() && d2.Leading() && d1.outages.count() == 1 && d2.outages.count() == 1 }, nil)
	before, began := r.sim.Stats().Requests, time.Now()
	eventually(t, "it is asked", func() bool { return r.sim.Stats().Requests >= before+16 }, nil)
	// Each of the two asks three times while its waits grow, and then every 200 ms at least.
	if took := time.Since(began); took < time.Second {
		t.Errorf("16 requests in %s", took)
	}
	if n := r.total(events.TypeDispatchStarted); n != 0 {
		t.Errorf("%d were begun", n)
	}
	r.healed()
	for _, id := range waiting {
		r.awaitStage(id, events.StageDispatched)
	}
}
