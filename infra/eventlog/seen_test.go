package eventlog_test

import (
	"errors"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

func about(typ, group, name, id string, body any) events.Event {
	return events.Event{
		Envelope: events.Envelope{ID: id, Type: typ, Source: "pilot/test", Time: time.Now(), Subject: "msg_1", TenantID: "acme"},
		Address:  events.EventSubject(part, instance, group, name), Body: body,
	}
}

// C3 51: what was decided before a receipt came is refused once it is there, and takes no sequence.
func TestC3AppendSeenIsDroppedWhenMoreHasCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	filter := eventlog.ReceiptFilter(part, instance)
	overdue := func(id string) events.Event {
		return about(events.TypeEvidenceAckOverdue, events.GroupEvidence, "ack_overdue", id, &events.EvidenceAckOverdue{AfterMS: 900_000})
	}
	receipt := func(id string) events.Event {
		return about(events.TypeReceiptSent, events.GroupReceipt, "sent", id, &events.Receipt{GatewayStatus: "SERVER_ACK"})
	}
	if ack, err := w.log.AppendSeen(t.Context(), overdue("o1"), filter, 0); err != nil || ack.Sequence != 1 {
		t.Fatalf("into an empty log: %+v, %v", ack, err)
	}
	if _, err := w.log.Append(t.Context(), receipt("r1")); err != nil {
		t.Fatal(err)
	}
	var refused *eventlog.Refused
	if _, err := w.log.AppendSeen(t.Context(), overdue("o2"), filter, 0); !errors.As(err, &refused) {
		t.Fatalf("a decision on an old picture: %v", err)
	}
	wantCode(t, refused, events.CodeFenced)
	recs, last, err := w.log.ReadReceipts(t.Context(), part, instance, 0)
	if err != nil || len(recs) != 1 || recs[0].ID != "r1" || last != 2 {
		t.Fatalf("receipts %v up to %d, %v", eventIDs(recs), last, err)
	}
	if ack, err := w.log.AppendSeen(t.Context(), overdue("o2"), filter, last); err != nil || ack.Sequence != 3 {
		t.Fatalf("decided anew: %+v, %v", ack, err)
	}
	if ack, err := w.log.AppendSeen(t.Context(), overdue("o2"), filter, last); err != nil || !ack.Duplicate || ack.Sequence != 3 {
		t.Fatalf("again: %+v, %v", ack, err)
	}
}
