package e2e

import (
	"net/http"
	"testing"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/demo"
)

func TestTheWayOfAMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	status, accepted := r.do(http.MethodPost, "/api/v1/messages/send", r.keys.Own, map[string]any{
		"templateId": demo.TemplateUtility, "destinationNumber": "+5511988887777",
		"variables": map[string]string{"order": "7", "name": "Ana $& {{name}}"},
	})
	if status != http.StatusAccepted {
		t.Fatalf("send: %d %v", status, accepted)
	}
	id := accepted["id"].(string)
	m := r.awaitStatus(id, "READ")
	for _, field := range []string{"sentAt", "deliveredAt", "readAt", "externalMessageId", "correlationId"} {
		if m[field] == nil || m[field] == "" {
			t.Errorf("%s is missing in %v", field, m)
		}
	}
	if m["destinationNumber"] != "+5511988887777" || m["template"] != demo.TemplateUtility {
		t.Errorf("message %v", m)
	}
	want := []string{
		"message.queued", "dispatch.started", "dispatch.accepted", "receipt.sent", "receipt.delivered", "receipt.read",
	}
	got := r.timeline(id)
	if len(got) != len(want) {
		t.Fatalf("timeline %v", got)
	}
	for _, event := range want {
		if count(got, event) != 1 {
			t.Errorf("timeline %v has not one %s", got, event)
		}
	}
	for _, event := range []string{"message.sent", "message.delivered", "message.read"} {
		r.awaitHook(id, event)
		if n := count(r.hooks(id), event); n != 1 {
			t.Errorf("%d webhooks %s", n, event)
		}
	}
	// By correlation id and WhatsApp id too; never for another environment.
	for _, other := range []any{m["correlationId"], m["externalMessageId"]} {
		if got := r.message(other.(string)); got == nil || got["id"] != id {
			t.Errorf("by %v: %v", other, got)
		}
	}
	if status, _ := r.do(http.MethodGet, "/v1/messages/"+id, r.keys.Test, nil); status != http.StatusNotFound {
		t.Errorf("with a key of another environment: %d", status)
	}
	e := r.sim.Ledger(evolutionsim.Filter{}).Entries
	if len(e) != 1 || e[0].Call != "sendButtons" {
		t.Fatalf("ledger %+v", e)
	}
}

func TestReadYourWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 20 {
		id := r.send("read at once")
		if status, m := r.do(http.MethodGet, "/v1/messages/"+id, r.keys.Own, nil); status != http.StatusOK || m["id"] != id {
			t.Fatalf("%d %v", status, m)
		}
	}
}

func TestScheduledMessageLeavesAtItsTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := time.Now().Add(1500 * time.Millisecond)
	id := r.send("scheduled", func(m map[string]any) { m["deliverAt"] = at.UTC().Format(time.RFC3339Nano) })
	r.awaitStatus(id, "READ")
	e := r.sim.Ledger(evolutionsim.Filter{Text: "scheduled"}).Entries
	if len(e) != 1 || e[0].StartedAt.Before(at) {
		t.Fatalf("due %v, ledger %+v", at, e)
	}
}

func TestExpiredMessageIsFailedAndTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	closed := "close"
	if err := r.sim.ChangeInstance(demo.OwnName, evolutionsim.Change{State: &closed}); err != nil {
		t.Fatal(err)
	}
	id := r.send("nobody connected", within(1500*time.Millisecond))
	m := r.awaitStatus(id, "FAILED")
	if m["errorCode"] == nil || r.ledger("nobody connected") != 0 {
		t.Fatalf("message %v", m)
	}
	r.awaitHook(id, "message.failed")
}

func TestReadyTellsTheTruth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	eventually(t, "ready", func() bool {
		status, out := r.do(http.MethodGet, "/readyz?verbose", "", nil)
		return status == http.StatusOK && out["status"] == "ready"
	}, func() string { _, out := r.do(http.MethodGet, "/readyz?verbose", "", nil); return toJSON(out) })
}
