package notifier

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
)

// replay appends what an operator's replay of a recorded try appends.
func (r *rig) replay(webhookID, nonce string, try events.HookAttempt) {
	r.t.Helper()
	body := *try.Delivery
	body.Attempt = try.Attempt
	body.Replay = &events.HookReplay{Nonce: nonce, After: try.Attempt, By: "operator:ana", Reason: "ticket 7", At: time.Now().UTC()}
	if _, err := r.log.Append(r.ctx(), events.Event{
		Envelope: events.Envelope{
			ID: webhookID, Type: events.TypeHookDelivery, Source: "pilot/test", Time: time.Now(), Subject: body.MessageID, TenantID: tenant,
			QueuedSeq: body.Queued.Sequence,
		},
		Address: events.HookSubject(body.Endpoint), DedupID: body.TryID(webhookID, try.Attempt), Body: &body,
	}); err != nil {
		r.t.Fatal(err)
	}
}

// recordedIDs lists the ids of the entries of HOOKLOG about an endpoint, once there are n.
func (r *rig) recordedIDs(endpoint string, n int) (ids []string) {
	r.t.Helper()
	end := errors.New("end")
	err := r.log.Tail(r.ctx(), eventlog.TailConfig{Stream: events.StreamHookLog, Filters: []string{events.HookLogSubject(endpoint, "*")}}, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			ids = append(ids, rec.ID)
		}
		if len(ids) >= n {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		r.t.Fatal(err)
	}
	return ids
}

// An operator's replay is a try of its own under the same webhook-id, and so is a second one.
func TestCase67ReplayIsATryOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", func(n int, w http.ResponseWriter) {
		if n != 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{Waits: []time.Duration{}, DisableAfter: -1})
	r.tell("msg_1", 30)
	first := rc.next(t)
	_, tries := r.attempts("ep1", 1)
	r.replay(first.ID, "r1", tries[0])
	second := rc.next(t)
	r.recordedIDs("ep1", 2) // tries of two replays are recorded in any order
	r.replay(first.ID, "r2", tries[0])
	third := rc.next(t)
	r.replay(first.ID, "r2", tries[0]) // the same replay once more is no other one
	if second.ID != first.ID || third.ID != first.ID || second.Body != first.Body || third.Body != first.Body {
		t.Errorf("id or body differ: %+v %+v %+v", first, second, third)
	}
	ids := r.recordedIDs("ep1", 3)
	want := []string{first.ID + ".1.exhausted", first.ID + ".r1.2.succeeded", first.ID + ".r2.2.exhausted"}
	if !slices.Equal(ids, want) {
		t.Errorf("recorded %v, want %v", ids, want)
	}
	r.tell("msg_2", 30) // behind them all
	if h := rc.next(t); h.ID == first.ID {
		t.Error("a replay that was stored twice was made twice")
	}
	_, tries = r.attempts("ep1", 4)
	if re := tries[1].Delivery.Replay; re == nil || re.By != "operator:ana" || re.Reason != "ticket 7" || tries[1].Attempt != 2 {
		t.Errorf("the try of a replay says %+v", tries[1])
	}
}

// A replay has waits of its own, as many as the event had.
func TestReplayIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", status(http.StatusBadGateway))
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{Waits: []time.Duration{time.Millisecond}, DisableAfter: -1})
	r.tell("msg_1", 30)
	id := rc.next(t).ID
	rc.next(t)
	_, tries := r.attempts("ep1", 2)
	r.replay(id, "r1", tries[1])
	rc.next(t)
	rc.next(t)
	subjects, tries := r.attempts("ep1", 4)
	if got := results(subjects); !slices.Equal(got, []string{"failed", "exhausted", "failed", "exhausted"}) || tries[3].Attempt != 4 {
		t.Errorf("recorded %v, the last as try %d", got, tries[3].Attempt)
	}
}

// What the broker brings again is no second try where the first was recorded.
func TestCase67RecordedTryIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	set := WorkerSettings{AckWait: 300 * time.Millisecond}
	recorded := make(chan struct{}, 8)
	dead := r.run(func(ctx context.Context) error { // records, and ends before it can acknowledge
		return r.log.Consume(ctx, eventlog.DurableConfig{
			Stream: events.HooksStream(events.HookShard("ep1")), Durable: EndpointDurable("ep1"), Filters: []string{events.HookSubject("ep1")},
			AckWait: set.AckWait, MaxAckPending: 4, Grace: time.Millisecond,
		}, func(ctx context.Context, d *eventlog.Delivery) {
			body := *d.Body.(*events.HookDelivery)
			_, err := r.log.Append(ctx, events.Event{
				Envelope: events.Envelope{
					ID: body.TryID(d.ID, 1) + ".succeeded", Type: events.TypeHookAttempt, Source: "pilot/test", Time: time.Now(), TenantID: tenant, Attempt: 1,
				},
				Address: events.HookLogSubject("ep1", events.HookSucceeded),
				Body:    &events.HookAttempt{Endpoint: "ep1", Event: body.Event, MessageID: body.MessageID, Attempt: 1, HTTPStatus: 200, Delivery: &body},
			})
			if err != nil {
				t.Error(err)
			}
			recorded <- struct{}{}
		})
	})
	r.tell("msg_1", 30)
	<-recorded
	dead()
	r.worker(set)
	awaittest.Eventually(t, limit, 20*time.Millisecond, "the delivery ends", func() bool {
		_, err := r.log.LastBySubject(r.ctx(), events.HooksStream(events.HookShard("ep1")), events.HookSubject("ep1"))
		return events.CodeOf(err) == events.CodeNotFound
	}, nil)
	select {
	case h := <-rc.calls:
		t.Errorf("the try was made again: %+v", h)
	default:
	}
	if ids := r.recordedIDs("ep1", 1); len(ids) != 1 {
		t.Errorf("recorded %v", ids)
	}
}

// Every try of an event has the same body: once number and content are gone, a replay of what had them is refused.
func TestReplayOfErasedContentIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rc := r.receive("ep1", nil)
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{})
	r.tell("msg_1", 30)
	id := rc.next(t).ID
	_, tries := r.attempts("ep1", 1)
	if err := r.keys.Erase(r.ctx(), tenant, "m-msg_1"); err != nil {
		t.Fatal(err)
	}
	r.replay(id, "r1", tries[0])
	subjects, tries := r.attempts("ep1", 2)
	if results(subjects)[1] != events.HookExhausted || tries[1].Reason != reasonErased || tries[1].HTTPStatus != 0 || len(rc.calls) > 0 {
		t.Errorf("recorded %v %+v, %d calls", subjects, tries[1], len(rc.calls))
	}
}

// What an endpoint answers is kept beside the content of the message, dies with it, and stands nowhere in clear.
func TestAnswerIsKeptSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answer := append([]byte("thanks \xff\x00 "), bytes.Repeat([]byte("x"), 3000)...)
	rc := r.receive("ep1", func(_ int, w http.ResponseWriter) { _, _ = w.Write(answer) })
	r.endpoint("ep1", rc.URL, nil)
	r.fanout(FanoutSettings{})
	r.worker(WorkerSettings{})
	r.tell("msg_1", 30)
	id := rc.next(t).ID
	_, tries := r.attempts("ep1", 1)
	if tries[0].Response == nil || bytes.Contains(tries[0].Response.Blob, []byte("thanks")) {
		t.Fatalf("recorded %+v", tries[0])
	}
	text, err := r.keys.Open(r.ctx(), tenant, *tries[0].Response, keyring.AAD(tenant, id, events.FieldHookResponse))
	if err != nil || !bytes.Equal(text, answer[:1024]) {
		t.Errorf("kept %q, %v", text, err)
	}
	if err := r.keys.Erase(r.ctx(), tenant, "m-msg_1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.keys.Open(r.ctx(), tenant, *tries[0].Response, keyring.AAD(tenant, id, events.FieldHookResponse)); !errors.Is(err, keyring.ErrKeyMissing) {
		t.Errorf("after the content was erased: %v", err)
	}
	queued := r.accept("msg_2", 0)
	if err := r.keys.Erase(r.ctx(), tenant, "m-msg_2"); err != nil {
		t.Fatal(err)
	}
	r.receipt("msg_2", queued, "sent", "")
	rc.next(t)
	if _, tries := r.attempts("ep1", 2); tries[1].Response != nil || tries[1].HTTPStatus != http.StatusOK {
		t.Errorf("with the key gone: %+v", tries[1])
	}
	rec, err := r.log.LastBySubject(r.ctx(), events.StreamHookLog, events.HookLogSubject("ep1", "*"))
	if err != nil || strings.Contains(rec.ID, "thanks") {
		t.Error(rec.ID, err)
	}
}
