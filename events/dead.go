package events

// TypeDeadLetter is the wire name of what DEAD holds.
const TypeDeadLetter = "dead.letter.v1"

// DeadFanout is the kind of a dead letter, the second token of a DEAD subject, of an event of the log that cannot be told to customers.
const DeadFanout = "fanout"

// DeadLetter points at an event that no code could process. The event itself stays where it is.
type DeadLetter struct {
	Stream   string `json:"stream"`
	Sequence uint64 `json:"sequence"`
	Reason   string `json:"reason"` // never personal data
}

func deadSpecs() []Spec {
	return []Spec{{Name: "dead.letter", Version: 1, New: func() any { return new(DeadLetter) }}}
}
