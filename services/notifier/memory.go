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
	from    time.Time                // facts of messages accepted after it are all seen
	first   uint64                   // messages accepted before it may have been forgotten
	last    uint64                   // last sequence taken in
	moved   chan struct{}            // closed and replaced when last grows
}

func newMemory(limit int, kept time.Duration) *memory {
	return &memory{max: limit, kept: kept, from: time.Now().Add(-kept), entries: map[string]*list.Element{}, order: list.New(), moved: make(chan struct{})}
}

// take folds events in, in the order of the log.
func (m *memory) take(recs []events.Recorded) {
	if len(recs) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range recs {
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil {
			continue
		}
		for _, about := range message.Subjects(rec) {
			e := m.entry(about, addr.Instance, rec)
			e.state = e.state.Apply(rec)
		}
		m.last = max(m.last, rec.Position.Sequence)
		for f := m.order.Front(); f != nil && rec.Stored.Sub(f.Value.(*entry).since) > m.kept; f = m.order.Front() {
			m.forget(f)
		}
	}
	close(m.moved)
	m.moved = make(chan struct{})
}

func (m *memory) entry(about events.ClosedMessage, instance string, rec events.Recorded) *entry {
	if e := m.entries[about.ID]; e != nil {
		return e.Value.(*entry)
	}
	e := &entry{
		state: message.State{ID: about.ID}, queuedSeq: about.QueuedSeq, instance: instance, since: rec.Stored,
		whole: m.beginsWith(about, rec),
	}
	m.entries[about.ID] = m.order.PushBack(e)
	for m.order.Len() > m.max {
		m.forget(m.order.Front())
	}
	return e
}

// clockMargin is how far the clock that dated a message id may be off the one that dates the log.
const clockMargin = 10 * time.Minute

// beginsWith reports whether no fact of a message can lie before rec, the first that memory has of it: a first start has none
// before it, and of a message accepted since memory began none was missed.
func (m *memory) beginsWith(about events.ClosedMessage, rec events.Recorded) bool {
	if rec.Type == events.TypeDispatchStarted && rec.Attempt == 1 {
		return true
	}
	_, created, ok := events.ParseMessageID(about.ID)
	return ok && about.QueuedSeq >= max(m.first, 1) && time.UnixMilli(created).After(m.from.Add(clockMargin))
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

// reached says that everything up to seq was read, whether or not any of it was a fact.
func (m *memory) reached(seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = max(m.last, seq)
	close(m.moved)
	m.moved = make(chan struct{})
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
