package eventlog

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errStuck says that a reader heard from the server, and was not brought what waits for it.
var errStuck = errors.New("the server brings nothing of what waits")

// mostPatience bounds how often the wait doubles for a reader to which several cuts brought nothing: where the server takes its time
// to find the next event, it must not be made to begin again and again.
const mostPatience = 5

// stuck counts a reader that is cut.
func (l *Log) stuck(stream string) {
	if l.opts.OnStuck != nil {
		l.opts.OnStuck(stream)
	}
}

// patience is how long a reader may bring nothing, after so many cuts without a delivery.
func patience(d time.Duration, cuts int) time.Duration { return d << min(cuts, mostPatience) }

// pace is what a reader in order tells of itself to who attends it.
type pace struct {
	moves atomic.Uint64 // odd while the handler has events
	next  atomic.Uint64 // first sequence not handled; 0 while FromTime decides
}

// attend fails the session of a reader that is brought nothing while an event waits for it: it lives as the client library sees it, since
// the server beats. Of one that moves, or whose handler is at work, nothing is asked; of one at rest once in Options.Stuck, and
// nothing more while the stream does not grow. began is where the session begins, with cuts before it.
func (l *Log) attend(ctx context.Context, stream string, filters []string, p *pace, began uint64, cuts int, fail func(error)) {
	var seen, empty uint64
	waiting := false
	tick := time.NewTicker(patience(l.opts.Stuck, cuts))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		switch moves := p.moves.Load(); {
		case moves != seen || moves%2 == 1:
			seen, waiting = moves, false
		case waiting:
			fail(errStuck)
			return
		default:
			waiting, empty = l.waits(ctx, stream, filters, max(began, p.next.Load(), empty+1), empty)
		}
	}
}

// waits reports that a stream holds an event for a reader from a sequence on, and gives the sequence up to which it holds none. What
// cannot be asked is not known to wait.
func (l *Log) waits(ctx context.Context, stream string, filters []string, from, empty uint64) (bool, uint64) {
	now, err := l.look(ctx, stream, "")
	if err != nil || now.state.LastSeq < from {
		return false, empty
	}
	there, err := l.standsFrom(ctx, stream, filters, from)
	if err == nil && !there {
		empty = now.state.LastSeq
	}
	return there, empty
}
