package idempotency_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/idempotency"
)

var at = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func queued() events.Event {
	id := "msg_019adfb4c2007a4c8f3e5b6d7e8f9002"
	return events.Event{
		Envelope: events.Envelope{
			ID: id, Type: events.TypeMessageQueued, Source: "pilot/api", Time: at, Subject: id, TenantID: "acme",
			DeliverAt: at.Add(time.Hour), DeliverUntil: at.Add(2 * time.Hour), TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		Address: events.QueuedSubject(2, events.Lane{Instance: "own", Class: events.ClassOTP, Tenant: "acme", Slot: 3}),
		Body: &events.MessageQueued{
			Project: "shop", Environment: events.Live, KeyID: "key-a", Category: events.OTP, Origin: "A & <B>", CorrelationID: "cor_1",
			RecipientHash: "abc", Labels: []string{"vip"}, Sealed: events.Sealed{KeyID: "k", Blob: []byte{0, 255, 7}},
		},
	}
}

// The event comes out of the stored claim as it went in: what is appended again is the very same.
func TestRebuildGivesTheSameEvent(t *testing.T) {
	t.Parallel()
	e := queued()
	claim, err := idempotency.New("f", "own", e, json.RawMessage(`{"id":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(claim)
	if err != nil {
		t.Fatal(err)
	}
	var read idempotency.Claim
	if err := json.Unmarshal(stored, &read); err != nil {
		t.Fatal(err)
	}
	again, err := read.Rebuild()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, again); diff != "" {
		t.Error(diff)
	}
	first, err := events.Standard.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	second, err := events.Standard.Encode(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("on the wire: %s", diff)
	}
	if read.MessageID != e.ID || read.Instance != "own" || !read.QueuedAt.Equal(at) || !read.Pending() || read.Done().Pending() {
		t.Errorf("claim %+v", read)
	}
}

func TestRebuildRefuses(t *testing.T) {
	t.Parallel()
	claim, err := idempotency.New("f", "own", queued(), nil)
	if err != nil {
		t.Fatal(err)
	}
	broken := func(change func(*idempotency.Claim)) idempotency.Claim {
		c := claim
		e := *claim.Event
		c.Event = &e
		change(&c)
		return c
	}
	for name, c := range map[string]idempotency.Claim{
		"done":            claim.Done(),
		"another message": broken(func(c *idempotency.Claim) { c.MessageID = "msg_x" }),
		"no body":         broken(func(c *idempotency.Claim) { c.Event.Data = json.RawMessage(`[]`) }),
		"newer type": broken(func(c *idempotency.Claim) {
			h := map[string][]string{}
			for k, v := range c.Event.Header {
				h[k] = v
			}
			h[events.HeaderType] = []string{"message.queued.v99"}
			c.Event.Header = h
		}),
	} {
		if _, err := c.Rebuild(); events.CodeOf(err) != events.CodeMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := idempotency.New("f", "own", events.Event{}, nil); events.CodeOf(err) != events.CodeMalformed {
		t.Errorf("an event that does not encode: %v", err)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	pending, err := idempotency.New("f", "own", queued(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		claim       idempotency.Claim
		fingerprint string
		age         time.Duration
		want        idempotency.Verdict
	}{
		{pending.Done(), "f", 0, idempotency.Replay},
		{pending.Done(), "f", 6 * 24 * time.Hour, idempotency.Replay},
		{pending.Done(), "g", 0, idempotency.Reused},
		{pending, "g", 0, idempotency.Reused},
		{pending, "f", -time.Second, idempotency.InFlight}, // a clock that lags
		{pending, "f", 9999 * time.Millisecond, idempotency.InFlight},
		{pending, "f", 10 * time.Second, idempotency.Reappend},
		{pending, "f", 9*time.Minute - 1, idempotency.Reappend},
		{pending, "f", 9 * time.Minute, idempotency.ReadBack},
		{pending, "f", 24 * time.Hour, idempotency.ReadBack},
	} {
		if got := c.claim.Judge(c.fingerprint, at.Add(c.age), idempotency.DefaultRules()); got != c.want {
			t.Errorf("pending %v, fingerprint %s, age %s: %s, want %s", c.claim.Pending(), c.fingerprint, c.age, got, c.want)
		}
	}
}
