// Package silence decides what it means that no receipt comes for a message that left.
package silence

import (
	"time"

	"pilotstatus.dev/events"
)

// Rules are the times of silence; all are settable.
type Rules struct {
	Ack      time.Duration // from when a message left until its first receipt is overdue
	Delivery time.Duration // from when it left until its delivery counts as not confirmed; longer than Ack
	AskFor   time.Duration // how long a gateway that does not answer is asked, since its first failure, before it is decided without it
}

// DefaultRules are the times of docs/events.md.
func DefaultRules() Rules {
	return Rules{Ack: 15 * time.Minute, Delivery: 7 * 24 * time.Hour, AskFor: time.Hour}
}

// Message is what is known of one.
type Message struct {
	Stage     events.Stage
	LeftAt    time.Time // first accepted or proved
	Raised    bool      // it was already said that its acknowledgement is overdue
	Corrected bool      // it was told as FAILED or CANCELED, and corrected: it is never FAILED again, whatever is said
	Asking    Asking
	FailingAt time.Time // of Unanswered: the first of the questions that failed in a row
}

// Asking is how far the gateway was asked about a message since its silence became too long.
type Asking uint8

// States of asking.
const (
	NotAsked   Asking = iota // it is to be asked, now or later
	Unanswered               // it was asked a moment ago, and did not answer
	Silent                   // it answered, and showed nothing that breaks the silence
	Spoke                    // it showed a receipt, which is on its way into the log
	Mute                     // there is nobody to ask: no gateway id, no such instance
	Said                     // what the silence leads to was said
)

// Step is what to do next.
type Step uint8

// Steps.
const (
	Wait        Step = iota // nothing now
	Ask                     // ask the gateway for receipts that did not reach us
	Overdue                 // say that the acknowledgement is overdue; the stage stays
	Unconfirmed             // say that no delivery was confirmed: FAILED
)

// Next decides. Nothing it says makes a message leave again. Without an answer of a gateway that can be asked it decides only when
// questions have failed for AskFor: that nobody had the time to ask says nothing of the message.
func (r Rules) Next(m Message, now time.Time) Step {
	age := now.Sub(m.LeftAt)
	var step Step
	var since time.Duration
	switch {
	case m.Stage != events.StageDispatched && m.Stage != events.StageSent, m.LeftAt.IsZero(), m.Corrected:
		return Wait
	case age >= r.Delivery:
		step, since = Unconfirmed, r.Delivery
	case age >= r.Ack && m.Stage == events.StageDispatched && !m.Raised:
		step, since = Overdue, r.Ack
	default:
		return Wait
	}
	switch m.Asking {
	case NotAsked:
		return Ask
	case Unanswered:
		if m.FailingAt.IsZero() || now.Sub(m.FailingAt) < r.AskFor || age < since+r.AskFor {
			return Wait
		}
		return step
	case Silent, Mute:
		return step
	default: // whatever it showed, or what was said, decides
		return Wait
	}
}

// Breaks reports whether a receipt of a state ends the silence that leads to a step.
func (s Step) Breaks(state events.Status) bool {
	switch state {
	case events.StatusDelivered, events.StatusRead, events.StatusFailed:
		return s == Overdue || s == Unconfirmed
	case events.StatusSent:
		return s == Overdue
	default:
		return false
	}
}

// Due gives the step that a message's silence leads to when nobody can be asked.
func (r Rules) Due(m Message, now time.Time) Step {
	m.Asking = Mute
	return r.Next(m, now)
}

// After gives the stage with a receipt taken in; a stage from DELIVERED up, or an end, stays.
func After(stage events.Stage, receipt events.Status) events.Stage {
	if stage != events.StageDispatched && stage != events.StageSent {
		return stage
	}
	switch receipt {
	case events.StatusSent:
		return events.StageSent
	case events.StatusDelivered:
		return events.StageDelivered
	case events.StatusRead:
		return events.StageRead
	case events.StatusFailed:
		return events.StageFailed
	default:
		return stage
	}
}
