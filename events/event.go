package events

import "time"

// Event is one fact to append: an envelope, the subject to append it to, and a body of the type the registry names for it.
type Event struct {
	Envelope
	Address string // NATS subject
	// DedupID replaces the id in the deduplication header, where one fact is appended more than once on purpose
	// (the tries of a delivery). Empty means the id.
	DedupID string
	Body    any // pointer to a registered body type; nil when the type is unknown or only headers were read
}

// Recorded is an event as the log holds it.
type Recorded struct {
	Event
	Position Position
	Stored   time.Time // when the server stored it, UTC: the one clock all readers share
	Known    bool      // the registry knows this type and version
	Partial  bool      // only headers were read; Body is nil
	// Digest is of the bytes as stored, where the reader takes it: a Gapless tail of whole events.
	Digest Digest
}

// Wire is an encoded event.
type Wire struct {
	Subject string
	Header  map[string][]string
	Data    []byte
}

// Stored is what a log gives back for one event.
type Stored struct {
	Wire
	Position    Position
	Time        time.Time
	HeadersOnly bool
}
