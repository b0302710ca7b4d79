package e2e

import (
	"fmt"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
)

// Dispatch does not wait as patiently for the disk as work in the background does, of which there is none here: each message is called on
// its first start.
func TestMessagesLeaveWithoutPatience(t *testing.T) {
	t.Parallel()
	r := newRigOf(t, []app.Role{app.RoleAPI, app.RoleDispatcher}, nil, func(c *app.Config) {
		c.NATSSync, c.SyncPatience = "auto", time.Hour
		c.AcceptLimit, c.IntentBudget, c.SendLimit, c.SuccessorWait = 40*time.Second, 40*time.Second, 50*time.Second, patience // of a slow disk
	})
	const messages = 3
	for n := range messages {
		text := fmt.Sprintf("hurry %d", n)
		r.send(text)
		eventually(t, "the message at the gateway", func() bool { return r.ledger(text) == 1 }, r.logs.String)
	}
	recs, _, err := r.app.Events().ReadGroup(t.Context(), events.PartitionOf(demo.OwnInstanceID, r.cfg.Partitions), demo.OwnInstanceID, 0)
	if err != nil {
		t.Fatal(err)
	}
	starts := 0
	for _, rec := range recs {
		if rec.Type == events.TypeDispatchStarted {
			starts++
		}
	}
	if starts != messages {
		t.Errorf("%d starts for %d messages", starts, messages)
	}
}

// Work in the background waits while a code is on its way, and goes on when the gateway has it: what is accepted meanwhile is in the views
// after that.
func TestWorkInTheBackgroundWaitsForACode(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *app.Config) { c.CodePatience = time.Hour })
	const call = 2 * time.Second
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: int(call.Milliseconds()), TextContains: "code"})
	began := time.Now()
	code := r.send("your code", category("OTP"))
	other := r.send("an offer", category("MARKETING"))
	r.await(other, "the view has it", func(map[string]any) bool { return true })
	if took := time.Since(began); took < call {
		t.Errorf("the view had it after %s, before the code had left", took)
	}
	r.awaitStatus(code, "READ")
	r.awaitStatus(other, "READ")
}
