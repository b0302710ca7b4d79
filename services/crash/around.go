package crash

import (
	"context"
	"fmt"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/control"
)

// joins reports that the fault hits a dispatcher that takes the place of another: of two that live each has a share for certain.
func (t *trial) joins() bool { return t.point == "dispatcher.joined" }

// armed is the value of the failpoint variable.
func (t *trial) armed() string { return fmt.Sprintf("%s:%s:%d", t.point, t.action, t.pass) }

// prepare brings about what the point needs: calls that hang and never leave, so that an absence is found; receipts that do not come,
// so that the gateway is asked for them.
func (t *trial) prepare(ctx context.Context) error {
	switch t.point {
	case "dispatcher.before_absent":
		// What an earlier trial left unknown would come to the point at once, while the calls below still hang: a process that stands still
		// in a call cannot end it, and its successor would be seen to make another.
		if err := t.d.chain.wait(ctx, window+presumedAfter+15*time.Second, func() bool { return t.d.chain.at(t.d.chain.queued(), isOver) }); err != nil {
			return fmt.Errorf("earlier messages are not over: %w", err)
		}
		// Of one instance the call of a code hangs: it is never made again, absent or not. In the second trial only: the first would be waited for
		// until its deadline.
		code := t.draw.IntN(instances)
		for i := range instances {
			kind := []events.Category{events.Utility, events.Marketing}[i%2]
			if i == code && t.action == "stop" {
				kind = events.OTP
			}
			f := evolutionsim.Fault{Kind: "hang", When: "before", Instance: instanceID(i), TextContains: word(kind), Times: 1}
			if _, err := t.d.fault(ctx, f); err != nil {
				return err
			}
		}
	case "reconciler.before_append":
		return t.d.leave(ctx, "ingest")
	}
	return nil
}

// restore undoes what prepare and visit did.
func (t *trial) restore(ctx context.Context) error {
	if t.point == "reconciler.before_append" {
		return t.d.start(ctx, "ingest", "")
	}
	if t.joins() {
		if err := t.d.start(ctx, of(t.role)[1], ""); err != nil {
			return err
		}
	}
	return t.d.leave(ctx, visitor)
}

// visit lets a third dispatcher join while one of two stands still, or when the one that was killed is back and has its share again: it takes
// its own share, and gives it back at the end.
func (t *trial) visit(ctx context.Context) error {
	if t.role != "dispatcher" || t.joins() {
		return nil
	}
	from := t.back
	if t.action == "stop" {
		from = t.hit
	}
	select {
	case <-from:
	case <-ctx.Done():
		return ctx.Err()
	}
	return t.d.start(ctx, visitor, "")
}

// Bounds of a pause of one instance.
const (
	pauseWithin = 500 * time.Millisecond // from the begin of a trial: most messages wait then
	pauseFor    = time.Second
)

// pause pauses an instance for a while, as an operator does.
func (t *trial) pause(ctx context.Context) error {
	if t.point == "dispatcher.before_absent" { // all calls that hang begin at once
		return nil
	}
	instance := instanceID(t.pauseOf)
	if !await.Elapsed(ctx, t.pauseAt) {
		return ctx.Err()
	}
	if err := t.pull(ctx, instance, presence.LeverPause); err != nil {
		return err
	}
	await.Elapsed(ctx, pauseFor)
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return t.pull(whole, instance, presence.LeverResume)
}

func (t *trial) pull(ctx context.Context, instance string, lever presence.Lever) error {
	return control.Pull(ctx, t.d.platform.Events(), events.PartitionOf(instance, partitions), instance, lever, "operator:crash")
}
