package dispatcher

import (
	"context"
	"errors"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// lanes are the lane consumers of an actor. A turn has a lane for itself while it is busy with a message of it.
type lanes struct {
	mu   sync.Mutex
	open map[events.Lane]*lane
}

func newLanes() *lanes { return &lanes{open: map[events.Lane]*lane{}} }

// lane is one lane consumer of this actor. It only hints (rule R3): what the fold does not choose is acknowledged and skipped,
// or waits in the fold.
type lane struct {
	consumer *eventlog.Lane
	busy     bool // guarded by lanes.mu; who set it has the rest for itself
	ahead    *eventlog.Delivery
	past     uint64    // the lane does not bring what lies at or before it
	used     time.Time // as busy
}

// maxSkips bounds how many heads of a lane one turn lets go.
const maxSkips = 1000

func noLane() {}

// head gives the accepted message when it is a first attempt and at the head of its lane. nil means: read it by direct get.
// done lets the lane bring its next message, and other turns have it.
func (a *actor) head(ctx context.Context, j job) (*events.Recorded, func()) {
	if !j.fresh {
		return nil, noLane
	}
	l := a.takeLane(ctx, j)
	if l == nil {
		return nil, noLane
	}
	d, gone := a.advance(ctx, l, j)
	if d == nil {
		a.leaveLane(j.lane)
		if gone {
			a.dropLanes(func(name events.Lane, _ *lane) bool { return name == j.lane })
		}
		return nil, noLane
	}
	return &d.Recorded, func() {
		a.ack(d)
		a.leaveLane(j.lane)
	}
}

// advance lets the heads before the message go, and gives it; nil when the lane does not bring it now, or is gone.
func (a *actor) advance(ctx context.Context, l *lane, j job) (d *eventlog.Delivery, gone bool) {
	if j.queuedSeq <= l.past { // it waited in the fold while the lane went on
		return nil, false
	}
	bounded, cancel := context.WithTimeout(ctx, a.p.d.set.LaneWait)
	defer cancel()
	for range maxSkips {
		d, l.ahead = l.ahead, nil
		if d == nil {
			var err error
			if d, err = l.consumer.Next(bounded); err != nil {
				return nil, errors.Is(err, eventlog.ErrLaneGone)
			}
		}
		switch seq := d.Position.Sequence; {
		case seq < j.queuedSeq: // over, or waiting in the fold for its time
			l.past = max(l.past, seq)
			a.ack(d)
		case seq > j.queuedSeq: // brought before its turn
			l.ahead = d
			return nil, false
		default:
			l.past = seq
			return d, false
		}
	}
	return nil, false
}

// ack is not waited for: a head that comes again is over in the fold, and skipped.
func (a *actor) ack(d *eventlog.Delivery) {
	if err := d.Done(); err != nil {
		a.log.Debug().Err(err).Msg("acknowledge head of lane")
	}
}

// takeLane gives the lane of a message, opened at the message if need be, within the cap of the stream; nil beyond it.
func (a *actor) takeLane(ctx context.Context, j job) *lane {
	a.lanes.mu.Lock()
	l := a.lanes.open[j.lane]
	mine := l != nil && !l.busy
	if mine {
		l.busy = true
	}
	a.lanes.mu.Unlock()
	switch {
	case mine:
		return l
	case l != nil || !a.p.takeLane():
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
	l = &lane{consumer: c, busy: true, past: j.queuedSeq - 1} // no other turn opens it: the slot is taken
	a.lanes.mu.Lock()
	a.lanes.open[j.lane] = l
	a.lanes.mu.Unlock()
	return l
}

// leaveLane ends what takeLane began.
func (a *actor) leaveLane(name events.Lane) {
	a.lanes.mu.Lock()
	defer a.lanes.mu.Unlock()
	if l := a.lanes.open[name]; l != nil {
		l.busy, l.used = false, time.Now()
	}
}

// dropLanes lets go of the lanes that no turn has and that match.
func (a *actor) dropLanes(match func(events.Lane, *lane) bool) {
	var gone []*lane
	a.lanes.mu.Lock()
	for name, l := range a.lanes.open {
		if !l.busy && match(name, l) {
			delete(a.lanes.open, name)
			gone = append(gone, l)
		}
	}
	a.lanes.mu.Unlock()
	for _, l := range gone {
		a.p.giveLane()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		l.consumer.Close(ctx)
		cancel()
	}
}

func (a *actor) dropIdleLanes() {
	now := time.Now()
	a.dropLanes(func(_ events.Lane, l *lane) bool { return now.Sub(l.used) > a.p.d.set.LaneIdle })
}
