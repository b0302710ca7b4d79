package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/audit"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/rebuild/streamtest"
)

// The story of one message among others, with an end that names it in a body only; no Postgres is near.
func TestMessageIsToldFromTheLogAlone(t *testing.T) {
	t.Parallel()
	w := streamtest.Start(t, 2)
	wr := w.Writer(1)
	wr.Story(t, 9)
	id := wr.Queued(t)
	restored := func(upTo uint64) {
		wr.Append(t, events.Event{Envelope: events.Envelope{Type: events.TypeDispatchRestored}, Body: &events.DispatchRestored{UpTo: upTo, By: "test"}})
	}
	restored(36) // not about it
	restored(37)
	start := logtest.About(events.TypeDispatchStarted, id, 1, &events.DispatchStarted{Call: "sendText"})
	wr.Append(t, start)
	wr.Append(t, logtest.About(events.TypeDispatchUnknown, id, 1, &events.DispatchUnknown{Cause: "limit", ElapsedMS: 15000}))
	wr.Story(t, 3)
	wr.Append(t, events.Event{Envelope: events.Envelope{Type: events.TypeDispatchClosed}, Body: &events.DispatchClosed{
		Reason: events.ClosedTimeout, Code: events.FailDeliveryTimeout, Presumed: true,
		Messages: []events.ClosedMessage{{ID: wr.ID(1), QueuedSeq: 1}, {ID: id, QueuedSeq: 37}},
	}})
	wr.Append(t, logtest.About(events.TypeReceiptSent, id, 0, &events.Receipt{GatewayStatus: "SERVER_ACK", At: logtest.Start}))
	restored(50) // it was over
	wr.Flush(t)

	s, err := audit.Message(t.Context(), w.Log, id)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range s.Events {
		got = append(got, fmt.Sprintf("%s %s %d %s %s %d", e.Position, e.Event, e.Attempt, e.Stage, e.Status, e.Attempts))
	}
	want := []string{
		"1:37 message.queued 0 QUEUED QUEUED 0",
		"1:39 dispatch.restored 0 QUEUED QUEUED 0",
		"1:40 dispatch.started 1 SENDING QUEUED 1",
		"1:41 dispatch.unknown 1 UNCONFIRMED QUEUED 1",
		"1:54 dispatch.closed 0 FAILED FAILED 1",
		"1:55 receipt.sent 0 SENT SENT 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("story:\n%s", diff)
	}
	if s.Stage != events.StageSent || s.Instance != streamtest.Instance || s.Tenant != "acme" || s.Head != 56 || s.Partition != 1 {
		t.Errorf("story = %+v", s)
	}
	if sum := s.Events[4].Summary; !strings.Contains(sum, "code=DELIVERY_TIMEOUT") || !strings.Contains(sum, "presumed=true") {
		t.Errorf("summary of the end: %q", sum)
	}
	if sum := s.Events[1].Summary; sum != "upTo=37 by=test" {
		t.Errorf("summary of the restore: %q", sum)
	}
	for id, code := range map[string]events.Code{wr.ID(999): events.CodeNotFound, "msg_1": events.CodeValidation, "cor_1": events.CodeValidation} {
		if _, err := audit.Message(t.Context(), w.Log, id); events.CodeOf(err) != code {
			t.Errorf("%s: %v, want code %s", id, err, code)
		}
	}
}
