package dispatcher

import (
	"context"
	"errors"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// lane is one lane consumer of this actor. It only hints (rule R3): what the fold does not choose is acknowledged and skipped,
// or waits in the fold.
type lane struct {
	consumer *eventlog.Lane
	ahead    *eventlog.Delivery // brought before its turn
	past     uint64             // the lane does not bring what lies at or before it
	used     time.Time
}

// maxSkips bounds how many heads of a lane one turn lets go.
const maxSkips = 1000

func noLane() {}

// head gives the accepted message when it is a first attempt and at the head of its lane. nil means: read it by direct get.
// done lets the lane bring its next message.
func (a *actor) head(ctx context.Context, j job) (*events.Recorded, func()) {
	if !j.fresh {
		return nil, noLane
	}
	l := a.lane(ctx, j)
	if l == nil || j.queuedSeq <= l.past { // it waited in the fold while the lane went on
		return nil, noLane
	}
	l.used = time.Now()
	bounded, cancel := context.WithTimeout(ctx, a.p.d.set.LaneWait)
	defer cancel()
	for range maxSkips {
		d := l.ahead
		l.ahead = nil
		if d == nil {
			var err error
			if d, err = l.consumer.Next(bounded); err != nil {
				if errors.Is(err, eventlog.ErrLaneGone) {
					a.dropLane(j.lane)
				}
				return nil, noLane
			}
		}
		switch seq := d.Position.Sequence; {
		case seq < j.queuedSeq: // over, or waiting in the fold for its time
			l.past = max(l.past, seq)
			a.ack(d)
		case seq > j.queuedSeq:
			l.ahead = d
			return nil, noLane
		default:
			l.past = seq
			return &d.Recorded, func() { a.ack(d) }
		}
	}
	return nil, noLane
}

// ack is not waited for: a head that comes again is over in the fold, and skipped.
func (a *actor) ack(d *eventlog.Delivery) {
	if err := d.Done(); err != nil {
		a.log.Debug().Err(err).Msg("acknowledge head of lane")
	}
}

// lane opens the lane of a message at the message, within the cap of the stream; nil beyond it.
func (a *actor) lane(ctx context.Context, j job) *lane {
	if l := a.lanes[j.lane]; l != nil {
		return l
	}
	if !a.p.takeLane() {
		return nil
	}
	c, err := a.p.log.Lane(ctx, eventlog.LaneConfig{
		Partition: a.p.n, Lane: j.lane, From: j.queuedSeq, Dispatcher: a.p.d.set.ID,
	})
	if err != nil {
		a.p.giveLane()
		a.log.Debug().Err(err).Msg("open lane")
		return nil
	}
	l := &lane{consumer: c, used: time.Now(), past: j.queuedSeq - 1}
	a.lanes[j.lane] = l
	return l
}

func (a *actor) dropLane(name events.Lane) {
	l := a.lanes[name]
	if l == nil {
		return
	}
	delete(a.lanes, name)
	a.p.giveLane()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l.consumer.Close(ctx)
}

func (a *actor) dropIdleLanes() {
	now := time.Now()
	for name, l := range a.lanes {
		if now.Sub(l.used) > a.p.d.set.LaneIdle {
			a.dropLane(name)
		}
	}
}
