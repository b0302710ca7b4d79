package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

func TestR1OnlyOneOfManyAppendersMovesTheGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1") // does not count for the fence
	var mu sync.Mutex
	var won []string
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			id := fmt.Sprintf("s%d", i)
			_, err := w.log.AppendFenced(t.Context(), part, instance, started(id, id), 0)
			refused, ok := errors.AsType[*eventlog.Refused](err)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, id)
			case !ok || refused.Last != 2 || !errors.Is(err, &events.Error{Code: events.CodeFenced}):
				t.Errorf("error = %v", err)
			}
		})
	}
	wg.Wait()
	rec, err := w.log.LastBySubject(t.Context(), events.EventsStream(part), events.DispatchFilter(part, instance))
	if err != nil || len(won) != 1 || rec.ID != won[0] || rec.Prev != 0 {
		t.Fatalf("won = %v, stored = %+v, %v", won, rec, err)
	}
	seq, err := w.log.AppendFenced(t.Context(), part, instance, closed("c1"), 2)
	if err != nil || seq != 3 {
		t.Fatalf("next append: %d, %v", seq, err)
	}
	rec, err = w.log.Get(t.Context(), events.EventsStream(part), 3)
	if err != nil || rec.Prev != 2 {
		t.Errorf("prev = %d, %v", rec.Prev, err)
	}
	s2 := started("s99", "n")
	if _, err := w.log.AppendFenced(t.Context(), part, "inst-2", s2, 0); err == nil {
		t.Error("an event of another instance was taken")
	}
}

// land stores a fenced event the way an append whose acknowledgement was lost did.
func (w *world) land(t *testing.T, ev events.Event, expected uint64) uint64 {
	t.Helper()
	ev.Prev = expected
	wire, err := events.Standard.Encode(ev)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.Subject, Header: wire.Header, Data: wire.Data},
		jetstream.WithExpectLastSequenceForSubject(expected, events.DispatchFilter(part, instance)))
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

func TestR2RefusedButStoredIsMine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.land(t, started("s0", "n0"), 0)
	mine := w.land(t, started("s1", "n1"), first)
	// Others appended behind it since: it is still mine.
	w.append(t, "m1")
	w.land(t, closed("c1"), mine)
	got, err := w.log.AppendFenced(t.Context(), part, instance, started("s1", "n1"), first)
	if err != nil || got != mine {
		t.Fatalf("sequence = %d, %v, want %d", got, err, mine)
	}
	if last := w.lastSeq(t); last != 4 {
		t.Errorf("last sequence = %d: it was stored again", last)
	}
}

func TestR2RefusedAndNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.land(t, started("s0", "n0"), 0)
	other := w.land(t, closed("c1"), first)
	_, err := w.log.AppendFenced(t.Context(), part, instance, started("s1", "n1"), first)
	refused, ok := errors.AsType[*eventlog.Refused](err)
	if !ok || refused.Last != other || refused.Expected != first {
		t.Fatalf("error = %v, want a refusal at %d", err, other)
	}
	wantCode(t, err, events.CodeFenced)
	// A log behind the caller refuses too, and says where it is.
	_, err = w.log.AppendFenced(t.Context(), part, instance, started("s1", "n1"), 77)
	if refused, ok = errors.AsType[*eventlog.Refused](err); !ok || refused.Last != other {
		t.Fatalf("error = %v, want a refusal at %d", err, other)
	}
}

func TestR2LostAcknowledgementIsResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := newDeaf(t, w.node)
	log := eventlog.New(jets(t, dial(t, proxy.url())), eventlog.Options{TryTimeout: 100 * time.Millisecond})
	for i := range 3 {
		proxy.mute()
		type result struct {
			seq uint64
			err error
		}
		done := make(chan result, 1)
		expected := w.lastSeq(t)
		go func() {
			id := "s" + strconv.Itoa(i)
			seq, err := log.AppendFenced(t.Context(), part, instance, started(id, id), expected)
			done <- result{seq, err}
		}()
		want := expected + 1
		eventually(t, "the event lands", func() bool { return w.lastSeq(t) == want })
		if i == 2 { // meanwhile the group moves on
			w.land(t, closed("c1"), want)
		}
		proxy.hear()
		if r := <-done; r.err != nil || r.seq != want {
			t.Fatalf("result = %+v, want %d", r, want)
		}
	}
	if got := w.lastSeq(t); got != 4 {
		t.Errorf("last sequence = %d, want 4", got)
	}
}

func TestR2GoesOnUntilTheServerIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.land(t, started("s0", "n0"), 0)
	w.node.stop()
	done := make(chan error, 1)
	go func() {
		_, err := w.log.AppendFenced(t.Context(), part, instance, closed("c1"), first)
		done <- err
	}()
	w.node.start()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	rec, err := w.log.LastBySubject(t.Context(), events.EventsStream(part), events.DispatchFilter(part, instance))
	if err != nil || rec.ID != "c1" || rec.Position.Sequence != 2 {
		t.Errorf("stored = %+v, %v", rec, err)
	}
}

func tenant(id, name string) events.Event {
	return events.Event{
		Envelope: events.Envelope{ID: id, Type: events.DefinedType(events.KindTenant), Source: "pilot/test", Time: epoch},
		Address:  events.ControlSubject(events.KindTenant, "acme"),
		Body:     &events.Defined[events.Tenant]{By: "op", Value: events.Tenant{ID: "acme", Name: name}},
	}
}

func TestControlIsOptimistic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seq, err := w.log.AppendExpecting(t.Context(), tenant("c1", "a"), 0)
	if err != nil || seq != 1 {
		t.Fatalf("first = %d, %v", seq, err)
	}
	_, err = w.log.AppendExpecting(t.Context(), tenant("c2", "b"), 0)
	wantCode(t, err, events.CodeConflict)
	if last := errorsAs(t, err).Details["last"]; last != uint64(1) {
		t.Errorf("last = %v", last)
	}
	if seq, err = w.log.AppendExpecting(t.Context(), tenant("c2", "b"), 1); err != nil || seq != 2 {
		t.Fatalf("second = %d, %v", seq, err)
	}
	// The first one asked again, its acknowledgement lost: it is in, though the entity has moved on.
	if seq, err = w.log.AppendExpecting(t.Context(), tenant("c1", "a"), 0); err != nil || seq != 1 {
		t.Errorf("repeated = %d, %v", seq, err)
	}
	rec, err := w.log.LastBySubject(t.Context(), events.StreamControl, events.ControlSubject(events.KindTenant, "acme"))
	if err != nil || rec.ID != "c2" {
		t.Errorf("last = %+v, %v", rec, err)
	}
	_, err = w.log.LastBySubject(t.Context(), events.StreamControl, events.ControlSubject(events.KindTenant, "nobody"))
	wantCode(t, err, events.CodeNotFound)
	_, err = w.log.Get(t.Context(), events.StreamControl, 99)
	wantCode(t, err, events.CodeNotFound)
	_, err = w.log.Get(t.Context(), "NONE", 1)
	wantCode(t, err, events.CodeUnavailable)
	_, err = w.log.LastSequence(t.Context(), "NONE")
	wantCode(t, err, events.CodeUnavailable)
}

// A question that gets no answer is put again; what the log says is believed at once.
func TestInsistAsksUntilTheLogAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1")
	w.node.stop()
	asked := 0
	err := eventlog.Insist(t.Context(), time.Minute, func(ctx context.Context) error {
		if asked++; asked == 2 {
			w.node.start()
		}
		_, err := w.log.LastSequence(ctx, events.EventsStream(part))
		return err
	})
	if err != nil || asked < 2 {
		t.Errorf("after %d questions: %v", asked, err)
	}
	asked = 0
	err = eventlog.Insist(t.Context(), time.Minute, func(ctx context.Context) error {
		asked++
		_, err := w.log.GetLeader(ctx, events.EventsStream(part), 99)
		return err
	})
	if wantCode(t, err, events.CodeNotFound); asked != 1 {
		t.Errorf("asked %d times for what is not there", asked)
	}
	err = eventlog.Insist(t.Context(), 300*time.Millisecond, func(context.Context) error {
		return events.Errorf(events.CodeUnavailable, "never")
	})
	wantCode(t, err, events.CodeUnavailable)
}

func errorsAs(t *testing.T, err error) *events.Error {
	t.Helper()
	coded, ok := errors.AsType[*events.Error](err)
	if !ok {
		t.Fatalf("error = %v", err)
	}
	return coded
}

// The time of the log's answer lies between question and answer, on one machine.
func TestClockIsTheServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := time.Now()
	at, err := w.log.Clock(t.Context(), events.EventsStream(part))
	if err != nil {
		t.Fatal(err)
	}
	if after := time.Now(); at.Before(before) || at.After(after) {
		t.Errorf("the log says %s between %s and %s", at, before, after)
	}
	_, err = w.log.Clock(t.Context(), "NONE")
	wantCode(t, err, events.CodeUnavailable)
}
