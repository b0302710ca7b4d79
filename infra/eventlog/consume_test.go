package eventlog_test

import (
	"context"
	"errors"
	"fmt"
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

// keepAppending appends message after message, numbered from n on, until stop has returned.
func (w *world) keepAppending(t *testing.T, n int) (stop func()) {
	over, appending := make(chan struct{}), sync.WaitGroup{}
	appending.Go(func() {
		tick := time.NewTicker(hasty / 10)
		defer tick.Stop()
		for ; ; n++ {
			select {
			case <-tick.C:
				w.append(t, fmt.Sprintf("m%d", n))
			case <-over:
				return
			}
		}
	})
	return func() {
		close(over)
		appending.Wait()
	}
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
	k := w.consume(t, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test", AckWait: 5 * time.Second, Concurrency: 4}, func(ctx context.Context, d *eventlog.Delivery) {
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
	for seq, times := range map[uint64]int{1: 1, 2: 2, 3: 1, 4: 2} {
		// One that a pause of the machine sent back before it was handled counts at the server.
		if got := attempts[seq]; len(got) != times || got[0] != 1 || !slices.IsSorted(got) || got[len(got)-1] < times {
			t.Errorf("attempts of %d = %v, want %d, the first of them 1", seq, got, times)
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
	eventually(t, "all but one are acknowledged", func() bool {
		c, err := w.js.Consumer(t.Context(), events.EventsStream(part), "test")
		return err == nil && c.CachedInfo().NumAckPending == 1 && c.CachedInfo().Delivered.Stream == 10 && len(k.sequences()) == 10
	})
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

// asked waits until so many processes ask a consumer for events: from then on each of them is given some.
func (w *world) asked(t *testing.T, stream, durable string, processes int) {
	t.Helper()
	eventually(t, "all ask", func() bool {
		c, err := w.js.Consumer(t.Context(), stream, durable)
		return err == nil && c.CachedInfo().NumWaiting == processes
	})
}

// What this process gave back and another one acknowledged is settled: a consumer made anew does not begin there, whether this process is
// at rest meanwhile or never.
func TestWhatAnotherProcessAcknowledgedIsNotToldAgain(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"at rest": false, "never at rest": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tapped(t)
			stream := events.EventsStream(part)
			cfg := eventlog.DurableConfig{Stream: stream, Durable: "test", Concurrency: 4, AckWait: 10 * time.Second}
			const refused, first = 20, 100
			a := w.consume(t, cfg, func(ctx context.Context, d *eventlog.Delivery) {
				if d.Position.Sequence > refused {
					_ = d.Ack(ctx) // it fails while the consumer is gone
				} else if err := d.Nak(20 * time.Millisecond); err != nil { // it cannot just now
					t.Error(err)
				}
			})
			other := &world{log: eventlog.New(jets(t, dial(t, w.node.url())), fast)}
			b := other.consume(t, cfg, ack(t))
			w.asked(t, stream, "test", 2)
			w.append(t, ids(1, first)...)
			eventually(t, "both had some, all is acknowledged", func() bool {
				c, err := w.js.Consumer(t.Context(), stream, "test")
				return err == nil && c.CachedInfo().AckFloor.Stream == first
			})
			if !slices.ContainsFunc(a.sequences(), func(seq uint64) bool { return seq <= refused }) {
				t.Fatal("this process was given none of those that it refuses")
			}
			b.end(t)
			stop := func() {}
			if busy {
				stop = w.keepAppending(t, first+1)
			}
			looked := time.Now().Add(4 * hasty)
			eventually(t, "some looks", func() bool { return time.Now().After(looked) })
			if !busy { // and then it is given something, so that what it had acknowledged itself counts
				w.append(t, "one more")
				eventually(t, "one more", func() bool { return slices.Contains(a.sequences(), first+1) })
			}
			before := len(a.sequences())
			if err := w.js.DeleteConsumer(t.Context(), stream, "test"); err != nil {
				t.Fatal(err)
			}
			stop()
			w.append(t, "the last")
			last := w.lastSeq(t)
			eventually(t, "it goes on", func() bool { return slices.Contains(a.sequences(), last) })
			a.end(t)
			if again := slices.Min(a.sequences()[before:]); again <= first {
				t.Errorf("%d was told again, and all up to %d were acknowledged", again, first)
			}
		})
	}
}

// What another process was given and never settled comes again, also when the consumer was deleted and is made anew by one that is
// further, at rest or not.
func TestWhatDiedWithAnotherProcessComesAgain(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"at rest": false, "never at rest": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tapped(t)
			stream := events.EventsStream(part)
			cfg := eventlog.DurableConfig{Stream: stream, Durable: "test", Concurrency: 4, AckWait: time.Minute}
			other := &world{log: eventlog.New(jets(t, dial(t, w.node.url())), fast)}
			held := make(chan uint64, 1)
			b := other.consume(t, cfg, func(ctx context.Context, d *eventlog.Delivery) {
				select {
				case held <- d.Position.Sequence: // and says no more of it
				default:
					_ = d.Ack(ctx)
				}
			})
			w.append(t, "m1")
			lost := <-held
			a := w.consume(t, cfg, func(ctx context.Context, d *eventlog.Delivery) { _ = d.Ack(ctx) })
			w.asked(t, stream, "test", 2)
			w.append(t, ids(2, 100)...)
			eventually(t, "this process was given some", func() bool { return len(a.sequences()) > 10 })
			b.end(t)
			stop := func() {}
			if busy {
				stop = w.keepAppending(t, 101)
			}
			looked := time.Now().Add(2 * hasty)
			eventually(t, "some looks", func() bool { return time.Now().After(looked) })
			if err := w.js.DeleteConsumer(t.Context(), stream, "test"); err != nil {
				t.Fatal(err)
			}
			stop()
			w.append(t, "the last")
			last := w.lastSeq(t)
			eventually(t, "it goes on", func() bool { return slices.Contains(a.sequences(), last) })
			a.end(t)
			if !slices.Contains(a.sequences(), lost) {
				t.Errorf("%d was given to a process that has gone, and never came again", lost)
			}
		})
	}
}

func TestConsumeBringsWhatDoesNotDecode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deliveries := make(chan *eventlog.Delivery, 10)
	k := w.consume(t, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test", Filters: []string{events.EventsFilter(part)}}, func(ctx context.Context, d *eventlog.Delivery) {
		ack(t)(ctx, d)
		deliveries <- d
	})
	w.raw(t, events.QueuedSubject(part, lane), nil, "no event")
	d := <-deliveries
	if d.Position.Sequence != 1 || d.Known || events.CodeOf(d.Malformed) != events.CodeMalformed || string(d.Wire().Data) != "no event" {
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
	eventually(t, "the first ones", func() bool {
		c, err := w.js.Consumer(t.Context(), events.EventsStream(part), "test")
		return err == nil && c.CachedInfo().AckFloor.Stream == 5
	})
	w.node.stop()
	w.node.start()
	w.append(t, ids(6, 10)...)
	eventually(t, "the last one", func() bool { return slices.Contains(k.sequences(), 10) })
	k.end(t)
	if n := len(slices.Compact(slices.Sorted(slices.Values(k.sequences())))); n != 10 {
		t.Errorf("%s different events, want 10", strconv.Itoa(n))
	}
}
