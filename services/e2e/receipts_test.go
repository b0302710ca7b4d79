package e2e

import (
	"encoding/json"
	"testing"

	"pilotstatus.dev/infra/evolutionsim"
)

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// settledHooks waits until the last receipt is in the timeline and told, so that nothing more can come.
func (r *rig) settledHooks(id, last string, receipts ...string) []string {
	r.t.Helper()
	eventually(r.t, "receipts in the timeline", func() bool {
		got := r.timeline(id)
		for _, want := range receipts {
			if count(got, want) == 0 {
				return false
			}
		}
		return true
	}, func() string { return toJSON(r.timeline(id)) })
	r.awaitHook(id, last)
	return r.hooks(id)
}

// C1 1: the gateway posts a receipt before its 201.
func TestC1ReceiptBeforeThe201(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "receipts", Mode: "early", TextContains: "early"})
	id := r.send("early receipt")
	m := r.awaitStatus(id, "READ")
	if m["sentAt"] == nil || r.ledger("early receipt") != 1 {
		t.Fatalf("message %v", m)
	}
	r.settledHooks(id, "message.read", "receipt.sent", "receipt.delivered", "receipt.read")
	for _, event := range []string{"message.sent", "message.delivered", "message.read"} {
		if n := count(r.hooks(id), event); n > 1 {
			t.Errorf("%d webhooks %s", n, event)
		}
	}
}

// C2 34: the same receipt again and again is one event and one webhook.
func TestC2DuplicatedReceipts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "receipts", Mode: "duplicated", Copies: 5, TextContains: "again"})
	id := r.send("again and again")
	r.awaitStatus(id, "READ")
	hooks := r.settledHooks(id, "message.read", "receipt.sent", "receipt.delivered", "receipt.read")
	timeline := r.timeline(id)
	for _, state := range []string{"sent", "delivered", "read"} {
		if count(timeline, "receipt."+state) != 1 || count(hooks, "message."+state) != 1 {
			t.Errorf("%s: timeline %v, webhooks %v", state, timeline, hooks)
		}
	}
}

// C2 28: receipts in reverse: the highest wins at once, what comes late is kept and tells nobody.
func TestC2ReversedReceipts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "receipts", Mode: "reversed", TextContains: "backwards"})
	id := r.send("backwards")
	m := r.await(id, "every time", func(m map[string]any) bool {
		return m["sentAt"] != nil && m["deliveredAt"] != nil && m["readAt"] != nil
	})
	if m["status"] != "READ" {
		t.Fatalf("message %v", m)
	}
	hooks := r.settledHooks(id, "message.read", "receipt.sent", "receipt.delivered", "receipt.read")
	if len(hooks) != 1 {
		t.Fatalf("webhooks %v", hooks)
	}
}

// C1 19: ERROR after the 201 is FAILED with the gateway's code.
func TestC1ErrorReceipt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "receipts", Mode: "error", TextContains: "refused later"})
	id := r.send("refused later")
	m := r.awaitStatus(id, "FAILED")
	if m["errorCode"] != "GATEWAY_REJECTED" || r.ledger("refused later") != 1 {
		t.Fatalf("message %v", m)
	}
	r.awaitHook(id, "message.failed")
}

// C1 18: without any receipt it stays DISPATCHED, which customers see as QUEUED; nothing is sent again.
func TestC1LostReceiptsAreNoReasonToSendAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "receipts", Mode: "lost", TextContains: "silence"})
	id := r.send("silence")
	m := r.await(id, "DISPATCHED", func(m map[string]any) bool { return m["stage"] == "DISPATCHED" })
	if m["status"] != "QUEUED" {
		t.Fatalf("message %v", m)
	}
	r.awaitStatus(r.send("the next"), "READ") // the queue went on
	if n := r.ledger("silence"); n != 1 {
		t.Fatalf("ledger %d", n)
	}
}
