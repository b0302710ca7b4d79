package queue

import (
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// Entry is a message the queue still has to do with.
type Entry struct {
	ID           string
	QueuedSeq    uint64
	Lane         events.Lane
	AcceptedAt   time.Time
	DeliverAt    time.Time
	DeliverUntil time.Time

	past   *past // nil until something became of it: a backlog holds a million of those that only wait
	queued bool
	ver    uint32 // of its place in the indexes; older places are stale
}

// past is what became of a message since its acceptance.
type past struct {
	record    message.Record
	sum       message.Summary
	postponed time.Time
	looked    uint64 // the doubt it was looked up for, see LookedUp
}

// nothing is what became of a message that only waits. Nobody writes to it.
var nothing past

// soFar gives what became of e, to read.
func (e *Entry) soFar() *past {
	if e.past == nil {
		return &nothing
	}
	return e.past
}

// became gives what became of e, to write.
func (e *Entry) became() *past {
	if e.past == nil {
		e.past = &past{}
	}
	return e.past
}

func (e *Entry) sum() *message.Summary { return &e.soFar().sum }

// take replaces the facts of e.
func (e *Entry) take(r message.Record) {
	p := e.became()
	p.record, p.sum = r, r.Summarize()
}

// Record gives the facts of the entry, by sequence.
func (e *Entry) Record() message.Record { return e.soFar().record }

// StartedAfter reports whether an attempt began behind a place in the log.
func (e *Entry) StartedAfter(seq uint64) bool {
	return slices.ContainsFunc(e.Record(), func(f message.Fact) bool { return f.Kind == message.KindStarted && f.Seq > seq })
}

// Summary gives what the fenced facts of the entry come to.
func (e *Entry) Summary() message.Summary { return *e.sum() }

// NextAttempt is the number the next start would have.
func (e *Entry) NextAttempt() int { return len(e.sum().Attempts) + 1 }

// ReadyAt is the latest of accepted, deliverAt and retry due: with the sequence it is the order inside a lane.
func (e *Entry) ReadyAt() time.Time {
	t := e.AcceptedAt
	for _, x := range []time.Time{e.DeliverAt, e.sum().DueAt, e.soFar().postponed} {
		if x.After(t) {
			t = x
		}
	}
	return t
}

// Category of the entry.
func (e *Entry) Category() events.Category { return e.Lane.Class.Category() }

// Ghost reports whether the message ended while an attempt of it was unknown. It is over, but what the gateway shows of it must
// not be taken for another message with the same text.
func (e *Entry) Ghost() bool {
	s := e.sum()
	return e.queued && s.End != nil && s.Outstanding() > 0 && !s.Proved
}

// Unbound reports whether the message left and its gateway id is not known: a look-up finds it, under the chosen id or another.
func (e *Entry) Unbound() bool {
	s := e.sum()
	return (s.Accepted || s.Proved) && s.GatewayID == "" && s.End == nil
}
