package notifier

import (
	"container/list"
	"context"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// entry is the fold of one message.
type entry struct {
	state     message.State
	queuedSeq uint64
	instance  string
	whole     bool // every fact of the message is in it
	since     time.Time
}

// memory is the fold of the newest messages of a partition, bounded in time and number.
type memory struct {
	max  int
	kept time.Duration

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry
	order   *list.List               // oldest first
	first   uint64                   // messages accepted at or after it were seen from their beginning
	last    uint64                   // last sequence taken in
	moved   chan struct{}            // closed and replaced when last grows
}

func newMemory(limit int, kept time.Duration) *memory {
	return &memory{max: limit, kept: kept, entries: map[string]*list.Element{}, order: list.New(), moved: make(chan struct{})}
}

// take folds events in, in the order of the log.
func (m *memory) take(recs []events.Recorded) {
	if len(recs) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range recs {
		if m.first == 0 {
			m.first = rec.Position.Sequence
		}
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil {
			continue
		}
		for _, about := range message.Subjects(rec) {
			e := m.entry(about.ID, addr.Instance, about.QueuedSeq, rec.Stored)
			e.state = e.state.Apply(rec)
		}
		m.last = rec.Position.Sequence
		for f := m.order.Front(); f != nil && rec.Stored.Sub(f.Value.(*entry).since) > m.kept; f = m.order.Front() {
			m.forget(f)
		}
	}
	close(m.moved)
	m.moved = make(chan struct{})
}

func (m *memory) entry(id, instance string, queuedSeq uint64, since time.Time) *entry {
	if e := m.entries[id]; e != nil {
		return e.Value.(*entry)
	}
	e := &entry{
		state: message.State{ID: id}, queuedSeq: queuedSeq, instance: instance, since: since,
		whole: m.first > 0 && queuedSeq >= m.first,
	}
	m.entries[id] = m.order.PushBack(e)
	for m.order.Len() > m.max {
		m.forget(m.order.Front())
	}
	return e
}

// forget drops an entry. Its message, and each accepted before it, is no longer known from its beginning.
func (m *memory) forget(e *list.Element) {
	old := m.order.Remove(e).(*entry)
	delete(m.entries, old.state.ID)
	m.first = max(m.first, old.queuedSeq+1)
}

// get gives a copy of the fold of a message.
func (m *memory) get(id string) (entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[id]; e != nil {
		return *e.Value.(*entry), true
	}
	return entry{}, false
}

// restore puts the facts of a rebuilt message beside those that memory has of it.
func (m *memory) restore(id string, record message.Record, queued *message.Queued) {
	m.mu.Lock()
	defer m.mu.Unlock()
	el := m.entries[id]
	if el == nil {
		return
	}
	e := el.Value.(*entry)
	for _, f := range record {
		e.state.Record = e.state.Record.With(f)
	}
	e.whole = true
	if queued != nil {
		e.state.Queued = queued
	}
}

// reach waits until the fold holds the event at seq.
func (m *memory) reach(ctx context.Context, seq uint64) error {
	for {
		m.mu.Lock()
		last, moved := m.last, m.moved
		m.mu.Unlock()
		if last >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end gives the last sequence taken in.
func (m *memory) end() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}
