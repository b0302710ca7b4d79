package notifier

import (
	"container/list"
	"context"
	"sync"
	"time"

	"pilotstatus.dev/events"
)

const (
	cachedFor = time.Minute
	cachedMax = 2048
)

// queuedCache keeps accepted messages, sealed as they are, for the few events that follow each other quickly.
type queuedCache struct {
	log interface {
		Get(ctx context.Context, stream string, seq uint64) (events.Recorded, error)
	}

	mu      sync.Mutex
	entries map[events.Position]*list.Element // of cachedQueued
	order   *list.List                        // oldest first
}

type cachedQueued struct {
	rec   events.Recorded
	since time.Time
}

func newQueuedCache(log Reader) *queuedCache {
	return &queuedCache{log: log, entries: map[events.Position]*list.Element{}, order: list.New()}
}

// get reads the accepted message at a position.
func (q *queuedCache) get(ctx context.Context, at events.Position) (events.Recorded, error) {
	q.mu.Lock()
	for e := q.order.Front(); e != nil; e = q.order.Front() {
		if c := e.Value.(cachedQueued); q.order.Len() <= cachedMax && time.Since(c.since) < cachedFor {
			break
		}
		delete(q.entries, q.order.Remove(e).(cachedQueued).rec.Position)
	}
	e := q.entries[at]
	q.mu.Unlock()
	if e != nil {
		return e.Value.(cachedQueued).rec, nil
	}
	rec, err := q.log.Get(ctx, events.EventsStream(at.Partition), at.Sequence)
	if err != nil {
		return events.Recorded{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entries[rec.Position] == nil {
		q.entries[rec.Position] = q.order.PushBack(cachedQueued{rec, time.Now()})
	}
	return rec, nil
}
