package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// door is a courtesy that waits until it is opened, and counts.
type door struct {
	open  chan struct{}
	asked atomic.Int64
}

func newDoor() *door { return &door{open: make(chan struct{})} }

func (g *door) Yield(ctx context.Context) {
	g.asked.Add(1)
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// with gives a log over the same connection that shows courtesy.
func (w *world) with(c eventlog.Courtesy) *eventlog.Log {
	opts := fast
	opts.Courtesy = c
	return eventlog.New(w.js, opts)
}

// Nothing is handed over while others go first.
func TestReadersLetOthersGoFirst(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(ctx context.Context, l *eventlog.Log, got func()) error{
		"consumer": func(ctx context.Context, l *eventlog.Log, got func()) error {
			return l.Consume(ctx, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test"}, func(context.Context, *eventlog.Delivery) { got() })
		},
		"tail": func(ctx context.Context, l *eventlog.Log, got func()) error {
			return l.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(part), From: 1}, func(_ context.Context, b eventlog.Batch) error {
				if len(b.Events) > 0 {
					got()
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, g := newWorld(t), newDoor()
			w.append(t, "one")
			ctx, cancel := context.WithCancel(t.Context())
			var early atomic.Bool
			got, ended := make(chan struct{}), make(chan error, 1)
			var once sync.Once
			go func() {
				ended <- read(ctx, w.with(g), func() {
					select {
					case <-g.open:
					default:
						early.Store(true)
					}
					once.Do(func() { close(got) })
				})
			}()
			eventually(t, "it is asked", func() bool { return g.asked.Load() > 0 })
			close(g.open)
			<-got
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if early.Load() {
				t.Error("it was handed over before")
			}
		})
	}
}

// A reader behind which more than some hundred events wait yields to nobody: courtesy costs time, and no throughput.
func TestAReaderFarBehindLetsNobodyGoFirst(t *testing.T) {
	t.Parallel()
	const n, far = 300, 256
	w := newWorld(t)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("m%03d", i)
	}
	w.append(t, ids...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	g := newDoor()
	close(g.open)
	handled := 0
	if err := w.with(g).Consume(ctx, eventlog.DurableConfig{Stream: events.EventsStream(part), Durable: "test"}, func(ctx context.Context, d *eventlog.Delivery) {
		if handled++; handled == n {
			cancel()
		}
		if want := max(0, handled-(n-far)); g.asked.Load() != int64(want) {
			t.Errorf("delivery %d: yielded %d times, not %d", handled, g.asked.Load(), want)
		}
		if err := d.Ack(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	g = newDoor()
	close(g.open)
	var behind uint64
	var yielded int64
	done := errors.New("done")
	if err := w.with(g).Tail(t.Context(), eventlog.TailConfig{Stream: events.EventsStream(part), From: 1, BatchMax: 20}, func(_ context.Context, b eventlog.Batch) error {
		if len(b.Events) == 0 {
			return nil
		}
		before := yielded
		if yielded = g.asked.Load(); behind >= far && yielded > before {
			t.Errorf("it yielded with %d events behind it", behind)
		}
		if behind = b.Pending; behind == 0 {
			return done
		}
		return nil
	}); !errors.Is(err, done) || yielded == 0 {
		t.Errorf("it yielded %d times: %v", yielded, err)
	}
}
