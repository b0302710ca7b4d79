package dispatcher

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
)

// Identical texts to one recipient: fewer rows than unknown attempts prove none of them, and nothing is sent again.
func TestIdenticalTextsWithFewerRowsProveNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "hang", When: "after", TextContains: "same", Times: 1})
	set := quick()
	set.CallLimit = 300 * time.Millisecond
	set.Budget = 200 * time.Millisecond
	set.LookUps = []time.Duration{3 * time.Second} // both are unknown by then
	set.Rules.Quiet = time.Millisecond
	r.run(set)
	one := r.accept(order{text: "same text", window: 6 * time.Second})
	r.awaitUnknown(one)
	r.fault(evolutionsim.Fault{Kind: "hang", When: "before", TextContains: "same", Times: 1})
	two := r.accept(order{text: "same text", window: 6 * time.Second})
	for _, id := range []string{one, two} {
		v := r.awaitStage(id, events.StageFailed)
		if !v.Presumed || r.count(id, events.TypeDispatchProved) != 0 || r.called(id) != 1 {
			t.Fatalf("view %+v\n%s", v, r.story(id))
		}
	}
	if n := r.ledger("same text"); n != 1 {
		t.Fatalf("ledger %d", n)
	}
}

func TestForeignJIDIsAnAnomaly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "misroute", JID: "5519988887777@s.whatsapp.net", TextContains: "astray", Times: 1})
	r.run(quick())
	id := r.accept(order{text: "astray"})
	r.awaitStage(id, events.StageDispatched)
	eventually(t, "anomaly", func() bool { return r.count(id, events.TypeEvidenceAnomaly) == 1 }, func() string { return r.story(id) })
}

// Fault catalogue G3: waiting for a limit is not an attempt, and Retry-After is honoured.
func TestG3RateLimitIsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 429, Body: `{}`, ContentType: "application/json", Headers: map[string]string{"Retry-After": "1"},
		TextContains: "limited", Times: 2,
	})
	set := quick()
	set.Rules.Attempts = map[events.Category]int{events.OTP: 1}
	r.run(set)
	began := time.Now()
	v := r.awaitStage(r.accept(order{text: "limited"}), events.StageDispatched)
	if waited := time.Since(began); waited < 2*time.Second || v.Attempts != 3 {
		t.Fatalf("waited %s, view %+v", waited, v)
	}
}

// C1 12: a base URL that leads elsewhere parks the gateway, not one message after the other.
func TestC1WrongBaseURLParksTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 404, Body: "<!DOCTYPE html><pre>Cannot POST /manager/message/sendText/acme</pre>", ContentType: "text/html", Times: 1,
	})
	d, _ := r.run(quick())
	var ids []string
	for range 5 {
		ids = append(ids, r.accept(order{text: "wrong base"}))
	}
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
	}
	deferred := 0
	for _, id := range ids {
		deferred += r.count(id, events.TypeDispatchDeferred)
	}
	if deferred != 1 || d.outages.count() != 0 {
		t.Fatalf("%d deferred, %d gateways parked", deferred, d.outages.count())
	}
}

// flakyKeys cannot open payloads while broken.
type flakyKeys struct {
	plainKeys
	mu     sync.Mutex
	broken bool
	asked  int
}

func (k *flakyKeys) OpenPayload(ctx context.Context, tenant, id string, s events.Sealed) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.broken {
		return nil, errors.New("data key is missing")
	}
	return k.plainKeys.OpenPayload(ctx, tenant, id, s)
}

// A missing key parks a message, it does not fail it; at its deadline it expires like any other.
func TestMissingKeyParksTheMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keys := &flakyKeys{broken: true}
	r.keys = keys
	r.run(quick())
	id := r.accept(order{text: "sealed away", window: time.Second})
	v := r.awaitStage(id, events.StageFailed)
	if v.ErrorCode != events.FailExpired || v.Attempts != 0 || keys.asked != 1 {
		t.Fatalf("view %+v, asked %d times", v, keys.asked)
	}
}

// Queues are disposable: lane consumers that vanish change nothing but speed.
func TestR3DeletedLanesLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(quick())
	const n = 60
	var ids []string
	for i := range n {
		ids = append(ids, r.accept(order{text: "lane", class: events.ClassUtility}))
		if i%10 == 5 {
			r.deleteLanes()
		}
	}
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
	}
	if got := r.ledger("lane"); got != n {
		t.Fatalf("ledger %d", got)
	}
}

func (r *rig) deleteLanes() {
	r.t.Helper()
	names := r.js.StreamNames(r.t.Context())
	for name := range names.Name() {
		if name != events.EventsStream(r.p) {
			continue
		}
		s, err := r.js.Stream(r.t.Context(), name)
		if err != nil {
			r.t.Fatal(err)
		}
		list := s.ConsumerNames(r.t.Context())
		for c := range list.Name() {
			if len(c) > 5 && c[:5] == "lane_" {
				_ = s.DeleteConsumer(r.t.Context(), c) // it may have gone by itself
			}
		}
	}
}

// A mass of messages with one deadline ends within seconds, in few appends.
func TestManyMessagesWithOneDeadlineEndInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	const n = 1200
	var last string
	for range n {
		last = r.accept(order{text: "mass", window: 3 * time.Second})
	}
	r.run(quick())
	v := r.awaitStage(last, events.StageFailed)
	closed, appends := 0, 0
	var latest time.Duration
	for _, rec := range r.history() {
		if b, ok := rec.Body.(*events.DispatchClosed); ok {
			closed += len(b.Messages)
			appends++
		}
		if rec.Subject == last && rec.Type == events.TypeMessageQueued {
			latest = v.FailedAt.Sub(rec.DeliverUntil)
		}
	}
	if closed != n || latest > 5*time.Second {
		t.Fatalf("%d ended in %d appends, the last %s after its deadline", closed, appends, latest)
	}
}

func TestReceiptOrderDoesNotTouchDispatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(quick())
	id := r.accept(order{text: "with receipt"})
	r.awaitStage(id, events.StageDispatched)
	s, _ := r.state(id)
	_, err := r.log.Append(t.Context(), events.Event{
		Address: events.EventSubject(r.p, instanceID, events.GroupReceipt, "read"),
		Envelope: events.Envelope{
			ID: id + ".read", Type: events.TypeReceiptRead, Source: "pilot/test", Time: time.Now().UTC(), Subject: id,
			TenantID: tenant, QueuedSeq: s.Queued.Position.Sequence,
		},
		Body: &events.Receipt{GatewayStatus: "READ"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.await(id, "READ", func(v message.View) bool { return v.Status() == events.StatusRead })
	r.awaitStage(r.accept(order{text: "the next one"}), events.StageDispatched)
}
