package dispatcher

import (
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
)

// source is what this role's events say of where they come from.
const source = "pilot/dispatcher"

// job is a message whose turn it is: a copy of what the fold said, since the fold goes on.
type job struct {
	id           string
	queuedSeq    uint64
	lane         events.Lane
	attempt      int
	counted      int // attempts that used up the budget before this one
	fresh        bool
	claimed      bool // it is the guaranteed turn of its class
	deliverUntil time.Time
	acceptedAt   time.Time
}

func newJob(s queue.Start) job {
	e := s.Entry
	return job{
		id: e.ID, queuedSeq: e.QueuedSeq, lane: e.Lane, attempt: s.Attempt, counted: e.Summary().Counted(), fresh: s.Fresh, claimed: s.Claimed,
		deliverUntil: e.DeliverUntil, acceptedAt: e.AcceptedAt,
	}
}

// event builds an event of the fenced group about one message.
func (a *actor) event(typ, name string, m events.ClosedMessage, tenant string, attempt int, body any) events.Event {
	return events.Event{
		Address: events.EventSubject(a.p.n, a.id, events.GroupDispatch, name),
		Envelope: events.Envelope{
			ID: newID(), Type: typ, Source: source, Time: a.p.d.set.Now().UTC(), Subject: m.ID, TenantID: tenant,
			Attempt: attempt, QueuedSeq: m.QueuedSeq,
		},
		Body: body,
	}
}

func (j job) message() events.ClosedMessage {
	return events.ClosedMessage{ID: j.id, QueuedSeq: j.queuedSeq}
}

// evidence builds an event of the evidence group.
func (a *actor) evidence(typ, name string, j job, body any) events.Event {
	ev := a.event(typ, name, j.message(), j.lane.Tenant, j.attempt, body)
	ev.Address = events.EventSubject(a.p.n, a.id, events.GroupEvidence, name)
	return ev
}

// instanceEvent builds an event of the instance group.
func (a *actor) instanceEvent(typ, name string, body events.InstanceChanged) events.Event {
	return events.Event{
		Address:  events.EventSubject(a.p.n, a.id, events.GroupInstance, name),
		Envelope: events.Envelope{ID: newID(), Type: typ, Source: source, Time: a.p.d.set.Now().UTC()},
		Body:     &body,
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
