// Package instances keeps a process's copy of what the log says of instances as a whole, for the API: it decides no call.
package instances

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/eventlog"
)

// Log is what a Feed reads.
type Log interface {
	Tail(ctx context.Context, cfg eventlog.TailConfig, handle func(context.Context, eventlog.Batch) error) error
}

// Feed folds the events of the group `instance` of every partition it is run for. All methods are safe for concurrent use.
type Feed struct {
	mu     sync.RWMutex
	states map[string]presence.State
	wide   map[string]struct{}         // parked for their gateway's sake
	read   map[events.Partition]uint64 // where a run that ended goes on
}

// NewFeed makes a feed that knows nothing.
func NewFeed() *Feed {
	return &Feed{states: map[string]presence.State{}, wide: map[string]struct{}{}, read: map[events.Partition]uint64{}}
}

// Run follows a partition until ctx ends or the log cannot be read any more, and gives the reason.
func (f *Feed) Run(ctx context.Context, p events.Partition, log Log) error {
	f.mu.RLock()
	from := f.read[p] + 1
	f.mu.RUnlock()
	err := log.Tail(ctx, eventlog.TailConfig{
		Stream: events.EventsStream(p), Filters: []string{events.GroupFilter(p, events.GroupInstance)}, From: from,
	}, func(_ context.Context, b eventlog.Batch) error {
		f.take(p, b)
		return nil
	})
	return fmt.Errorf("follow instances: %w", err)
}

func (f *Feed) take(p events.Partition, b eventlog.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rec := range b.Events {
		if addr, err := events.ParseEventSubject(rec.Address); err == nil {
			s := f.states[addr.Instance].Apply(rec)
			f.states[addr.Instance] = s
			if s.Parked && s.Park.Scope == events.ParkGateway {
				f.wide[addr.Instance] = struct{}{}
			} else {
				delete(f.wide, addr.Instance)
			}
		}
	}
	f.read[p] = max(f.read[p], b.Last)
}

// ParkedWide lists the instances that are parked for their gateway's sake, by id.
func (f *Feed) ParkedWide() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Sorted(maps.Keys(f.wide))
}

// State gives what is known of an instance; the zero State while nothing is.
func (f *Feed) State(instance string) presence.State {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.states[instance]
}
