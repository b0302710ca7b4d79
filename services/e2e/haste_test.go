package e2e

import (
	"fmt"
	"testing"
	"time"

	"pilotstatus.dev/events"
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
