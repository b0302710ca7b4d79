package eventlog_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/groupcommit"
)

// gate is a sync that ends when the test lets it.
type gate struct {
	syncer *groupcommit.Syncer
	begun  atomic.Int64 // syncs
	open   chan error
}

// newGate gives the world's log a durability that the test holds in its hand.
func newGate(t *testing.T, w *world) *gate {
	t.Helper()
	g := &gate{open: make(chan error)}
	g.syncer = groupcommit.Start(func() error {
		g.begun.Add(1)
		return <-g.open
	}, groupcommit.Options{})
	opts := fast
	opts.Durability = g.syncer
	w.log = eventlog.New(w.js, opts)
	stop := make(chan struct{})
	t.Cleanup(func() {
		defer close(stop)
		go func() { // whoever still waits
			for {
				select {
				case g.open <- nil:
				case <-stop:
					return
				}
			}
		}()
		if err := g.syncer.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// held runs an act and checks that it ends only after the sync that it waits for.
func (g *gate) held(t *testing.T, what string, act func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- act() }()
	select {
	case err := <-done:
		t.Fatalf("%s ended before the sync: %v", what, err)
	case <-time.After(100 * time.Millisecond):
	}
	g.open <- nil
	if err := <-done; err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func TestEveryAppendThatIsToldWaitsForTheSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := newGate(t, w)
	g.held(t, "append", func() error { _, err := w.log.Append(t.Context(), queued("m1")); return err })
	g.held(t, "duplicate", func() error { _, err := w.log.Append(t.Context(), queued("m1")); return err })
	start := func() error {
		_, err := w.log.AppendFenced(t.Context(), part, instance, started("s1", "n1"), 0)
		return err
	}
	g.held(t, "started", start)
	g.held(t, "started, found in the group", start)
	g.held(t, "control", func() error { _, err := w.log.AppendExpecting(t.Context(), tenant("t1", "a"), 0); return err })
	if _, err := w.log.AppendUntold(within(t, 20*time.Second), part, instance, closed("c1"), 2); err != nil { // nobody lets a sync end
		t.Errorf("what nobody is told of: %v", err)
	}
	g.held(t, "what is read to tell of it", func() error {
		_, _, err := w.log.ReadGroup(t.Context(), part, instance, 0)
		return err
	})
	g.held(t, "barrier", func() error { return w.log.Durable(t.Context()) })
}

func TestAnAppendThatIsNotOnDiskIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := newGate(t, w)
	failed := make(chan error, 1)
	appended := func(ctx context.Context, id string) {
		_, err := w.log.Append(ctx, queued(id))
		failed <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go appended(ctx, "m1")
	eventually(t, "its sync begins", func() bool { return g.begun.Load() == 1 })
	cancel()
	wantCode(t, <-failed, events.CodeUnavailable)
	go appended(t.Context(), "m2")
	g.open <- nil // of the first, for which nobody waits any more; it began before the second was stored
	g.open <- errors.New("input/output error")
	wantCode(t, <-failed, events.CodeUnavailable)
	_, err := w.log.Append(t.Context(), queued("m3"))
	wantCode(t, err, events.CodeUnavailable)
	_, err = w.log.AppendFenced(t.Context(), part, instance, started("s1", "n1"), 0)
	wantCode(t, err, events.CodeUnavailable)
	if g.syncer.Err() == nil {
		t.Error("the failure is forgotten")
	}
}

func TestReadersThatKeepTheirPlaceReadOnlyWhatIsOnDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1") // by a log that does not sync
	g := newGate(t, w)
	var mu sync.Mutex
	seen := map[string]bool{}
	note := func(who string) {
		mu.Lock()
		defer mu.Unlock()
		seen[who] = true
	}
	saw := func(who string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen[who]
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for name, onDisk := range map[string]bool{"tail": false, "tail on disk": true} {
		readers.Go(func() {
			_ = w.log.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(part), OnDisk: onDisk}, func(_ context.Context, b eventlog.Batch) error {
				if len(b.Events) > 0 {
					note(name)
				}
				return nil
			})
		})
	}
	readers.Go(func() {
		_ = w.log.Consume(ctx, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "d"}, func(ctx context.Context, d *eventlog.Delivery) {
			note("durable")
			if err := d.Ack(ctx); err != nil {
				t.Error(err)
			}
		})
	})
	eventually(t, "the plain tail reads at once", saw("tail"))
	<-time.After(100 * time.Millisecond) // both others have it by now, and wait
	if saw("durable")() || saw("tail on disk")() {
		t.Error("read before the sync")
	}
	eventually(t, "both read after a sync", func() bool {
		select {
		case g.open <- nil:
		default:
		}
		return saw("durable")() && saw("tail on disk")()
	})
	cancel()
	ended := make(chan struct{})
	var opening sync.WaitGroup
	opening.Go(func() { // a reader that waits for a sync ends after it
		for {
			select {
			case g.open <- nil:
			case <-ended:
				return
			}
		}
	})
	readers.Wait()
	close(ended)
	opening.Wait()
}
