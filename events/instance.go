package events

// Wire names of what happens to an instance as a whole. They are outside the fenced group: the tail is read up to the own
// start before a call, so one that precedes it holds.
const (
	TypeInstanceOpened   = "instance.opened.v1"
	TypeInstanceClosed   = "instance.closed.v1"
	TypeInstancePaused   = "instance.paused.v1"
	TypeInstanceResumed  = "instance.resumed.v1"
	TypeInstanceDraining = "instance.draining.v1"
	TypeInstanceParked   = "instance.parked.v1"
	TypeInstanceUnparked = "instance.unparked.v1"
)

// InstanceChanged is the body of every event of an instance.
//   - opened: the gateway says it is connected; ends a park.
//   - closed: it says it is not, for good (a new pairing is needed).
//   - paused, resumed: an operator's word.
//   - draining: an operator's word: what is accepted goes out, a pause follows.
//   - parked: an answer said that the sender or the gateway is unusable; messages wait for their deadline.
//   - unparked: an operator's word: it is usable again. A pause and a drain go on.
type InstanceChanged struct {
	By     string `json:"by"` // role or operator
	Reason string `json:"reason,omitempty"`
	Scope  string `json:"scope,omitempty"` // of parked: ParkInstance or ParkGateway
}

// Scopes of a park.
const (
	ParkInstance = "instance" // the sender cannot be used
	ParkGateway  = "gateway"  // nor can any other behind its gateway
)

func instanceSpecs() []Spec {
	changed := func() any { return new(InstanceChanged) }
	var out []Spec
	for _, n := range []string{"opened", "closed", "paused", "resumed", "draining", "parked", "unparked"} {
		s := Spec{Name: "instance." + n, Version: 1, New: changed}
		if n == "parked" { // whom it concerns is in its body
			s.NeedsBody = func(Envelope) bool { return true }
		}
		out = append(out, s)
	}
	return out
}
