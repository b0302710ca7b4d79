package projector

import (
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// entry is what the fold knows of one message. Entries are values: taking a fact in never modifies a copy.
type entry struct {
	record  message.Record
	details []detail
}

// detail is what the outcome at seq said beyond the fact.
type detail struct {
	seq        uint64
	cause      string
	httpStatus int
	elapsedMS  int64
}

// take gives the entry with the fact of a timeline row in its place.
func (e entry) take(f message.Fact, r timelineRow) entry {
	e.record = e.record.With(f)
	if isOutcome(f.Kind) {
		d := detail{seq: f.Seq, cause: r.cause, httpStatus: r.httpStatus, elapsedMS: r.elapsedMS}
		e.details = append(e.details[:len(e.details):len(e.details)], d)
	}
	return e
}

func (e entry) view() message.View { return message.State{Record: e.record}.View() }

func isOutcome(k message.Kind) bool {
	return k == message.KindAccepted || k == message.KindRefused || k == message.KindDeferred || k == message.KindUnknown
}

// attemptRow is a row of table attempts.
type attemptRow struct {
	messageID          string
	attempt            int
	state              string
	startedAt, endedAt time.Time
	outcome, gatewayID string
	called, absent     bool
	detail
}

// attemptsOf gives the rows of the attempts whose numbers are wanted.
func (e entry) attemptsOf(id string, wanted map[int]struct{}) []attemptRow {
	sum := e.record.Summarize()
	var out []attemptRow
	for i, a := range sum.Attempts {
		n := i + 1
		if _, ok := wanted[n]; !ok || a.State == message.AttemptNone && !a.Absent {
			continue
		}
		row := attemptRow{
			messageID: id, attempt: n, state: stateNames[a.State], startedAt: a.StartedAt, called: a.Called, absent: a.Absent,
		}
		for _, f := range e.record {
			if f.Attempt == n && f.Kind <= message.KindDisproved {
				row.step(f, e.details)
			}
		}
		out = append(out, row)
	}
	return out
}

// step takes in one fact of the attempt: its first outcome is how the call ended, whatever was found out later.
func (r *attemptRow) step(f message.Fact, details []detail) {
	if f.Kind == message.KindStarted {
		r.outcome, r.gatewayID, r.endedAt, r.detail = "", "", time.Time{}, detail{}
	}
	if f.GatewayID != "" {
		r.gatewayID = f.GatewayID
	}
	if !isOutcome(f.Kind) || r.outcome != "" {
		return
	}
	r.outcome, r.endedAt = outcomeNames[f.Kind], f.At
	for _, d := range details {
		if d.seq == f.Seq {
			r.detail = d
		}
	}
}

// Words of the columns attempts.state and attempts.outcome (docs/reference/views.md).
var (
	stateNames = map[message.AttemptState]string{
		message.AttemptNone: "none", message.AttemptOpen: "open", message.AttemptAccepted: "accepted",
		message.AttemptRefused: "refused", message.AttemptDeferred: "deferred", message.AttemptUnknown: "unknown",
		message.AttemptProved: "proved", message.AttemptDisproved: "disproved",
	}
	outcomeNames = map[message.Kind]string{
		message.KindAccepted: "accepted", message.KindRefused: "refused",
		message.KindDeferred: "deferred", message.KindUnknown: "unknown",
	}
)

// factKinds says what the event of a folded timeline row means to the fold. It is by name, so that stored rows do not
// depend on the numbers of message.Kind.
var factKinds = map[string]message.Kind{
	"dispatch.started": message.KindStarted, "dispatch.accepted": message.KindAccepted, "dispatch.refused": message.KindRefused,
	"dispatch.deferred": message.KindDeferred, "dispatch.unknown": message.KindUnknown, "dispatch.absent": message.KindAbsent,
	"dispatch.proved": message.KindProved, "dispatch.disproved": message.KindDisproved, "dispatch.closed": message.KindClosed,
	"receipt.sent": message.KindSent, "receipt.delivered": message.KindDelivered, "receipt.read": message.KindRead,
	"receipt.failed": message.KindFailed, "message.delivery_unconfirmed": message.KindNotConfirmed, "message.erased": message.KindErased,
	"message.retry_requested": message.KindRetryRequested,
	"evidence.ack_overdue":    message.KindAckOverdue,
}

// KindOf gives the kind of fact behind the event of a folded row of the timeline; false for an event that folds pass over.
func KindOf(event string) (message.Kind, bool) {
	k, ok := factKinds[event]
	return k, ok
}

// fact gives back what a folded row says to the fold.
func (r timelineRow) fact() (message.Fact, bool) {
	kind, ok := factKinds[r.event]
	return message.Fact{
		Seq: r.seq, At: r.at, Kind: kind, Attempt: r.attempt, Called: r.called, DueAt: r.dueAt, Nonce: r.nonce,
		GatewayID: r.gatewayID, Code: events.ErrorCode(r.code), Reason: r.reason, Presumed: r.presumed,
	}, ok && r.folded
}
