package message

import "pilotstatus.dev/events"

// kinds is by name: a body of an older version arrives lifted and means the same.
var kinds = map[string]Kind{
	events.NameOf(events.TypeDispatchStarted): KindStarted, events.NameOf(events.TypeDispatchAccepted): KindAccepted,
	events.NameOf(events.TypeDispatchRefused): KindRefused, events.NameOf(events.TypeDispatchDeferred): KindDeferred,
	events.NameOf(events.TypeDispatchUnknown): KindUnknown, events.NameOf(events.TypeDispatchAbsent): KindAbsent,
	events.NameOf(events.TypeDispatchProved): KindProved, events.NameOf(events.TypeDispatchDisproved): KindDisproved,
	events.NameOf(events.TypeDispatchClosed): KindClosed,
	events.NameOf(events.TypeReceiptSent):    KindSent, events.NameOf(events.TypeReceiptDelivered): KindDelivered,
	events.NameOf(events.TypeReceiptRead): KindRead, events.NameOf(events.TypeReceiptFailed): KindFailed,
	events.NameOf(events.TypeMessageDeliveryUnconfirmed): KindNotConfirmed, events.NameOf(events.TypeMessageErased): KindErased,
	events.NameOf(events.TypeMessageRetryRequested): KindRetryRequested,
	events.NameOf(events.TypeEvidenceAckOverdue):    KindAckOverdue,
}

func isQueued(rec events.Recorded) bool {
	return events.NameOf(rec.Type) == events.NameOf(events.TypeMessageQueued)
}

// FactOf gives what rec says about a message; ok is false when it says nothing that folds need. Which messages a closed
// event is about is in Subjects.
func FactOf(rec events.Recorded) (f Fact, ok bool) {
	kind, ok := kinds[events.NameOf(rec.Type)]
	if !ok || !rec.Known {
		return Fact{}, false
	}
	f = Fact{
		Seq: rec.Position.Sequence, At: rec.Time, Kind: kind, Attempt: rec.Attempt, Called: rec.Called,
		DueAt: rec.DueAt, Nonce: rec.Nonce, GatewayID: rec.GatewayID,
	}
	switch b := rec.Body.(type) {
	case *events.DispatchDeferred:
		f.Free = b.Park != "" || b.Limited
	case *events.DispatchRefused:
		f.Code = b.Code
	case *events.DispatchDisproved:
		f.Code, f.Free = b.Code, b.By == events.DisprovedOperator
	case *events.DispatchClosed:
		f.Code, f.Reason, f.Presumed = b.Code, b.Reason, b.Presumed
	case *events.Receipt:
		f.Code = b.Code
		if !b.At.IsZero() {
			f.At = b.At
		}
	}
	return f, true
}

// Subjects lists the messages rec is about: the ones a closed event names, else ce-subject.
func Subjects(rec events.Recorded) []events.ClosedMessage {
	if b, ok := rec.Body.(*events.DispatchClosed); ok {
		return b.Messages
	}
	if rec.Subject == "" {
		return nil
	}
	seq := rec.QueuedSeq
	if isQueued(rec) {
		seq = rec.Position.Sequence
	}
	return []events.ClosedMessage{{ID: rec.Subject, QueuedSeq: seq}}
}
