package eventlog_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// patient is an AckWait longer than a machine stands still: nobody is taken for gone who is not.
const patient = 4 * time.Second

func TestC3ADurableThatIsBroughtNothingIsReadAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, c := w.tapped(t)
	w.append(t, ids(1, 5)...)
	cfg := eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test", Concurrency: 2, Ahead: 16, AckWait: patient}
	k := w.consume(t, cfg, ack(t))
	eventually(t, "the first ones", func() bool { return len(k.sequences()) == 5 })
	made := w.created(t, cfg.Stream, cfg.Durable)
	lost := p.silence()
	w.append(t, ids(6, 8)...)
	eventually(t, "events are lost on their way", func() bool { return lost() >= 3 })
	eventually(t, "all", func() bool { return len(k.sequences()) == 8 })
	k.end(t)
	got := k.sequences()
	slices.Sort(got)
	if !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("sequences = %v", got)
	}
	if n := c.of(cfg.Stream); n != 1 {
		t.Errorf("cut %d times, want once", n)
	}
	if !made.Equal(w.created(t, cfg.Stream, cfg.Durable)) {
		t.Error("the consumer was made anew, and others that share it were disturbed")
	}
}

func (w *world) created(t *testing.T, stream, durable string) time.Time {
	t.Helper()
	c, err := w.js.Consumer(t.Context(), stream, durable)
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo().Created
}

// Others hold all that may be delivered, and never say a word of it.
func TestC3ADurableFullOfWhatNobodyAcknowledgesIsMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, c := w.tapped(t)
	w.append(t, ids(1, 5)...)
	stream := events.EventsStream(part)
	cfg := eventlog.DurableConfig{Stream: stream, Durable: "test", Concurrency: 2, AckWait: 500 * time.Millisecond, MaxAckPending: 3}
	k := w.consume(t, cfg, ack(t))
	eventually(t, "the first ones", func() bool {
		c, err := w.js.Consumer(t.Context(), stream, cfg.Durable)
		return err == nil && c.CachedInfo().AckFloor.Stream == 5
	})
	made := w.created(t, stream, cfg.Durable)
	k.end(t)

	other, err := w.js.Consumer(t.Context(), stream, cfg.Durable)
	if err != nil {
		t.Fatal(err)
	}
	w.append(t, ids(6, 10)...)
	batch, err := other.Fetch(3)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() { // so the server waits on, as one does that has forgotten to deliver again
		if err := m.NakWithDelay(time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	k = w.consume(t, cfg, ack(t))
	rest := func() []uint64 { return slices.Compact(slices.Sorted(slices.Values(k.sequences()))) } // of a slow handler some come twice
	eventually(t, "the rest", func() bool { return len(rest()) >= 5 })
	k.end(t)
	if got := rest(); !slices.Equal(got, []uint64{6, 7, 8, 9, 10}) {
		t.Errorf("sequences = %v, want what was not acknowledged and no more", got)
	}
	if c.of(stream) < 2 || made.Equal(w.created(t, stream, cfg.Durable)) {
		t.Errorf("cut %d times, made anew: %v", c.of(stream), !made.Equal(w.created(t, stream, cfg.Durable)))
	}
}

func TestC3ADurableAtRestOrAtWorkIsNotCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, c := w.tapped(t)
	stream := events.EventsStream(part)
	idle := w.consume(t, eventlog.DurableConfig{Stream: stream, Durable: "idle", Filters: []string{events.GroupFilter(part, events.GroupInstance)}}, ack(t))
	release := make(chan struct{})
	busy := w.consume(t, eventlog.DurableConfig{Stream: stream, Durable: "busy", Concurrency: 2, AckWait: 20 * time.Second}, func(ctx context.Context, d *eventlog.Delivery) {
		if d.Position.Sequence == 1 {
			<-release
		}
		ack(t)(ctx, d)
	})
	shared := eventlog.DurableConfig{Stream: stream, Durable: "shared", AckWait: patient, MaxAckPending: 1}
	hold := w.consume(t, shared, func(ctx context.Context, d *eventlog.Delivery) {
		tick := time.NewTicker(hasty / 6)
		defer tick.Stop()
		for {
			select {
			case <-release:
				ack(t)(ctx, d)
				return
			case <-tick.C:
				if err := d.InProgress(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	w.append(t, ids(1, 4)...)
	eventually(t, "all but what is held", func() bool { return len(busy.sequences()) == 4 && len(hold.sequences()) == 1 })
	// It shares the durable, and all that it may have is at work elsewhere, for longer than AckWait.
	beside := w.consume(t, shared, ack(t))
	after := time.Now().Add(2 * patient)
	eventually(t, "some intervals", func() bool { return time.Now().After(after) })
	if n := c.of(stream); n != 0 {
		t.Errorf("cut %d times", n)
	}
	if got := beside.sequences(); len(got) > 0 {
		t.Errorf("it was given %v, at which another process works", got)
	}
	close(release)
	for _, k := range []*worker{idle, busy, hold, beside} {
		k.end(t)
	}
}

// A work queue keeps what its consumer has passed over; the many consumers of one exact filter each are looked after together.
func TestC3AWorkQueueWhoseConsumerBringsNothingIsReadAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, c := w.tapped(t)
	stream, endpoint := events.HooksStream(0), endpointOfShard0()
	cfg := eventlog.DurableConfig{
		Stream: stream, Durable: "hooks", Filters: []string{events.HookSubject(endpoint)}, Among: events.HooksFilters(0)[0],
		Concurrency: 2, Ahead: 16, AckWait: patient,
	}
	k := w.consume(t, cfg, ack(t))
	put := func(id string) {
		t.Helper()
		if _, err := w.log.Append(t.Context(), delivery(id, endpoint, 1)); err != nil {
			t.Fatal(err)
		}
	}
	put("d1")
	eventually(t, "the first one", func() bool { return len(k.sequences()) == 1 })
	lost := p.silence()
	put("d2")
	eventually(t, "it is lost on its way", func() bool { return lost() >= 1 })
	eventually(t, "it comes again", func() bool { return len(k.sequences()) == 2 })
	k.end(t)
	if n := c.of(stream); n != 1 {
		t.Errorf("cut %d times, want once", n)
	}
}

// After a power cut a consumer's place may lie behind the end of a stream that has lost its last events: new ones take their
// sequences, and would be passed over.
func TestC3ADurableAheadOfItsStreamIsMadeAnew(t *testing.T) {
	t.Parallel()
	stream := events.EventsStream(part)
	t.Run("found so", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		if _, err := w.js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{
			Durable: "test", AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 1000,
		}); err != nil {
			t.Fatal(err)
		}
		w.append(t, ids(1, 3)...)
		k := w.consume(t, eventlog.DurableConfig{Stream: stream, Durable: "test"}, ack(t))
		eventually(t, "what stands there", func() bool { return slices.Equal(k.sequences(), []uint64{1, 2, 3}) })
		w.append(t, "m4")
		eventually(t, "what comes", func() bool { return slices.Equal(k.sequences(), []uint64{1, 2, 3, 4}) })
		k.end(t)
	})
	t.Run("while it is read", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, c := w.tapped(t)
		w.append(t, ids(1, 3)...)
		k := w.consume(t, eventlog.DurableConfig{Stream: stream, Durable: "test"}, ack(t))
		eventually(t, "the first ones", func() bool { return len(k.sequences()) == 3 })
		if _, err := w.js.ResetConsumerToSequence(t.Context(), stream, "test", 1000); err != nil {
			t.Fatal(err)
		}
		w.append(t, "m4")
		eventually(t, "what comes", func() bool { return slices.Contains(k.sequences(), 4) })
		k.end(t)
		if got := k.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 4}) || c.of(stream) != 1 {
			t.Errorf("sequences = %v after %d cuts", got, c.of(stream))
		}
	})
}

// What a work queue still holds and its consumer takes for done would wait for ever.
func TestC3AWorkQueueKeepsNothingThatItsConsumerPassedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, c := w.tapped(t)
	stream, endpoint := events.HooksStream(0), endpointOfShard0()
	put := func(id string) {
		t.Helper()
		if _, err := w.log.Append(t.Context(), delivery(id, endpoint, 1)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := eventlog.DurableConfig{Stream: stream, Durable: "hooks", Filters: []string{events.HookSubject(endpoint)}, Among: events.HooksFilters(0)[0]}
	k := w.consume(t, cfg, ack(t))
	put("d1")
	eventually(t, "the first one", func() bool { return len(k.sequences()) == 1 })
	if _, err := w.js.ResetConsumerToSequence(t.Context(), stream, cfg.Durable, 4); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"d2", "d3", "d4"} {
		put(id)
	}
	eventually(t, "those that it passed over", func() bool {
		got := k.sequences()
		return slices.Contains(got, 2) && slices.Contains(got, 3) && slices.Contains(got, 4)
	})
	k.end(t)
	if c.of(stream) == 0 {
		t.Error("nobody noticed")
	}
}
