package api

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/forecast"
	"pilotstatus.dev/events/queue"
)

// expect estimates when the message leaves, and refuses it when the caller wants no message that leaves too late. What is not known
// refuses nothing: a paused or parked instance may be used again in time.
func (a *acceptor) expect(ctx context.Context, d *draft) error {
	if a.loads == nil || !d.order.deliverAt.IsZero() { // what else will wait by then is not known
		return nil
	}
	p := events.PartitionOf(d.instance.ID, d.partitions)
	load, known := a.loads.Load(ctx, p, d.instance.ID)
	if !known {
		return nil
	}
	inst := forecast.Instance{Pace: d.instance.Pacing(), Concurrency: d.instance.CallsAtOnce(), AgingTurns: queue.DefaultRules().AgingTurns}
	at, ok := forecast.Estimate(load, inst, events.ClassOf(d.category, d.order.Urgent), d.now)
	if !ok {
		return nil
	}
	d.expected = at
	if until := d.order.until(d.category, d.now); d.order.RejectIfLate && !at.Before(until) {
		return events.Errorf(CodeCannotDeliverInTime, "The message is expected to wait until after deliverUntil; nothing was accepted.").
			WithDetails("expectedDispatchAt", stamp(at)).WithDetails("deliverUntil", stamp(until))
	}
	return nil
}
