package logtest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// Draw fills a log with n random events about a few messages: every kind, in orders that good writers would never
// produce too, with messages that were never accepted or were accepted twice.
func Draw(t *rapid.T, tb testing.TB, l *Log, n int) {
	instances, tenants := []string{"inst-a", "inst-b"}, []string{"acme", "globex"}
	for range n {
		m := rapid.IntRange(1, 6).Draw(t, "message")
		instance := instances[m%2]
		l.Append(tb, instance, draw(t, l, m, tenants[m%2], instance))
	}
}

func draw(t *rapid.T, l *Log, m int, tenant, instance string) events.Event {
	id := l.ID(m)
	attempt := rapid.IntRange(1, 3).Draw(t, "attempt")
	code := rapid.SampledFrom([]events.ErrorCode{"", events.FailGatewayRejected, events.FailNotOnWhatsApp}).Draw(t, "code")
	gatewayID := rapid.SampledFrom([]string{"", "3EB0AA", "3EB0BB"}).Draw(t, "gateway id")
	at := Start.Add(time.Duration(rapid.IntRange(0, 1e9).Draw(t, "at")) * 7)
	receipt := &events.Receipt{GatewayStatus: "X", At: at, ReceivedAt: at, Code: code}
	flag := rapid.Bool().Draw(t, "flag")
	var e events.Event
	switch kind := rapid.IntRange(0, 23).Draw(t, "kind"); kind {
	case 0, 1, 2:
		return Queued(l.Partition, id, tenant, instance)
	case 3, 4:
		e = About(events.TypeDispatchStarted, id, attempt, &events.DispatchStarted{Call: "sendText", BudgetMS: 2000})
		e.Nonce = "n"
	case 5:
		e = About(events.TypeDispatchAccepted, id, attempt, &events.DispatchAccepted{HTTPStatus: 201, ElapsedMS: 12})
	case 6:
		e = About(events.TypeDispatchRefused, id, attempt, &events.DispatchRefused{Code: code, Cause: "exists_false", HTTPStatus: 400, ElapsedMS: 5})
	case 7, 8:
		e = About(events.TypeDispatchDeferred, id, attempt, &events.DispatchDeferred{Cause: "not_ready", HTTPStatus: 500, ElapsedMS: 3})
		e.Called, e.DueAt = flag, at
	case 9, 10:
		e = About(events.TypeDispatchUnknown, id, attempt, &events.DispatchUnknown{Cause: "limit", ElapsedMS: 15000})
	case 11:
		e = About(events.TypeDispatchAbsent, id, attempt, &events.DispatchAbsent{Count: 0})
	case 12:
		e = About(events.TypeDispatchProved, id, rapid.IntRange(0, 3).Draw(t, "proved attempt"), &events.DispatchProved{By: events.ProofLookUp})
	case 13:
		e = About(events.TypeDispatchDisproved, id, attempt, &events.DispatchDisproved{By: "operator", Code: code})
	case 14, 15:
		return closed(t, l, code, flag)
	case 16:
		e = About(events.TypeReceiptSent, id, 0, receipt)
	case 17:
		e = About(events.TypeReceiptDelivered, id, 0, receipt)
	case 18:
		e = About(events.TypeReceiptRead, id, 0, receipt)
	case 19:
		e = About(events.TypeReceiptFailed, id, 0, receipt)
	case 20:
		e = About(events.TypeMessageErased, id, 0, &events.MessageErased{KeyID: "k1"})
	case 21:
		if flag {
			return events.Event{Envelope: events.Envelope{Type: events.TypeDispatchRestored}, Body: &events.DispatchRestored{UpTo: 3, By: "test"}}
		}
		e = About(events.TypeEvidenceAnomaly, id, attempt, &events.EvidenceAnomaly{Kind: events.AnomalyJIDMismatch})
	case 22:
		e = About(events.TypeEvidenceAckOverdue, id, 0, &events.EvidenceAckOverdue{AfterMS: 900_000})
	default:
		if flag {
			return events.Event{Envelope: events.Envelope{Type: events.TypeInstanceParked}, Body: &events.InstanceChanged{By: "dispatcher"}}
		}
		e = About(events.TypeMessageDeliveryUnconfirmed, id, 0, &events.MessageDeliveryUnconfirmed{WindowDays: 7})
	}
	e.GatewayID = gatewayID
	return e
}

func closed(t *rapid.T, l *Log, code events.ErrorCode, presumed bool) events.Event {
	body := &events.DispatchClosed{
		Reason: rapid.SampledFrom([]string{events.ClosedExpired, events.ClosedCanceled, events.ClosedTimeout}).Draw(t, "reason"),
		Code:   code, Presumed: presumed,
	}
	for _, m := range rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(t, "messages") {
		body.Messages = append(body.Messages, events.ClosedMessage{ID: l.ID(m)})
	}
	e := events.Event{Envelope: events.Envelope{Type: events.TypeDispatchClosed}, Body: body}
	if len(body.Messages) == 1 {
		e.Subject = body.Messages[0].ID
	}
	return e
}
