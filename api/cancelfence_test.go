package api

import (
	"context"
	"sync"

	"pilotstatus.dev/events"
)

// fakeFence is the fenced group of each instance, in memory, as the log keeps it.
type fakeFence struct {
	mu       sync.Mutex
	groups   map[string][]events.Recorded // by instance
	restored *events.Recorded
	reads    []uint64 // where each reading began
	appended []events.Event
	meantime func(instance string) // before each append
	answer   error                 // of an append that was stored all the same
	readErr  error
}

func (f *fakeFence) put(instance string, seq uint64, name, id string, attempt int, body any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store(instance, seq, events.Event{
		Envelope: events.Envelope{Type: "dispatch." + name + ".v1", Subject: id, Attempt: attempt, Nonce: "n", Prev: f.last(instance)},
		Address:  events.EventSubject(2, instance, events.GroupDispatch, name), Body: body,
	})
}

func (f *fakeFence) store(instance string, seq uint64, e events.Event) {
	f.groups[instance] = append(f.groups[instance], events.Recorded{Event: e, Position: events.Position{Partition: 2, Sequence: seq}, Known: true})
}

func (f *fakeFence) last(instance string) uint64 {
	if g := f.groups[instance]; len(g) > 0 {
		return g[len(g)-1].Position.Sequence
	}
	return 0
}

func (f *fakeFence) Read(_ context.Context, _ events.Partition, instance string, after uint64) ([]events.Recorded, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, after)
	var out []events.Recorded
	for _, r := range f.groups[instance] {
		if r.Position.Sequence > after {
			out = append(out, r)
		}
	}
	return out, f.last(instance), f.readErr
}

func (f *fakeFence) Restored(context.Context, events.Partition, string) (*events.Recorded, error) {
	return f.restored, nil
}

func (f *fakeFence) Append(_ context.Context, _ events.Partition, instance string, e events.Event, expected uint64) (uint64, error) {
	if f.meantime != nil {
		f.meantime(instance)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last(instance) != expected {
		return 0, events.Errorf(events.CodeFenced, "the fenced group has moved")
	}
	f.appended = append(f.appended, e)
	e.Prev = expected
	f.store(instance, expected+100, e)
	return expected + 100, f.answer
}
