package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// The end of each run is quiet: nothing breaks but dispatchers, one after the other, and the instances of the calm gateway have more to
// send than they may. There the order in which they send is held to what docs/architecture.md promises.
const (
	quietAfter  = 6 * time.Minute // after Length: the last fault of the log is over, and who works is settled
	quietShared = 90              // messages for the shared number
	quietOwned  = 60              // for the owned one
	quietWindow = 20 * time.Minute
)

// drawRare plans for the calm gateway what no seed should be without: calls that hang and never leave, so that an absence is found, and
// messages of which no receipt ever comes.
func (p *plan) drawRare(r *rand.Rand) {
	lost := evolutionsim.Fault{Kind: "receipts", Mode: "lost"}
	for i, f := range []evolutionsim.Fault{{Kind: "hang", When: "before"}, lost, {Kind: "hang", When: "before"}, lost, {Kind: "hang", When: "before"}} {
		m := planned{
			At: p.Length*time.Duration(i+1)/8 + within(r, 0, time.Minute), Instance: ownedCalm, Tenant: tenantOf(ownedCalm), Class: events.ClassUtility,
			Number: numberOf(r.IntN(numberPool)), Text: fmt.Sprintf("sim-%05d", len(p.Messages)), Window: 30 * time.Minute,
		}
		p.Messages = append(p.Messages, m)
		f.TextContains, f.Times = m.Text, 1
		p.fault(m.At-time.Second, ownedCalm, f)
	}
}

func (p *plan) drawQuiet(r *rand.Rand) {
	at := p.Length + quietAfter
	classes := events.Classes()
	for i := range quietShared + quietOwned {
		m := planned{
			At: at + within(r, 0, 100*time.Second), Instance: sharedCalm, Tenant: tenants[r.IntN(len(tenants))], Class: classes[r.IntN(len(classes))],
			Number: numberOf(r.IntN(numberPool)), Text: fmt.Sprintf("sim-%05d", len(p.Messages)), Window: quietWindow,
			Quiet: true,
		}
		switch {
		case i >= quietShared:
			m.Instance, m.Tenant, m.Number = ownedCalm, tenantOf(ownedCalm), numberOf(r.IntN(6))
			m.At = at + within(r, 0, 20*time.Second)
		case i%3 > 0: // one class and all tenants at once
			m.Class = events.ClassUtility
		default:
		}
		p.Messages = append(p.Messages, m)
	}
	p.do(p.Length, func(w *world) {
		w.operate(sharedCalm, events.TypeInstanceResumed, "resumed")
		w.operate(ownedCalm, events.TypeInstanceResumed, "resumed")
	})
	p.do(at-takeover, func(w *world) {
		for _, seat := range seats {
			w.fleet.end(seat, false)
		}
		for _, seat := range seats[:3] {
			w.fleet.startRight(seat)
		}
		w.calmDown(at)
	})
	p.do(at+130*time.Second, func(w *world) { w.fleet.end(seats[0], true) })
	p.do(at+190*time.Second, func(w *world) { w.fleet.startRight(seats[0]) })
	p.do(at+250*time.Second, func(w *world) { w.fleet.end(seats[1], false) })
}

// calmDown says that from a moment of the plan on nothing breaks but dispatchers. Actions wait for each other, so that moment may come later
// than planned: all that follows is later by as much then.
func (w *world) calmDown(at time.Duration) {
	settled := w.fleet.troubledUntil(time.Now().Add(takeover))
	w.rec.note(func(r *recording) {
		r.Quiet = newer(r.Quiet, settled)
		w.late = r.Quiet.Sub(r.Began) - at
	})
	close(w.calmed)
}
