package receipts

import (
	"testing"

	"pilotstatus.dev/events"
)

// Several gateway ids for one message: the id that the gateway was told, and the one that it answered with. Receipts under either are the
// message's, each state once; none of them is a proof of something that is known to have left.
func TestReceiptsUnderEitherGatewayIDBindOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.correlate(r.log, quick)
	r.started("msg_1", "CHOSEN")
	r.accepted("msg_1", "ANSWERED")
	r.receipt("CHOSEN", "SERVER_ACK")
	r.wait(receiptFilter, "msg_1.sent")
	r.receipt("ANSWERED", "SERVER_ACK")
	r.receipt("ANSWERED", "DELIVERY_ACK")
	r.wait(receiptFilter, "msg_1.sent", "msg_1.delivered")
	r.receipt("CHOSEN", "DELIVERY_ACK")
	r.receipt("CHOSEN", "READ")
	r.receipt("ANSWERED", "READ")
	r.receipt("ANSWERED", "ERROR")
	r.waitAny(receiptFilter, "msg_1.sent", "msg_1.delivered", "msg_1.read", "msg_1.failed") // several are taken at once
	if got := r.ids(events.TypeFilter(partition, events.GroupDispatch, "proved")); len(got) != 0 {
		t.Errorf("an accepted message was proved: %v", got)
	}
}

// An attempt that was found absent, and whose receipt comes all the same, is proved by it: also while its next attempt is under way.
func TestReceiptProvesAnAbsentAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.correlate(r.log, quick)
	r.started("msg_1", "FIRST")
	r.fenced("unknown", "msg_1", 1, "", &events.DispatchUnknown{Cause: events.UnknownNoAnswer})
	r.fenced("absent", "msg_1", 1, "", &events.DispatchAbsent{})
	r.fenced("started", "msg_1", 2, "SECOND", &events.DispatchStarted{Call: "sendText"})
	r.receipt("FIRST", "DELIVERY_ACK")
	r.wait(receiptFilter, "msg_1.delivered")
	proofs := r.events(events.TypeFilter(partition, events.GroupDispatch, "proved"))
	if len(proofs) != 1 || proofs[0].Attempt != 1 || proofs[0].GatewayID != "FIRST" {
		t.Errorf("proved by %+v", proofs)
	}
}
