package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

const hasty = 300 * time.Millisecond

// cuts counts readers that were cut.
type cuts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *cuts) count(stream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[stream]++
}

func (c *cuts) of(stream string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[stream]
}

// tapped is a world whose log is reached through a tap; w.js is not.
func (w *world) tapped(t *testing.T) (*tap, *cuts) {
	t.Helper()
	p, c := newTap(t, w.node), &cuts{}
	opts := fast
	opts.Stuck, opts.OnStuck = hasty, c.count
	opts.Heartbeat = 10 * time.Second // so that no beat which a busy machine misses helps in its place
	w.log = eventlog.New(jets(t, dial(t, p.url())), opts)
	return p, c
}

func wantCanceled(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestC3ATailThatIsBroughtNothingBeginsAnew(t *testing.T) {
	t.Parallel()
	stream := events.EventsStream(part)
	for name, cfg := range map[string]eventlog.TailConfig{
		"the log":  {Gapless: true},
		"filtered": {Filters: []string{events.GroupFilter(part, events.GroupDispatch), events.GroupFilter(part, events.GroupQueued)}, HeadersOnly: true},
		"by time":  {FromTime: epoch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p, c := w.tapped(t)
			var told sync.Once
			stuck := make(chan struct{})
			cfg.OnStuck = func() { told.Do(func() { close(stuck) }) }
			w.append(t, ids(1, 5)...)
			r := w.tail(t, cfg)
			r.wait(5)
			lost := p.silence()
			w.append(t, ids(6, 8)...)
			// The first of them is enough to notice it: those behind may come by the new way.
			eventually(t, "events are lost on their way", func() bool { return lost() > 0 })
			r.wait(8)
			<-stuck
			r.end(1, 8)
			if n := c.of(stream); n != 1 {
				t.Errorf("cut %d times, want once", n)
			}
		})
	}
}

// A tail that has never been given an event knows where it began only from the server.
func TestC3ATailByTimeThatIsBroughtNothingFromTheStartBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, c := w.tapped(t)
	w.append(t, ids(1, 3)...)
	first, upTo := true, 0
	p.let(func(m *tapped) bool {
		if !m.delivers() {
			return true
		}
		if first {
			first, upTo = false, m.sid
		}
		return m.sid > upTo
	})
	r := w.tail(t, eventlog.TailConfig{FromTime: epoch})
	r.wait(3)
	r.end(1, 3)
	if n := c.of(events.EventsStream(part)); n != 1 {
		t.Errorf("cut %d times, want once", n)
	}
}

func TestC3ATailAtRestOrAtWorkIsNotCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, c := w.tapped(t)
	stream := events.EventsStream(part)
	// What the filter does not cover is nothing that waits.
	rest := w.tail(t, eventlog.TailConfig{Filters: []string{events.GroupFilter(part, events.GroupInstance)}})
	rest.wait(0)
	release, entered := make(chan struct{}), make(chan struct{}, 8)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.log.Tail(ctx, eventlog.TailConfig{Stream: stream, Gapless: true, BatchMax: 1}, func(_ context.Context, b eventlog.Batch) error {
			if len(b.Events) > 0 {
				entered <- struct{}{}
				<-release
			}
			return nil
		})
	}()
	w.append(t, ids(1, 3)...)
	<-entered
	after := time.Now().Add(8 * hasty)
	eventually(t, "some intervals", func() bool { return time.Now().After(after) })
	close(release)
	<-entered
	<-entered
	stop()
	wantCanceled(t, <-done)
	rest.stop()
	wantCanceled(t, <-rest.done)
	if n := c.of(stream); n != 0 {
		t.Errorf("cut %d times", n)
	}
}

// Thousands of endpoints have a consumer each, most of which have nothing to do while their stream moves.
func TestC3WatchingReadersAtRestCostsOneQuestionForAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, c := w.tapped(t)
	stream := events.HooksStream(0)
	var idle []*worker
	for i := range 30 {
		idle = append(idle, w.consume(t, eventlog.DurableConfig{
			Stream: stream, Durable: fmt.Sprintf("idle-%d", i), Filters: []string{fmt.Sprintf("hook.0.idle-%d", i)}, Among: events.HooksFilters(0)[0],
		}, ack(t)))
	}
	for range 5 {
		r := w.tail(t, eventlog.TailConfig{})
		r.wait(0)
		defer func() {
			r.stop()
			wantCanceled(t, <-r.done)
		}()
	}
	eventually(t, "all consumers", func() bool {
		s, err := w.js.Stream(t.Context(), stream)
		return err == nil && s.CachedInfo().State.Consumers == len(idle)
	})
	before := map[string]*atomic.Int64{}
	for _, api := range []string{"STREAM.INFO", "STREAM.MSG", "CONSUMER.INFO"} {
		before[api] = w.asks(t, api)
	}
	begun := time.Now()
	n := 0
	eventually(t, "some intervals", func() bool {
		n++
		if n%10 == 0 {
			if _, err := w.log.Append(t.Context(), delivery(fmt.Sprintf("d%d", n), endpointOfShard0(), 1)); err != nil {
				t.Error(err)
			}
		}
		return time.Since(begun) > 8*hasty
	})
	most := 2 * (2*int64(time.Since(begun)/hasty) + 2) // of two streams, each as of half an interval ago
	if got := before["STREAM.INFO"].Load(); got == 0 || got > most {
		t.Errorf("streams were asked for %d times, want at most %d", got, most)
	}
	if got := before["STREAM.MSG"].Load() + before["CONSUMER.INFO"].Load(); got != 0 {
		t.Errorf("%d other questions, want none", got)
	}
	for _, k := range idle {
		k.end(t)
	}
	if c.of(stream) != 0 {
		t.Errorf("cut %d times", c.of(stream))
	}
}

// Its consumer is held up at the server, as one is that has forgotten to deliver.
func TestC3AWatchOfClaimsThatIsBroughtNothingBeginsAnew(t *testing.T) {
	t.Parallel()
	w, _ := newClaims(t)
	_, c := w.tapped(t)
	claims := eventlog.NewClaims(w.log, topology.Deployment{})
	told := make(chan string, 8)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- claims.Watch(ctx, "_x", func(c eventlog.Change) { told <- c.Key + "=" + string(c.Value) })
	}()
	put := func(key string) {
		t.Helper()
		if _, err := claims.Put(t.Context(), key, []byte("v"), 0, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	put("_x.1")
	if got := <-told; got != "_x.1=v" {
		t.Fatalf("told of %s", got)
	}
	stream, err := w.js.Stream(t.Context(), "KV_"+topology.BucketIdem)
	if err != nil {
		t.Fatal(err)
	}
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() {
		if _, err := stream.PauseConsumer(t.Context(), name, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 { // of no concern to it, while it is at rest
		put(fmt.Sprintf("acme.LIVE.%d", i))
	}
	after := time.Now().Add(4 * hasty)
	eventually(t, "some intervals", func() bool { return time.Now().After(after) })
	if n := c.of("KV_" + topology.BucketIdem); n != 0 {
		t.Errorf("cut %d times while nothing waited", n)
	}
	put("_x.2")
	for got := ""; got != "_x.2=v"; { // those before it are told again
		select {
		case got = <-told:
		case <-time.After(20 * time.Second):
			t.Fatal("what waits is not told")
		}
	}
	cancel()
	wantCanceled(t, <-done)
	if n := c.of("KV_" + topology.BucketIdem); n != 1 {
		t.Errorf("cut %d times, want once", n)
	}
}
