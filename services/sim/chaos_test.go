package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// The seats of dispatchers. Who sits in the last one does not share the lease.
var seats = []string{"left", "right", "stray"}

// drawChaos plans what happens to dispatchers, gateways, instances and the ingest.
func (p *plan) drawChaos(r *rand.Rand) {
	p.do(0, func(w *world) {
		w.fleet.start(seats[0], false)
		w.fleet.start(seats[1], false)
	})
	hours := int(p.Length / time.Hour)
	for range 2*hours + 2 {
		p.do(within(r, 0, p.Length), fleetMove(r))
	}
	for range hours/2 + 1 {
		p.drawGateway(r)
		p.drawIngest(r)
	}
	for range hours + 2 {
		p.drawConnection(r)
		p.drawOperator(r)
	}
}

// fleetMove ends a dispatcher in one way or another, and puts others in its place.
func fleetMove(r *rand.Rand) func(*world) {
	seat, alone, pause := seats[r.IntN(len(seats))], r.IntN(4) == 0, within(r, 0, 3*time.Minute)
	crash := r.IntN(2) == 0
	return func(w *world) {
		end := w.fleet.stop
		if crash {
			end = w.fleet.crash
		}
		end(seat)
		if alone {
			for _, other := range seats {
				end(other)
			}
		}
		pass(pause)
		w.fleet.start(seats[0], false)
		if !alone {
			w.fleet.start(seats[1], false)
			w.fleet.start(seats[2], true)
		}
	}
}

func (p *plan) drawGateway(r *rand.Rand) {
	at, n, length := within(r, 0, p.Length), r.IntN(gateways), within(r, time.Second, 40*time.Minute)
	mode := []linkMode{linkRefused, linkSilent}[r.IntN(2)]
	p.do(at, func(w *world) {
		w.gateways[n].host.set(mode)
		w.later(length, func() { w.gateways[n].host.set(linkUp) })
	})
}

func (p *plan) drawIngest(r *rand.Rand) {
	at, length := within(r, 0, p.Length), within(r, time.Second, 10*time.Minute)
	mode := []ingestMode{ingestDown, ingestLost, ingestSlow}[r.IntN(3)]
	p.do(at, func(w *world) {
		w.ingest.set(mode)
		w.later(length, func() { w.ingest.set(ingestUp) })
	})
}

// drawConnection loses the WhatsApp connection of an instance, or its place in the gateway's memory.
func (p *plan) drawConnection(r *rand.Rand) {
	at, n, length := within(r, 0, p.Length), r.IntN(instances), within(r, time.Second, 50*time.Minute)
	var down evolutionsim.Change
	closed, open, yes, no := "close", "open", true, false
	up := evolutionsim.Change{State: &open}
	switch r.IntN(4) {
	case 0:
		down = evolutionsim.Change{State: &closed, Reason: 401} // for good, until it is paired again
	case 1:
		down, up = evolutionsim.Change{Unloaded: &yes}, evolutionsim.Change{Unloaded: &no, State: &open}
	case 2:
		connecting := "connecting"
		down = evolutionsim.Change{State: &connecting}
	default:
		down = evolutionsim.Change{State: &closed}
	}
	change := func(w *world, c evolutionsim.Change) {
		if err := w.gateways[n%gateways].sim.ChangeInstance(instanceID(n), c); err != nil {
			w.rec.fail("change instance", err)
		}
	}
	p.do(at, func(w *world) {
		change(w, down)
		w.later(length, func() { change(w, up) })
	})
}

// drawOperator pauses or drains an instance and resumes it.
func (p *plan) drawOperator(r *rand.Rand) {
	at, n, length := within(r, 0, p.Length), r.IntN(instances), within(r, time.Second, 40*time.Minute)
	typ, name := events.TypeInstancePaused, "paused"
	if r.IntN(3) == 0 {
		typ, name = events.TypeInstanceDraining, "draining"
	}
	p.do(at, func(w *world) {
		w.operate(n, typ, name)
		w.later(length, func() { w.operate(n, events.TypeInstanceResumed, "resumed") })
	})
}

func (w *world) operate(n int, typ, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*longestOutage)
	defer cancel()
	p := events.PartitionOf(instanceID(n), partitions)
	_, err := w.log.Append(ctx, events.Event{
		Address:  events.EventSubject(p, instanceID(n), events.GroupInstance, name),
		Envelope: events.Envelope{ID: uuid.NewString(), Type: typ, Source: "pilot/sim", Time: time.Now().UTC()},
		Body:     &events.InstanceChanged{By: "operator:sim"},
	})
	if err != nil {
		w.rec.fail("operate instance", err)
	}
}
