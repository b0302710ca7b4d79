package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
)

// attentive lets the reconciler act in moments.
func attentive(c *app.Config) {
	c.ReconcileEvery, c.AckOverdue, c.DeliveryWindow, c.EndsMargin = 100*time.Millisecond, 500*time.Millisecond, time.Hour, 200*time.Millisecond
}

// C2 37, 39: the gateway has the receipts, and their webhooks never came. They are asked for, recorded and told as ever.
func TestC2ReceiptsWhoseWebhooksAreLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, attentive)
	r.fault(evolutionsim.Fault{Kind: "receipts", Mode: "unposted", TextContains: "webhooks lost"})
	id := r.send("webhooks lost")
	m := r.awaitStatus(id, "READ")
	if m["ackOverdue"] != nil || r.ledger("webhooks lost") != 1 {
		t.Errorf("message %v", m)
	}
	r.awaitHook(id, "message.read")
	for _, e := range []string{"receipt.sent", "receipt.delivered", "receipt.read"} {
		if n := count(r.timeline(id), e); n != 1 {
			t.Errorf("%d of %s", n, e)
		}
	}
}

// C1 17, 18: no receipt at all. It is said to be overdue and stays DISPATCHED; after the long window it is FAILED and told so, once;
// nothing is sent again. A receipt that comes after all corrects it.
func TestC1OverdueThenNotConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t, attentive, func(c *app.Config) { c.DeliveryWindow = 8 * time.Second }) // it is seen to be overdue before that
	r.fault(evolutionsim.Fault{Kind: "receipts", Mode: "lost", TextContains: "never heard of"})
	id := r.send("never heard of")
	m := r.await(id, "overdue", func(m map[string]any) bool { return m["ackOverdue"] == true })
	if m["stage"] != "DISPATCHED" || m["status"] != "QUEUED" {
		t.Errorf("message %v", m)
	}
	m = r.awaitStatus(id, "FAILED")
	if m["errorCode"] != "DELIVERED_NOT_CONFIRMED" || m["ackOverdue"] != nil || r.ledger("never heard of") != 1 {
		t.Errorf("message %v", m)
	}
	r.awaitHook(id, "message.failed")
	if got := r.timeline(id); count(got, "evidence.ack_overdue") != 1 || count(got, "message.delivery_unconfirmed") != 1 || count(got, "dispatch.started") != 1 {
		t.Errorf("timeline %v", got)
	}
	key := r.sim.Ledger(evolutionsim.Filter{Text: "never heard of"}).Entries[0]
	if err := r.sim.Emit(key.Instance, "messages.update", map[string]any{"keyId": key.KeyID, "fromMe": true, "status": "READ"}); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(id, "READ")
	r.awaitHook(id, "message.read")
	if n := count(r.hooks(id), "message.failed"); n != 1 {
		t.Errorf("told %d times that it failed", n)
	}
}

// P1: no dispatcher runs. What is over ends all the same, and clients hear of it.
func TestP1EndsWithoutADispatcher(t *testing.T) {
	t.Parallel()
	r := newRig(t, attentive)
	r.stop()
	a, err := app.Start(t.Context(), r.cfg, slices.DeleteFunc(app.Roles(), func(role app.Role) bool { return role == app.RoleDispatcher }), r.logger())
	if err != nil {
		t.Fatal(err)
	}
	r.app = a
	id := r.send("nobody sends", within(time.Second))
	m := r.awaitStatus(id, "FAILED")
	if m["errorCode"] != "MESSAGE_EXPIRED" || r.ledger("nobody sends") != 0 {
		t.Errorf("message %v", m)
	}
	r.awaitHook(id, "message.failed")
	if status, _ := r.do(http.MethodGet, "/v1/messages/"+id, r.keys.Own, nil); status != http.StatusOK {
		t.Errorf("read: %d", status)
	}
}
