package e2e

import (
	"testing"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
)

// What the gateway took without telling us so: proved by a look-up, never sent again.
func TestUnknownOutcomesAreProvedNotRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault evolutionsim.Fault
	}{
		{"hang after accept", evolutionsim.Fault{Kind: "hang", When: "after"}},
		{"reset after accept", evolutionsim.Fault{Kind: "reset", When: "after"}},
		{"400 after accept", evolutionsim.Fault{
			Kind: "answer", When: "after", Status: 400, ContentType: "application/json",
			Body: `{"status":400,"error":"Bad Request","response":{"message":["Error: Connection Closed"]}}`,
		}},
		{"504 after accept", evolutionsim.Fault{Kind: "answer", When: "after", Status: 504, Body: "<html>504</html>", ContentType: "text/html"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, hasty)
			c.fault.Times, c.fault.TextContains = 1, "uncertain"
			r.fault(c.fault)
			id := r.send("uncertain " + c.name)
			r.awaitStatus(id, "READ")
			timeline := r.timeline(id)
			if count(timeline, "dispatch.unknown") != 1 || count(timeline, "dispatch.proved") != 1 || count(timeline, "dispatch.started") != 1 {
				t.Errorf("timeline %v", timeline)
			}
			if n := r.ledger("uncertain"); n != 1 {
				t.Errorf("ledger %d", n)
			}
		})
	}
}

// What left no trace at the gateway ends presumed, after deliverUntil and the wait, without a second call.
func TestUnknownWithoutProofEndsPresumed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault evolutionsim.Fault
		left  int
	}{
		{"hang before accept", evolutionsim.Fault{Kind: "hang", When: "before"}, 0},
		{"400 after accept, no row", evolutionsim.Fault{Kind: "unsaved"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, hasty)
			r.awaitStatus(r.send("awake"), "READ") // a window is short for a Pilot that just starts
			c.fault.Times, c.fault.TextContains = 1, "traceless"
			r.fault(c.fault)
			id := r.send("traceless "+c.name, within(8*time.Second))
			m := r.awaitStatus(id, "FAILED")
			if m["errorCode"] != "DELIVERY_TIMEOUT" {
				t.Errorf("message %v", m)
			}
			r.awaitHook(id, "message.failed")
			timeline := r.timeline(id)
			if count(timeline, "dispatch.started") != 1 || count(timeline, "dispatch.unknown") != 1 || count(timeline, "dispatch.closed") != 1 || r.ledger("traceless") != c.left {
				t.Errorf("timeline %v, ledger %d", timeline, r.ledger("traceless"))
			}
		})
	}
}

// What left no trace is sent once more, once that is sure: one copy arrives, and the customer is told as if nothing had been.
func TestAbsentIsSentOnceMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, hasty, func(c *app.Config) { c.AbsentAfter, c.AbsentApart = 5*time.Second, 300*time.Millisecond })
	r.awaitStatus(r.send("before it"), "READ") // the gateway shows it: it saves
	r.fault(evolutionsim.Fault{Kind: "hang", When: "before", TextContains: "swallowed", Times: 1})
	id := r.send("swallowed")
	r.awaitStatus(id, "READ")
	timeline := r.timeline(id)
	if count(timeline, "dispatch.absent") != 1 || count(timeline, "dispatch.started") != 2 || r.ledger("swallowed") != 1 {
		t.Errorf("timeline %v, left %d times", timeline, r.ledger("swallowed"))
	}
	r.awaitHook(id, "message.read")
}
