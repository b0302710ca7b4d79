// Package presence folds what the log says of an instance as a whole: whether it is connected, and what operators and answers hold it by.
// The fold is pure; its order is that of the log.
package presence

import (
	"time"

	"pilotstatus.dev/events"
)

// Connection is what is known of the connection of an instance.
type Connection string

// Connections. What a gateway never told of is unknown, and so is what was closed until an operator resumed it.
const (
	Unknown Connection = ""
	Open    Connection = "OPEN"
	Closed  Connection = "CLOSE"
)

// Word says who holds an instance by what, since when and why. The zero Word is none.
type Word struct {
	Since  time.Time
	By     string // role or operator; empty where only headers were read, as Reason and Scope
	Reason string
	Scope  string // of a park: "instance" or "gateway"
}

// State is what is known of an instance. The zero State knows nothing.
type State struct {
	Sequence   uint64     // of the last event taken in
	Connection Connection // debounced, as recorded
	Since      time.Time  // when Connection became what it is
	Paused     bool       // an operator paused it: nothing starts
	Draining   bool       // an operator drains it: what was accepted before goes out, what comes after waits
	Parked     bool       // an answer said that it cannot be used; a connection or an operator ends that
	Pause      Word       // of Paused
	Drain      Word       // of Draining
	Park       Word       // of Parked: since the first of several, with what the newest says
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
		s.unpark()
	case events.TypeInstanceClosed:
		s.connect(Closed, at)
	case events.TypeInstanceParked:
		since := at
		if s.Parked {
			since = s.Park.Since
		}
		s.Parked, s.Park = true, word(rec, since)
	case events.TypeInstanceUnparked:
		s.unpark()
	case events.TypeInstancePaused:
		s.free()
		s.Paused, s.Pause = true, word(rec, at)
	case events.TypeInstanceDraining:
		s.free()
		s.Draining, s.Drain = true, word(rec, at)
	case events.TypeInstanceResumed:
		s.free()
		s.unpark()
		if s.Connection == Closed { // as in the fold of the dispatcher: the next answer, or word of the gateway, says what it is
			s.connect(Unknown, at)
		}
	default:
		return s
	}
	s.Sequence = rec.Position.Sequence
	return s
}

func word(rec events.Recorded, since time.Time) Word {
	b, _ := rec.Body.(*events.InstanceChanged)
	if b == nil {
		return Word{Since: since}
	}
	return Word{Since: since, By: b.By, Reason: b.Reason, Scope: b.Scope}
}

// free ends a pause and a drain: of both the newest word holds, as in the fold of the dispatcher.
func (s *State) free() { s.Paused, s.Pause, s.Draining, s.Drain = false, Word{}, false, Word{} }

func (s *State) unpark() { s.Parked, s.Park = false, Word{} }

func (s *State) connect(c Connection, at time.Time) {
	if s.Connection != c {
		s.Connection, s.Since = c, at
	}
}

// ClosedFor tells whether the instance has been known to be closed for a time or longer.
func (s State) ClosedFor(d time.Duration, now time.Time) bool {
	return s.Connection == Closed && now.Sub(s.Since) >= d
}
