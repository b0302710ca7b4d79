package eventlog_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// worker runs a durable consumer and keeps what it was given.
type worker struct {
	stop context.CancelFunc
	done chan error

	mu  sync.Mutex
	got []uint64
}

func (w *world) consume(t *testing.T, cfg eventlog.DurableConfig, handle func(context.Context, *eventlog.Delivery)) *worker {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	k := &worker{stop: cancel, done: make(chan error, 1)}
	if cfg.Stream == "" {
		cfg.Stream, cfg.Durable = events.EventsStream(part), "test"
	}
	go func() {
		k.done <- w.log.Consume(ctx, cfg, func(ctx context.Context, d *eventlog.Delivery) {
			k.mu.Lock()
			k.got = append(k.got, d.Position.Sequence)
			k.mu.Unlock()
			handle(ctx, d)
		})
	}()
	t.Cleanup(cancel)
	return k
}

func (k *worker) sequences() []uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.got)
}

func (k *worker) end(t *testing.T) {
	t.Helper()
	k.stop()
	if err := <-k.done; !errors.Is(err, context.Canceled) {
		t.Errorf("consume ended with %v", err)
	}
}

func ack(t *testing.T) func(context.Context, *eventlog.Delivery) {
	return func(ctx context.Context, d *eventlog.Delivery) {
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestConsumeRedeliversUntilTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 4)...)
	var mu sync.Mutex
	attempts := map[uint64][]int{}
	k := w.consume(t, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test", AckWait: 500 * time.Millisecond, Concurrency: 4}, func(ctx context.Context, d *eventlog.Delivery) {
		mu.Lock()
		attempts[d.Position.Sequence] = append(attempts[d.Position.Sequence], d.Attempt)
		mu.Unlock()
		var err error
		switch {
		case d.Attempt > 1 || d.Position.Sequence == 1:
			err = d.Ack(ctx)
		case d.Position.Sequence == 2:
			err = d.Nak(50 * time.Millisecond)
		case d.Position.Sequence == 3:
			err = d.Term("no use")
		default: // left open: comes again after AckWait
			err = d.InProgress()
		}
		if err != nil {
			t.Error(err)
		}
	})
	eventually(t, "all are settled", func() bool {
		c, err := w.js.Consumer(t.Context(), events.EventsStream(part), "test")
		return err == nil && c.CachedInfo().AckFloor.Stream == 4
	})
	k.end(t)
	for seq, want := range map[uint64][]int{1: {1}, 2: {1, 2}, 3: {1}, 4: {1, 2}} {
		if !slices.Equal(attempts[seq], want) {
			t.Errorf("attempts of %d = %v, want %v", seq, attempts[seq], want)
		}
	}
	w.append(t, "m5")
	again := w.consume(t, eventlog.DurableConfig{}, ack(t))
	eventually(t, "the durable goes on", func() bool { return len(again.sequences()) > 0 })
	again.end(t)
	if got := again.sequences(); !slices.Equal(got, []uint64{5}) {
		t.Errorf("sequences = %v, want only the new one", got)
	}
}

func TestConsumeMakesADeletedConsumerAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 10)...)
	hold := make(chan struct{})
	var stuck atomic.Bool
	k := w.consume(t, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test", Concurrency: 2, AckWait: time.Minute}, func(ctx context.Context, d *eventlog.Delivery) {
		if d.Position.Sequence == 8 && !stuck.Swap(true) {
			<-hold // not settled when the consumer goes
			return
		}
		ack(t)(ctx, d)
	})
	eventually(t, "all but one", func() bool { return len(k.sequences()) == 10 })
	if err := w.js.DeleteConsumer(t.Context(), events.EventsStream(part), "test"); err != nil {
		t.Fatal(err)
	}
	close(hold)
	w.append(t, "m11")
	eventually(t, "the rest", func() bool { return slices.Contains(k.sequences(), 11) })
	k.end(t)
	got := k.sequences()[10:]
	slices.Sort(got)
	if !slices.Equal(got, []uint64{8, 9, 10, 11}) {
		t.Errorf("after the deletion = %v, want from the first unsettled one", got)
	}
	// The settings of one that exists are brought up to date.
	next := w.consume(t, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test", AckWait: 45 * time.Second}, ack(t))
	eventually(t, "the new setting", func() bool {
		c, err := w.js.Consumer(t.Context(), events.EventsStream(part), "test")
		return err == nil && c.CachedInfo().Config.AckWait == 45*time.Second
	})
	next.end(t)
}

func TestConsumeStopsGracefully(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 20)...)
	running := make(chan struct{}, 20)
	release := make(chan struct{})
	k := w.consume(t, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test", Concurrency: 3, Ahead: 6, AckWait: time.Minute}, func(ctx context.Context, d *eventlog.Delivery) {
		running <- struct{}{}
		<-release
		ack(t)(ctx, d)
	})
	for range 3 {
		<-running
	}
	k.stop()
	select {
	case err := <-k.done:
		t.Fatalf("ended before its handlers: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-k.done; !errors.Is(err, context.Canceled) {
		t.Errorf("consume ended with %v", err)
	}
	if n := len(k.sequences()); n != 3 {
		t.Errorf("handled %d, want the 3 that were running", n)
	}
	// What waited was given back: it comes at once, not after a minute.
	rest := w.consume(t, eventlog.DurableConfig{Concurrency: 3}, ack(t))
	eventually(t, "the rest", func() bool { return len(rest.sequences()) >= 17 })
	rest.end(t)
	got := append(k.sequences(), rest.sequences()...)
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != 20 {
		t.Errorf("sequences = %v", got)
	}
}

func TestConsumeBoundsWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 40)...)
	var now, most atomic.Int32
	k := w.consume(t, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test", Concurrency: 4}, func(ctx context.Context, d *eventlog.Delivery) {
		n := now.Add(1)
		if n > 4 {
			most.Store(n)
		}
		ack(t)(ctx, d)
		now.Add(-1)
	})
	eventually(t, "all", func() bool { return len(k.sequences()) == 40 })
	k.end(t)
	if n := most.Load(); n > 0 {
		t.Errorf("%d handlers at once", n)
	}
}

func TestConsumeFromNewAndMalformed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1")
	deliveries := make(chan *eventlog.Delivery, 10)
	k := w.consume(t, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "new", From: eventlog.FromNew, Filters: []string{events.EventsFilter(part)}}, func(ctx context.Context, d *eventlog.Delivery) {
		ack(t)(ctx, d)
		deliveries <- d
	})
	eventually(t, "the consumer", func() bool {
		_, err := w.js.Consumer(t.Context(), events.EventsStream(part), "new")
		return err == nil
	})
	w.raw(t, events.QueuedSubject(part, lane), nil, "no event")
	d := <-deliveries
	if d.Position.Sequence != 2 || d.Known || events.CodeOf(d.Malformed) != events.CodeMalformed || string(d.Wire().Data) != "no event" {
		t.Errorf("delivery = %+v", d)
	}
	w.nc.Close()
	wantCode(t, <-k.done, events.CodeUnavailable)
}

func TestConsumeSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 5)...)
	k := w.consume(t, eventlog.DurableConfig{}, ack(t))
	eventually(t, "the first ones", func() bool { return len(k.sequences()) == 5 })
	w.node.stop()
	w.node.start()
	w.append(t, ids(6, 10)...)
	eventually(t, "the last one", func() bool { return slices.Contains(k.sequences(), 10) })
	k.end(t)
	if n := len(slices.Compact(slices.Sorted(slices.Values(k.sequences())))); n != 10 {
		t.Errorf("%s different events, want 10", strconv.Itoa(n))
	}
}
