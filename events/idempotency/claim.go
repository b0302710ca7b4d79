// Package idempotency decides what a repeated request is answered: it reads the Idempotency-Key header, names and
// fingerprints requests, and judges the claim that an earlier one left.
package idempotency

import (
	"encoding/json"
	"time"

	"pilotstatus.dev/events"
)

// Claim says that a request with a key, or one whose result was not known, is or was being accepted. It is the value of a
// key in the bucket of claims.
type Claim struct {
	Fingerprint string    `json:"fingerprint"` // of the request, see Fingerprint
	MessageID   string    `json:"messageId"`
	Instance    string    `json:"instance"`
	QueuedAt    time.Time `json:"queuedAt"` // when it was accepted, or would have been
	// Response is the body that the request is answered with, now and at every replay.
	Response json.RawMessage `json:"response"`
	// Event is what is appended; nil once it is known to be in the log.
	Event *Event `json:"event,omitempty"`
}

// Event is an event as it goes on the wire, kept so that the very same one can be appended again. Its personal part is
// sealed, so it may be stored.
type Event struct {
	Subject string              `json:"subject"`
	Header  map[string][]string `json:"header"`
	Data    json.RawMessage     `json:"data"`
}

// New gives the claim of an event that is about to be appended. Errors are those of events.Registry.Encode.
func New(fingerprint, instance string, e events.Event, response json.RawMessage) (Claim, error) {
	wire, err := events.Standard.Encode(e)
	if err != nil {
		return Claim{}, err
	}
	return Claim{
		Fingerprint: fingerprint, MessageID: e.ID, Instance: instance, QueuedAt: e.Time, Response: response,
		Event: &Event{Subject: wire.Subject, Header: wire.Header, Data: wire.Data},
	}, nil
}

// Pending reports that it is not known whether the message is in the log.
func (c Claim) Pending() bool { return c.Event != nil }

// Done gives the claim of a message that is known to be in the log.
func (c Claim) Done() Claim {
	c.Event = nil
	return c
}

// Rebuild gives the event of a pending claim, to be appended again. Errors are those of events.Registry.Decode, and
// events.CodeMalformed for a claim that is not pending or whose event is of a type that this process does not know.
func (c Claim) Rebuild() (events.Event, error) {
	if c.Event == nil {
		return events.Event{}, events.Errorf(events.CodeMalformed, "the claim holds no event")
	}
	rec, err := events.Standard.Decode(events.Stored{
		Wire: events.Wire{Subject: c.Event.Subject, Header: c.Event.Header, Data: c.Event.Data},
	})
	if err != nil {
		return events.Event{}, err
	}
	if !rec.Known || rec.ID != c.MessageID {
		return events.Event{}, events.Errorf(events.CodeMalformed, "the claim holds an event of another kind")
	}
	return rec.Event, nil
}

// Verdict is what follows from a claim for a request that meets it.
type Verdict string

// Verdicts.
const (
	Replay   Verdict = "replay"    // the message is in the log: answer what was answered
	Reused   Verdict = "reused"    // the key was given to another request
	InFlight Verdict = "in_flight" // the first request may still be at work
	Reappend Verdict = "reappend"  // append the same event again: the log takes it once
	ReadBack Verdict = "read_back" // the log no longer knows a repeated id: look whether the event is there
)

// Rules are the ages at which a pending claim is resolved in another way.
type Rules struct {
	Wait     time.Duration // a claim younger than this is in flight
	Reappend time.Duration // one older than this is only looked for; shorter than the log's deduplication window by more than clocks differ
}

// DefaultRules are the ages of docs/reference/api.md: 10 s and 9 minutes.
func DefaultRules() Rules { return Rules{Wait: 10 * time.Second, Reappend: 9 * time.Minute} }

// Judge gives what follows for a request with this fingerprint as of now.
func (c Claim) Judge(fingerprint string, now time.Time, r Rules) Verdict {
	age := now.Sub(c.QueuedAt)
	switch {
	case c.Fingerprint != fingerprint:
		return Reused
	case !c.Pending():
		return Replay
	case age < r.Wait:
		return InFlight
	case age < r.Reappend:
		return Reappend
	default:
		return ReadBack
	}
}
