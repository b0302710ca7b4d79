package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/streamtest"
	"pilotstatus.dev/infra/topology"
)

// runAstray starts a dispatcher that asks another server who lives: it hears of itself only, and believes to own everything.
func (r *rig) runAstray(set Settings) (d *Dispatcher, stop func()) {
	r.t.Helper()
	there := r.leases
	defer func() { r.leases = there }()
	r.leases = streamtest.New(r.t, partitionN, eventlog.Options{Logger: zerolog.Nop()}).Leases
	return r.run(set)
}

// ghost takes the instance from a dispatcher that owns it, for one that says that it lives and does nothing; lay takes it back.
func (r *rig) ghost(d *Dispatcher) (lay func()) {
	r.t.Helper()
	awaitOwner(r.t, d)
	g := roster.Member{Serves: []events.Partition{r.p}}
	for i := 0; g.ID == "" || roster.Owner([]string{d.set.ID, g.ID}, instanceID) != g.ID; i++ {
		g.ID = fmt.Sprintf("ghost-%d", i)
	}
	raw, err := g.Encode()
	if err == nil {
		err = r.leases.Note(r.t.Context(), roster.Key(g.ID), raw, time.Minute)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	eventually(r.t, "the ghost owns it", func() bool { return !d.owns(instanceID) }, nil)
	return func() {
		if err := r.leases.Forget(r.t.Context(), roster.Key(g.ID)); err != nil {
			r.t.Error(err)
		}
	}
}

func awaitOwner(t testing.TB, d *Dispatcher) {
	t.Helper()
	eventually(t, d.set.ID+" owns the instance", func() bool { return d.owns(instanceID) }, nil)
}

// runApart starts a dispatcher with a connection of its own. kill takes that away first: as after a SIGKILL nothing is said or
// recorded any more.
func (r *rig) runApart(set Settings) (d *Dispatcher, stop, kill func()) {
	r.t.Helper()
	nc, err := r.server.Connect(natsserver.Client{Name: set.ID})
	if err != nil {
		r.t.Fatal(err)
	}
	closed := nc.StatusChanged(nats.CLOSED)
	r.t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	js, err := jetstream.New(nc)
	if err != nil {
		r.t.Fatal(err)
	}
	log, leases := r.log, r.leases
	defer func() { r.log, r.leases = log, leases }()
	r.log = eventlog.New(js, eventlog.Options{Logger: zerolog.Nop()})
	r.leases = eventlog.NewLeases(r.log, topology.Deployment{Partitions: partitionN})
	d, stop = r.run(set)
	return d, stop, func() {
		nc.Close()
		go stop() // nobody waits for one that is killed: a turn that has lost its connection goes on for its Drain
	}
}

// named gives settings under an id that has the instance in preference to the other one, or has not.
func named(set Settings, other string, owns bool) Settings {
	for i := 0; ; i++ {
		set.ID = fmt.Sprintf("d-%d", i)
		if set.ID != other && (roster.Owner([]string{other, set.ID}, instanceID) == set.ID) == owns {
			return set
		}
	}
}
