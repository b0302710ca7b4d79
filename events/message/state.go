// Package message folds the events of one message into its state: a pure function of the set of its positioned events,
// whatever their order of arrival or number of repeats (promise P4).
package message

import (
	"time"

	"pilotstatus.dev/events"
)

// Queued is what the accepted message itself says.
type Queued struct {
	Position     events.Position
	At           time.Time
	Tenant       string
	Instance     string
	Class        events.Class
	DeliverAt    time.Time
	DeliverUntil time.Time
	Body         *events.MessageQueued // nil when only headers were read
}

// State is what is known of a message. The zero State knows nothing and takes the id of the first event that is about one
// message; a closed event of several is taken in only where ID is set. States are values: Apply never modifies its receiver.
type State struct {
	ID     string
	Queued *Queued
	Record Record
}

// Apply gives the state with rec taken in. It cannot fail: what it does not know, or what is about another message, changes nothing.
func (s State) Apply(rec events.Recorded) State {
	if isQueued(rec) && rec.Known {
		if (s.ID != "" && s.ID != rec.Subject) || rec.Subject == "" {
			return s
		}
		if s.Queued != nil && s.Queued.Position.Sequence <= rec.Position.Sequence {
			return s
		}
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil {
			return s
		}
		body, _ := rec.Body.(*events.MessageQueued)
		s.ID = rec.Subject
		s.Queued = &Queued{
			Position: rec.Position, At: rec.Time, Tenant: rec.TenantID, Instance: addr.Instance, Class: addr.Lane.Class,
			DeliverAt: rec.DeliverAt, DeliverUntil: rec.DeliverUntil, Body: body,
		}
		return s
	}
	f, ok := FactOf(rec)
	if !ok {
		return s
	}
	for _, m := range Subjects(rec) {
		if s.ID == "" && rec.Subject != "" {
			s.ID = m.ID
		}
		if m.ID == s.ID && m.ID != "" {
			s.Record = s.Record.With(f)
		}
	}
	return s
}

// View is a state in words: what an API, a projection or a customer event says of a message.
type View struct {
	Stage        events.Stage
	Attempts     int
	GatewayID    string
	DispatchedAt time.Time
	SentAt       time.Time
	DeliveredAt  time.Time
	ReadAt       time.Time
	FailedAt     time.Time
	CanceledAt   time.Time
	ErrorCode    events.ErrorCode
	Presumed     bool // the end is presumed: an attempt may have had an effect
	Corrected    bool // it was FAILED or CANCELED, and a receipt proved otherwise
	Erased       bool
	AckOverdue   bool   // the gateway took it and no receipt came in time; there still is none
	Refunded     bool   // no attempt can have had an effect: it does not count in a plan's limit
	RefundedSeq  uint64 // of the fact since which Refunded is what it is; 0 while it never was true
	Transitions  []Transition
}

// Status is the public status.
func (v View) Status() events.Status { return v.Stage.Status() }

// Transition is a change of the public status, at the position of the fact that brought it.
type Transition struct {
	Seq        uint64
	At         time.Time
	Status     events.Status
	ErrorCode  events.ErrorCode
	Correction int // 1 when it corrects an end already told to the customer
}

// View folds the facts in the order of the log.
func (s State) View() View {
	w := walk{rank: rankQueued(1)}
	v := View{Stage: events.StageQueued}
	received := ""
	for _, f := range s.Record {
		w.step(&v, f)
		if f.Kind > KindClosed && f.GatewayID != "" {
			received = f.GatewayID
		}
		// A receipt is stronger than whatever the attempts came to.
		if now := w.sum.Refunded() && (v.Stage == events.StageFailed || v.Stage == events.StageCanceled); now != v.Refunded {
			v.Refunded, v.RefundedSeq = now, f.Seq
		}
	}
	v.AckOverdue = v.AckOverdue && v.Stage == events.StageDispatched
	v.Attempts = len(w.sum.Attempts)
	if v.GatewayID = w.sum.GatewayID; v.GatewayID == "" { // the answer named none, and receipts came before a look-up found it
		v.GatewayID = received
	}
	v.DispatchedAt = w.sum.LeftAt
	return v
}
