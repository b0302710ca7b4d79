package message

import (
	"testing"

	"pilotstatus.dev/events"
)

// The cases of status events that gateways are known to produce (docs/cases.md, C2).

func sentOut(more ...events.Recorded) View {
	return fold(append([]events.Recorded{queuedEvent(10), started(11, 1), accepted(12, 1, "G")}, more...)...).View()
}

func TestC2Case28LateServerAck(t *testing.T) {
	t.Parallel()
	v := sentOut(receipt(13, "delivered"), receipt(14, "sent"))
	if v.Stage != events.StageDelivered || v.SentAt.IsZero() || v.DeliveredAt.IsZero() || len(v.Transitions) != 1 {
		t.Errorf("delivered, then sent: %+v", v)
	}
	v = sentOut(receipt(13, "read"), receipt(14, "delivered"))
	if v.Stage != events.StageRead || v.DeliveredAt.IsZero() || len(v.Transitions) != 1 {
		t.Errorf("read, then delivered: %+v", v)
	}
}

func TestC2Case29FailedAndDelivered(t *testing.T) {
	t.Parallel()
	v := sentOut(receipt(13, "failed"), receipt(14, "delivered"), receipt(15, "failed"))
	if v.Stage != events.StageDelivered || !v.Corrected || v.ErrorCode != "" {
		t.Errorf("failed, then delivered: %+v", v)
	}
	if len(v.Transitions) != 2 || v.Transitions[0].Status != events.StatusFailed || v.Transitions[1].Correction != 1 {
		t.Errorf("the correcting event goes out once: %+v", v.Transitions)
	}
	v = sentOut(receipt(13, "delivered"), receipt(14, "failed"))
	if v.Stage != events.StageDelivered || v.Corrected || len(v.Transitions) != 1 {
		t.Errorf("delivered, then failed: %+v", v)
	}
}

func TestC2Case30ReadOnly(t *testing.T) {
	t.Parallel()
	v := sentOut(receipt(13, "read"))
	if v.Status() != events.StatusRead || v.ReadAt.IsZero() || !v.SentAt.IsZero() || !v.DeliveredAt.IsZero() {
		t.Errorf("%+v", v)
	}
	if len(v.Transitions) != 1 || v.Transitions[0].Status != events.StatusRead {
		t.Errorf("%+v", v.Transitions)
	}
}

// Overdue is a remark: the stage stays, nobody is told, and any receipt or end takes it away, wherever in the log it stands.
func TestC1Case18AckOverdue(t *testing.T) {
	t.Parallel()
	v := sentOut(ackOverdue(13))
	if v.Stage != events.StageDispatched || !v.AckOverdue || v.Status() != events.StatusQueued || len(v.Transitions) != 0 {
		t.Errorf("%+v", v)
	}
	for _, after := range []events.Recorded{receipt(15, "sent"), receipt(15, "read"), receipt(15, "failed"), notConfirmed(15)} {
		early := after
		early.Position.Sequence = 13
		for _, v := range []View{sentOut(ackOverdue(14), after), sentOut(early, ackOverdue(14))} {
			if v.AckOverdue {
				t.Errorf("%s: %+v", after.Type, v)
			}
		}
	}
}

// What left counts in a plan, whether its delivery is confirmed or not.
func TestNotConfirmedIsNotRefunded(t *testing.T) {
	t.Parallel()
	v := sentOut(notConfirmed(13))
	if v.Stage != events.StageFailed || v.ErrorCode != events.FailNotConfirmed || v.Refunded || v.RefundedSeq != 0 {
		t.Errorf("%+v", v)
	}
}

func TestC2Case31EditsMoveNothing(t *testing.T) {
	t.Parallel()
	v := sentOut(receipt(13, "read"), receipt(14, "sent"), rec(15, "receipt.deleted.v1", 0, nil))
	if v.Stage != events.StageRead || len(v.Transitions) != 1 {
		t.Errorf("%+v", v)
	}
}

func TestC2Case37DeliveredWithoutServerAck(t *testing.T) {
	t.Parallel()
	v := sentOut(receipt(13, "delivered"))
	if v.Status() != events.StatusDelivered || !v.SentAt.IsZero() || v.DispatchedAt.IsZero() {
		t.Errorf("%+v", v)
	}
}

func TestFailedWithoutACodeIsTheGatewaysRefusal(t *testing.T) {
	t.Parallel()
	r := receipt(13, "failed")
	r.Body = &events.Receipt{}
	if v := sentOut(r); v.ErrorCode != events.FailGatewayRejected || !v.FailedAt.Equal(r.Time) {
		t.Errorf("%+v", v)
	}
}
