package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

func TestAppendIsStoredWithItsHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ack, err := w.log.Append(t.Context(), queued("m1"))
	if err != nil || ack != (eventlog.Ack{Sequence: 1}) {
		t.Fatalf("ack = %+v, %v", ack, err)
	}
	rec, err := w.log.Get(t.Context(), events.EventsStream(part), 1)
	if err != nil {
		t.Fatal(err)
	}
	if rec.ID != "m1" || rec.TenantID != lane.Tenant || rec.Partial || !rec.Known || rec.Position != (events.Position{Partition: part, Sequence: 1}) {
		t.Errorf("record = %+v", rec)
	}
	if body, ok := rec.Body.(*events.MessageQueued); !ok || body.Project != "p" {
		t.Errorf("body = %+v", rec.Body)
	}
	leader, err := w.log.GetLeader(t.Context(), events.EventsStream(part), 1)
	if err != nil || leader.ID != rec.ID || !leader.Stored.Equal(rec.Stored) || leader.Stored.IsZero() {
		t.Errorf("leader = %+v, %v", leader, err)
	}
}

func TestAppendTwiceIsADuplicateAndTakesNoSequence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1", "m2")
	ack, err := w.log.Append(t.Context(), queued("m1"))
	if err != nil || ack != (eventlog.Ack{Sequence: 1, Duplicate: true}) {
		t.Fatalf("ack = %+v, %v", ack, err)
	}
	if _, err := w.log.AppendFenced(t.Context(), part, instance, started("s1", "n1"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.log.AppendFenced(t.Context(), part, instance, started("s2", "n2"), 0); err == nil {
		t.Fatal("a stale append was taken")
	}
	w.append(t, "m3")
	if got := w.lastSeq(t); got != 4 {
		t.Errorf("last sequence = %d, want 4: refused and duplicate publishes must take none", got)
	}
	s, err := w.js.Stream(t.Context(), events.EventsStream(part))
	if err != nil {
		t.Fatal(err)
	}
	if state := s.CachedInfo().State; state.NumDeleted != 0 || state.Msgs != 4 {
		t.Errorf("state = %+v, want no hole", state)
	}
}

func TestAppendResolvesALostAcknowledgement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := newDeaf(t, w.node)
	nc := dial(t, proxy.url())
	log := eventlog.New(jets(t, nc), eventlog.Options{TryTimeout: 100 * time.Millisecond})
	if _, err := log.Append(t.Context(), queued("m1")); err != nil {
		t.Fatal(err)
	}
	proxy.mute()
	type result struct {
		ack eventlog.Ack
		err error
	}
	done := make(chan result, 1)
	go func() {
		ack, err := log.Append(t.Context(), queued("m2"))
		done <- result{ack, err}
	}()
	eventually(t, "the event lands", func() bool { return w.lastSeq(t) == 2 })
	select {
	case r := <-done:
		t.Fatalf("append ended without an answer: %+v", r)
	default:
	}
	proxy.hear()
	if r := <-done; r.err != nil || r.ack != (eventlog.Ack{Sequence: 2, Duplicate: true}) {
		t.Errorf("result = %+v", r)
	}
	if got := w.lastSeq(t); got != 2 {
		t.Errorf("last sequence = %d, want 2", got)
	}
}

func TestAppendIsUnavailableAtItsDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node.stop()
	begun := time.Now()
	_, err := w.log.Append(within(t, 200*time.Millisecond), queued("m1"))
	wantCode(t, err, events.CodeUnavailable)
	if took := time.Since(begun); took < 150*time.Millisecond || took > 15*time.Second { // without a deadline it tries for 20 s
		t.Errorf("gave up after %s", took)
	}
	limited := eventlog.New(w.js, eventlog.Options{AppendLimit: 50 * time.Millisecond})
	_, err = limited.Append(t.Context(), queued("m1"))
	wantCode(t, err, events.CodeUnavailable)
	_, err = w.log.AppendFenced(within(t, 200*time.Millisecond), part, instance, started("s1", "n1"), 0)
	wantCode(t, err, events.CodeUnavailable)
	w.node.start()
}

func TestAppendOfWhatTheLogCannotTake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	big := queued("m1")
	big.Body = &events.MessageQueued{Sealed: events.Sealed{Blob: bytes.Repeat([]byte{1}, 300<<10)}}
	_, err := w.log.Append(t.Context(), big)
	wantCode(t, err, events.CodeTooLarge)
	big.Body = &events.MessageQueued{Sealed: events.Sealed{Blob: bytes.Repeat([]byte{1}, 1<<20)}}
	_, err = w.log.Append(t.Context(), big)
	wantCode(t, err, events.CodeTooLarge)
	_, err = w.log.Append(t.Context(), started("s1", "n1"))
	wantCode(t, err, events.CodeMalformed)
	bad := queued("m1")
	bad.Body = &events.DispatchStarted{}
	_, err = w.log.Append(t.Context(), bad)
	wantCode(t, err, events.CodeMalformed)
	if got := w.lastSeq(t); got != 0 {
		t.Errorf("last sequence = %d", got)
	}
	lost := eventlog.New(w.js, fast)
	w.nc.Close()
	_, err = lost.Append(t.Context(), queued("m1"))
	wantCode(t, err, events.CodeUnavailable)
}

func delivery(id, endpoint string, try int) events.Event {
	return events.Event{
		Envelope: events.Envelope{ID: id, Type: events.TypeHookDelivery, Source: "pilot/test", Time: epoch},
		Address:  events.HookSubject(endpoint), DedupID: id + "." + string(rune('0'+try)),
		Body: &events.HookDelivery{Endpoint: endpoint, Attempt: try},
	}
}

// endpointOfShard0 is an endpoint whose deliveries the world has a stream for.
func endpointOfShard0() string {
	for i := 'a'; ; i++ {
		if e := "ep-" + string(i); events.HookShard(e) == 0 {
			return e
		}
	}
}

func TestScheduleFiresOnceInTimeWithoutItsHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	endpoint := endpointOfShard0()
	at := time.Now().Add(700 * time.Millisecond)
	subject := events.HookScheduleSubject(endpoint, "d1")
	for range 2 { // the same try twice is one
		if _, err := w.log.Schedule(t.Context(), delivery("d1", endpoint, 1), subject, at); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan *eventlog.Delivery, 10)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.log.Consume(ctx, eventlog.DurableConfig{Stream: events.HooksStream(0), Durable: "hooks", Filters: []string{events.HookSubject(endpoint)}},
			func(ctx context.Context, d *eventlog.Delivery) {
				if err := d.Ack(ctx); err != nil {
					t.Error(err)
				}
				got <- d
			})
	}()
	d := <-got
	if now := time.Now(); now.Before(at) || now.After(at.Add(10*time.Second)) {
		t.Errorf("fired %s after its time", now.Sub(at))
	}
	if body, ok := d.Body.(*events.HookDelivery); !ok || body.Attempt != 1 || d.ID != "d1" || d.Address != events.HookSubject(endpoint) {
		t.Errorf("delivery = %+v", d.Recorded)
	}
	for name := range d.Wire().Header {
		if strings.HasPrefix(name, "Nats-Schedule") && name != "Nats-Scheduler" && name != "Nats-Schedule-Next" || name == nats.MsgIdHdr {
			t.Errorf("header %s is left over", name)
		}
	}
	if _, err := w.js.Stream(t.Context(), events.HooksStream(0)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the schedule is gone", func() bool {
		s, err := w.js.Stream(t.Context(), events.HooksStream(0))
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("consume ended with %v", err)
	}
	if len(got) != 0 {
		t.Error("it fired twice")
	}
}
