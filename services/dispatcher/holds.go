package dispatcher

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// holds is what the control plane holds back: it is read at each change of the catalog, and is best effort between that and a start.
type holds struct {
	stopped   bool
	suspended map[string]bool
}

// readHolds gives what the catalog holds back now.
func readHolds(c Catalog) *holds {
	h := &holds{suspended: map[string]bool{}}
	c.Read(func(cat *catalog.Catalog) {
		h.stopped = cat.Platform().Stopped
		for _, t := range cat.SuspendedTenants() {
			h.suspended[t.ID] = true
		}
	})
	return h
}

// hold brings what the control plane says of the instance, and what it holds back, to the fold. The caller holds a.mu.
func (a *actor) hold(inst events.Instance) {
	now, pace, calls := a.p.d.holds.Load(), inst.Pacing(), inst.CallsAtOnce()
	r := a.q.Rules()
	if (a.holds == now || now == nil) && r.Pace == pace && r.Concurrency == calls {
		return
	}
	if now != nil {
		a.holds = now
		r.Stopped, r.Suspended = now.stopped, now.suspended
	}
	r.Pace, r.Concurrency = pace, calls
	a.q.SetRules(r)
}

// weight is the share of a tenant beside the others of an instance, as its plan says now: how many turns it has in a round.
func (d *Dispatcher) weight(tenant string) (turns int) {
	d.catalog.Read(func(c *catalog.Catalog) {
		plan, _ := c.PlanOf(tenant) // a plan that is not there gives no more than the others have
		turns = plan.Weight
	})
	return turns
}

// optedOut ends a message whose recipient has opted out since it was accepted. It is looked at where no attempt can have had an
// effect: a message in doubt goes its way.
func (a *actor) optedOut(ctx context.Context, j job, recipientHash string) bool {
	out := false
	a.p.d.catalog.Read(func(c *catalog.Catalog) { out = c.OptedOut(j.lane.Tenant, recipientHash) })
	if out {
		a.closeOne(ctx, j, events.FailOptedOut, always)
	}
	return out
}
