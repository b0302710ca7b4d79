package sim

import (
	"math/rand/v2"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
)

// The seats of dispatchers. Who sits in the last one does not know of the others, nor they of it.
var seats = []string{"left", "right", "third", "fourth", stray}

const stray = "stray"

// drawChaos plans what happens to dispatchers, gateways, instances and the ingest.
func (p *plan) drawChaos(r *rand.Rand) {
	p.do(0, func(w *world) {
		w.fleet.start(seats[0])
		w.fleet.start(seats[1])
	})
	hours := int(p.Length / time.Hour)
	for range 2*hours + 2 {
		p.do(within(r, 0, p.Length), fleetMove(r))
	}
	for range 2*hours + 4 {
		p.do(within(r, 0, p.Length), fleetJoin(r))
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

// fleetMove ends a dispatcher in one way or another, or all, and puts others in its place.
func fleetMove(r *rand.Rand) func(*world) {
	seat, alone, pause := seats[r.IntN(len(seats))], r.IntN(4) == 0, within(r, 0, 3*time.Minute)
	crash := r.IntN(2) == 0
	return func(w *world) {
		w.fleet.end(seat, crash)
		if alone {
			for _, other := range seats {
				w.fleet.end(other, crash)
			}
		}
		pass(pause)
		w.fleet.start(seats[0])
		if !alone {
			w.fleet.start(seats[1])
			w.fleet.start(stray)
		}
	}
}

// fleetJoin lets one more dispatcher join, or leave again.
func fleetJoin(r *rand.Rand) func(*world) {
	seat, crash := seats[2+r.IntN(2)], r.IntN(2) == 0
	return func(w *world) {
		if w.fleet.seats[seat] != nil {
			w.fleet.end(seat, crash)
		} else {
			w.fleet.start(seat)
		}
	}
}

func (p *plan) drawGateway(r *rand.Rand) {
	at, n, length := within(r, 0, p.Length), r.IntN(calm), within(r, time.Second, 40*time.Minute)
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
	at, n, length := within(r, 0, p.Length), r.IntN(troubled), within(r, time.Second, 50*time.Minute)
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
		if err := w.gatewayOf(n).sim.ChangeInstance(instanceID(n), c); err != nil {
			w.rec.fail("change instance", err)
		}
	}
	p.do(at, func(w *world) {
		change(w, down)
		w.later(length, func() { change(w, up) })
	})
}
