package message

import (
	"slices"
	"time"

	"pilotstatus.dev/events"
)

// Kind is what a fact says about a message.
type Kind uint8

// Kinds of facts. Those up to KindClosed are the fenced group.
const (
	KindStarted Kind = iota + 1
	KindAccepted
	KindRefused
	KindDeferred
	KindUnknown
	KindAbsent
	KindProved
	KindDisproved
	KindClosed
	KindSent
	KindDelivered
	KindRead
	KindFailed
	KindNotConfirmed
	KindErased
	KindRetryRequested
	KindAckOverdue
)

// Fact is one event of a message, reduced to what folds need. Seq orders facts; the order in which they arrive means nothing.
type Fact struct {
	Seq       uint64
	At        time.Time
	Kind      Kind
	Attempt   int
	Called    bool      // deferred: a call was made
	Free      bool      // deferred, disproved: the attempt does not use up the budget
	DueAt     time.Time // deferred
	Nonce     string    // started
	GatewayID string
	Code      events.ErrorCode
	Reason    string // closed
	Presumed  bool   // closed
}

// Record is the facts of one message, by sequence, each once. It is the state both folds share.
type Record []Fact

// With gives the record with f in its place; a fact already there changes nothing. The receiver is not modified.
func (r Record) With(f Fact) Record {
	i, found := slices.BinarySearchFunc(r, f.Seq, func(x Fact, seq uint64) int {
		switch {
		case x.Seq < seq:
			return -1
		case x.Seq > seq:
			return 1
		}
		return 0
	})
	if found {
		return r
	}
	out := make(Record, 0, len(r)+1)
	out = append(out, r[:i]...)
	out = append(out, f)
	return append(out, r[i:]...)
}

// AttemptState is where an attempt stands.
type AttemptState uint8

// States of an attempt.
const (
	AttemptNone AttemptState = iota
	AttemptOpen
	AttemptAccepted
	AttemptRefused
	AttemptDeferred
	AttemptUnknown
	AttemptProved
	AttemptDisproved
)

// Attempt is one try to call the gateway, as the log tells it.
type Attempt struct {
	State     AttemptState
	Absent    bool // look-ups found no trace
	Called    bool // a call was made, or may have been
	Free      bool // it does not use up the budget: the sender or gateway was unusable, a limit was reached, or an operator disproved it
	Proved    bool // a proof names it; while its call is under way it is open all the same
	StartedAt time.Time
	UnknownAt time.Time
	StartSeq  uint64
	Nonce     string
	Chosen    string // the gateway id it asked for; "" when the gateway chose
}

// End is how a message ended inside the fenced group.
type End struct {
	Seq      uint64
	At       time.Time
	Reason   string // "refused" or a reason of closed
	Code     events.ErrorCode
	Presumed bool
}

// Summary is what the fenced facts of a message come to (rules R1, R7, R8, R10).
type Summary struct {
	Attempts  []Attempt // index 0 is attempt 1
	Proved    bool
	Accepted  bool
	LeftAt    time.Time // when it was first accepted or proved
	GatewayID string
	End       *End
	DueAt     time.Time // when the attempt after a deferred one is due: drawn then, or brought forward by an operator
	Final     events.ErrorCode
}

// Summarize folds the facts of the fenced group, and an operator's word that a retry is due now; other facts are passed over.
func (r Record) Summarize() Summary {
	var s Summary
	for _, f := range r {
		s.apply(f)
	}
	return s
}

func (s *Summary) attempt(n int) *Attempt {
	if n < 1 || n > maxAttempts {
		return &Attempt{} // a number no writer of ours produces: it has nowhere to land
	}
	for len(s.Attempts) < n {
		s.Attempts = append(s.Attempts, Attempt{})
	}
	return &s.Attempts[n-1]
}

// maxAttempts bounds memory against a malformed number; settings stay far below.
const maxAttempts = 65000

func (s *Summary) apply(f Fact) {
	a := &Attempt{}
	if f.Attempt > 0 && f.Kind <= KindDisproved {
		a = s.attempt(f.Attempt)
	}
	switch f.Kind {
	case KindStarted:
		*a = Attempt{State: AttemptOpen, StartedAt: f.At, StartSeq: f.Seq, Nonce: f.Nonce, Chosen: f.GatewayID, Called: true}
		s.DueAt = time.Time{}
	case KindAccepted:
		a.State = AttemptAccepted
		s.Accepted = true
		s.left(f)
	case KindRefused:
		a.State = AttemptRefused
		if !s.Proved && s.End == nil { // rule R10
			s.End = &End{Seq: f.Seq, At: f.At, Reason: "refused", Code: f.Code, Presumed: s.Outstanding() > 0}
		}
	case KindDeferred:
		a.State = AttemptDeferred
		a.Called, a.Free = f.Called, f.Free
		s.DueAt = f.DueAt
	case KindUnknown:
		a.State, a.UnknownAt = AttemptUnknown, f.At
		if a.Proved {
			a.State = AttemptProved
		}
	case KindAbsent:
		a.Absent = true
	case KindProved:
		a.Proved = true
		if a.State != AttemptOpen { // a proof says nothing about whether the call has returned (promise P5)
			a.State = AttemptProved
		}
		s.Proved = true
		s.left(f)
	case KindDisproved:
		a.State = AttemptDisproved
		a.Free = a.Free || f.Free // who gives his word for it wants a try, also when it was the last of the budget
		if f.Code != "" {
			s.Final = f.Code
		}
	case KindClosed:
		if s.End == nil {
			s.End = &End{Seq: f.Seq, At: f.At, Reason: f.Reason, Code: f.Code, Presumed: f.Presumed}
		}
	case KindRetryRequested: // no part of the group: it moves when, never whether
		if f.At.Before(s.DueAt) {
			s.DueAt = f.At
		}
	default: // outside the fenced group
	}
}

// left takes in that the message left, and its gateway id where the fact names one. That one was chosen is not enough: who ignores it and
// answers without an id has given another.
func (s *Summary) left(f Fact) {
	if s.LeftAt.IsZero() {
		s.LeftAt = f.At
	}
	if f.GatewayID != "" {
		s.GatewayID = f.GatewayID
	}
}

// Open gives the number of the open start, 0 when there is none.
func (s Summary) Open() int {
	for i, a := range s.Attempts {
		if a.State == AttemptOpen {
			return i + 1
		}
	}
	return 0
}

// Outstanding counts the attempts that are unknown: neither proved nor disproved. Absence is no disproof (rule R7).
func (s Summary) Outstanding() int {
	n := 0
	for _, a := range s.Attempts {
		if a.State == AttemptUnknown {
			n++
		}
	}
	return n
}

// Counted counts the attempts that use up the budget: those in which a call was, or may have been, made.
func (s Summary) Counted() int {
	n := 0
	for _, a := range s.Attempts {
		if a.State != AttemptNone && a.Called && !a.Free {
			n++
		}
	}
	return n
}

// Called reports whether any call was, or may have been, made.
func (s Summary) Called() bool {
	for _, a := range s.Attempts {
		if a.State != AttemptNone && a.Called {
			return true
		}
	}
	return false
}

// Refunded reports whether the message ended without any attempt that can have had an effect: what it took of a plan's limit is
// given back (promise P11).
func (s Summary) Refunded() bool {
	if s.End == nil || s.End.Presumed || s.Proved || s.Accepted {
		return false
	}
	for _, a := range s.Attempts {
		switch a.State {
		case AttemptNone, AttemptRefused, AttemptDeferred, AttemptDisproved:
		default:
			return false
		}
	}
	return true
}

// Last gives the newest attempt; the zero Attempt when there is none.
func (s Summary) Last() Attempt {
	if len(s.Attempts) == 0 {
		return Attempt{}
	}
	return s.Attempts[len(s.Attempts)-1]
}

// Settled reports whether nothing of ours may follow: the message ended, or it left.
func (s Summary) Settled() bool { return s.End != nil || s.Proved || s.Accepted }
