package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/forecast"
	"pilotstatus.dev/infra/eventlog"
)

// Bounds of what is known of loads. A report ends by itself at the log when its dispatcher does not renew it.
const (
	loadsFresh = time.Second            // after which a send asks again
	loadsOld   = 3 * time.Second        // after which what was read is worth nothing
	loadsLimit = 300 * time.Millisecond // of one question
)

// apiLoads tells the API what dispatchers note of their instances. It asks when there is a send, at most once in loadsFresh, and runs
// nothing of its own.
type apiLoads struct {
	notes *eventlog.Leases
	log   zerolog.Logger
	now   func() time.Time

	mu    sync.Mutex
	known map[events.Partition]*loadsOf
}

// loadsOf is what was read of a partition.
type loadsOf struct {
	turn    sync.Mutex // of who asks
	mu      sync.Mutex
	reports []forecast.Report
	read    time.Time // zero: there is none
	asked   time.Time
}

func newAPILoads(notes *eventlog.Leases, log zerolog.Logger) *apiLoads {
	return &apiLoads{notes: notes, log: log, now: time.Now, known: map[events.Partition]*loadsOf{}}
}

// Load gives what waits at an instance, as of a few seconds ago at most.
func (l *apiLoads) Load(ctx context.Context, p events.Partition, instance string) (forecast.Load, bool) {
	l.mu.Lock()
	of := l.known[p]
	if of == nil {
		of = &loadsOf{}
		l.known[p] = of
	}
	l.mu.Unlock()
	if of.stale(l.now()) && of.turn.TryLock() { // the others go on with what is known
		if of.stale(l.now()) {
			l.ask(ctx, p, of)
		}
		of.turn.Unlock()
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.read.IsZero() || l.now().Sub(of.read) > loadsOld {
		return forecast.Load{}, false
	}
	return forecast.Of(of.reports, instance)
}

func (o *loadsOf) stale(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return now.Sub(o.asked) >= loadsFresh
}

func (l *apiLoads) ask(ctx context.Context, p events.Partition, of *loadsOf) {
	ctx, cancel := context.WithTimeout(ctx, loadsLimit)
	defer cancel()
	notes, err := l.notes.NotedUnder(ctx, forecast.Prefix(p))
	var reports []forecast.Report
	for _, raw := range notes {
		r, e := forecast.Decode(raw)
		reports, err = append(reports, r), errors.Join(err, e)
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.asked = l.now()
	switch {
	case err == nil && len(reports) > 0:
		of.reports, of.read = reports, of.asked
	case err == nil: // nobody works there: what was read before is no more true
		of.read = time.Time{}
	default:
		l.log.Debug().Err(err).Stringer("partition", p).Msg("loads cannot be read: no forecast")
	}
}
