package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/eventlog"
)

// chain is the log as this process has read it: every event, and the fold of every message.
type chain struct {
	mu     sync.Mutex
	events [][]events.Recorded // by partition, in order
	states map[string]message.State
	ended  map[string]time.Time // when each was final or had left for the first time
	parked map[string]bool      // instances that are parked
	more   chan struct{}        // closed and made anew when there is more
	err    error
}

func newChain() *chain {
	return &chain{events: make([][]events.Recorded, partitions), states: map[string]message.State{}, ended: map[string]time.Time{}, parked: map[string]bool{}, more: make(chan struct{})}
}

// follow reads a partition until ctx ends.
func (c *chain) follow(ctx context.Context, log *eventlog.Log, p events.Partition) error {
	return log.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(p), Gapless: true}, func(_ context.Context, b eventlog.Batch) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rec := range b.Events {
			c.events[p] = append(c.events[p], rec)
			if instance, parked, ok := parkOf(rec); ok {
				c.parked[instance] = parked
			}
			for _, id := range concerned(rec) {
				s := c.states[id]
				s.ID = id
				s = s.Apply(rec)
				c.states[id] = s
				if _, before := c.ended[id]; !before && hasEnded(s) {
					c.ended[id] = rec.Stored
				}
			}
		}
		close(c.more)
		c.more = make(chan struct{})
		return nil
	})
}

// parkOf gives the instance that an event parks, or of which it ends a park.
func parkOf(rec events.Recorded) (instance string, parked, ok bool) {
	switch rec.Type {
	case events.TypeInstanceParked, events.TypeInstanceOpened, events.TypeInstanceUnparked, events.TypeInstanceResumed:
		addr, err := events.ParseEventSubject(rec.Address)
		return addr.Instance, rec.Type == events.TypeInstanceParked, err == nil
	default:
		return "", false, false
	}
}

// parks lists the instances that are parked.
func (c *chain) parks() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, parked := range c.parked {
		if parked {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// concerned lists the messages an event is about.
func concerned(rec events.Recorded) []string {
	if rec.Type == events.TypeMessageQueued {
		return []string{rec.Subject}
	}
	var ids []string
	for _, m := range message.Subjects(rec) {
		ids = append(ids, m.ID)
	}
	return ids
}

// fail keeps why the log cannot be followed; the end of the run is no reason.
func (c *chain) fail(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errors.Join(c.err, err)
}

// wait polls until ok, or gives an error after a time.
func (c *chain) wait(ctx context.Context, within time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// at reports that every one of the messages is in the log and where it should be.
func (c *chain) at(ids []string, there func(message.State) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool {
		s, ok := c.states[id]
		return !ok || s.Queued == nil || !there(s)
	})
}

// queued lists the messages that the log has accepted, answered or not.
func (c *chain) queued() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id, s := range c.states {
		if s.Queued != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// ends gives when each message was final or had left for the first time.
func (c *chain) ends() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.ended)
}

func isRead(s message.State) bool { return s.View().Stage == events.StageRead }

// atRest reports a message that nothing but its deadline, or a proof, will move.
func atRest(s message.State) bool {
	switch s.View().Stage {
	case events.StageRead, events.StageFailed, events.StageCanceled, events.StageUnconfirmed:
		return true
	default:
		return false
	}
}

// hasEnded reports a message that is final or has left.
func hasEnded(s message.State) bool { return !waits(s.View().Stage) }

// waits reports a stage of a message that is neither final nor known to have left.
func waits(s events.Stage) bool {
	switch s {
	case events.StageQueued, events.StageSending, events.StageUnconfirmed:
		return true
	default:
		return false
	}
}

// isOver reports a message of which no more is expected.
func isOver(s message.State) bool { return atRest(s) && s.View().Stage != events.StageUnconfirmed }

// snapshot gives what was read so far. The slices are only ever appended to.
func (c *chain) snapshot() (byPartition [][]events.Recorded, states map[string]message.State, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	states = make(map[string]message.State, len(c.states))
	for id, s := range c.states {
		if s.Queued != nil {
			states[id] = s
		}
	}
	if c.err != nil {
		return nil, nil, fmt.Errorf("follow the log: %w", c.err)
	}
	return slices.Clone(c.events), states, nil
}
