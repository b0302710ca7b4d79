// Package presence folds what the log says of an instance as a whole: whether it is connected, and what operators and answers hold it by.
// The fold is pure; its order is that of the log.
package presence

import (
	"time"

	"pilotstatus.dev/events"
)

// Connection is what is known of the connection of an instance.
type Connection string

// Connections. What a gateway never told of is unknown.
const (
	Unknown Connection = ""
	Open    Connection = "OPEN"
	Closed  Connection = "CLOSE"
)

// State is what is known of an instance. The zero State knows nothing.
type State struct {
	Sequence   uint64     // of the last event taken in
	Connection Connection // debounced, as recorded
	Since      time.Time  // when Connection became what it is
	Paused     bool       // an operator paused it
	Draining   bool       // it goes out, then it is paused
	Parked     bool       // an answer said that it cannot be used; a connection ends that
}

// Apply gives the state with an event of the instance taken in; others and older ones change nothing.
func (s State) Apply(rec events.Recorded) State {
	if rec.Position.Sequence <= s.Sequence {
		return s
	}
	at := rec.Time
	if at.IsZero() {
		at = rec.Stored
	}
	switch rec.Type {
	case events.TypeInstanceOpened:
		s.connect(Open, at)
		s.Parked = false
	case events.TypeInstanceClosed:
		s.connect(Closed, at)
	case events.TypeInstanceParked:
		s.Parked = true
	case events.TypeInstancePaused:
		s.Paused, s.Draining = true, false
	case events.TypeInstanceDraining:
		s.Draining = true
	case events.TypeInstanceResumed:
		s.Paused, s.Draining = false, false
	default:
		return s
	}
	s.Sequence = rec.Position.Sequence
	return s
}

func (s *State) connect(c Connection, at time.Time) {
	if s.Connection != c {
		s.Connection, s.Since = c, at
	}
}

// ClosedFor tells whether the instance has been known to be closed for a time or longer.
func (s State) ClosedFor(d time.Duration, now time.Time) bool {
	return s.Connection == Closed && now.Sub(s.Since) >= d
}
