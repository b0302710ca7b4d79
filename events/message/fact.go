package message

import "pilotstatus.dev/events"

var kinds = map[string]Kind{
	events.TypeDispatchStarted: KindStarted, events.TypeDispatchAccepted: KindAccepted, events.TypeDispatchRefused: KindRefused,
	events.TypeDispatchDeferred: KindDeferred, events.TypeDispatchUnknown: KindUnknown, events.TypeDispatchAbsent: KindAbsent,
	events.TypeDispatchProved: KindProved, events.TypeDispatchDisproved: KindDisproved, events.TypeDispatchClosed: KindClosed,
	events.TypeReceiptSent: KindSent, events.TypeReceiptDelivered: KindDelivered, events.TypeReceiptRead: KindRead,
	events.TypeReceiptFailed: KindFailed, events.TypeMessageDeliveryUnconfirmed: KindNotConfirmed, events.TypeMessageErased: KindErased,
}

// FactOf gives what rec says about a message; ok is false when it says nothing that folds need. Which messages a closed
// event is about is in Subjects.
func FactOf(rec events.Recorded) (f Fact, ok bool) {
	kind, ok := kinds[rec.Type]
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
		f.Code = b.Code
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
	if rec.Type == events.TypeMessageQueued {
		seq = rec.Position.Sequence
	}
	return []events.ClosedMessage{{ID: rec.Subject, QueuedSeq: seq}}
}
