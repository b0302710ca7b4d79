package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// reader runs a tail and keeps what it hands over.
type reader struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error

	mu      sync.Mutex
	batches []eventlog.Batch
}

func (w *world) tail(t *testing.T, cfg eventlog.TailConfig) *reader {
	t.Helper()
	if cfg.Stream == "" {
		cfg.Stream = events.EventsStream(part)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &reader{t: t, stop: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- w.log.Tail(ctx, cfg, func(_ context.Context, b eventlog.Batch) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.batches = append(r.batches, b)
			return nil
		})
	}()
	t.Cleanup(cancel)
	return r
}

func (r *reader) events() (out []events.Recorded, caughtUp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.batches {
		out = append(out, b.Events...)
		caughtUp = b.CaughtUp
	}
	return out, caughtUp
}

func (r *reader) sequences() []uint64 {
	recs, _ := r.events()
	var out []uint64
	for _, rec := range recs {
		out = append(out, rec.Position.Sequence)
	}
	return out
}

func (r *reader) wait(n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d events and the end", n), func() bool {
		recs, caughtUp := r.events()
		return len(recs) >= n && caughtUp
	})
}

// end stops the tail and checks that its handler saw the sequences from first to last once, in order.
func (r *reader) end(first, last uint64) {
	r.t.Helper()
	r.stop()
	if err := <-r.done; !errors.Is(err, context.Canceled) {
		r.t.Errorf("tail ended with %v", err)
	}
	want := first
	for _, seq := range r.sequences() {
		if seq != want {
			r.t.Fatalf("sequences = %v, want %d to %d", r.sequences(), first, last)
		}
		want++
	}
	if want != last+1 {
		r.t.Fatalf("sequences = %v, want %d to %d", r.sequences(), first, last)
	}
}

func ids(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, "m"+strconv.Itoa(i))
	}
	return out
}

func TestTailReadsInOrderAndSaysWhenItIsCurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := w.tail(t, eventlog.TailConfig{Gapless: true})
	empty.wait(0)
	if recs, _ := empty.events(); len(recs) != 0 {
		t.Fatalf("events = %v", recs)
	}
	w.append(t, ids(1, 50)...)
	empty.wait(50)
	from := w.tail(t, eventlog.TailConfig{Gapless: true, From: 41, BatchMax: 3})
	from.wait(10)
	for _, b := range from.batches {
		if len(b.Events) > 3 || b.Last+b.Pending != 50 || b.CaughtUp != (b.Pending == 0) {
			t.Errorf("batch of %d: last %d, pending %d, caught up %v", len(b.Events), b.Last, b.Pending, b.CaughtUp)
		}
	}
	empty.end(1, 50)
	from.end(41, 50)
	recs, _ := from.events()
	if body, ok := recs[0].Body.(*events.MessageQueued); !ok || body.Project != "p" || recs[0].ID != "m41" {
		t.Errorf("record = %+v", recs[0])
	}
	eventually(t, "its consumers are gone", func() bool {
		s, err := w.js.Stream(t.Context(), events.EventsStream(part))
		return err == nil && s.CachedInfo().State.Consumers == 0
	})
}

func TestTailOfHeadersGetsTheBodiesThatFoldsNeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1")
	last := w.land(t, started("s1", "n1"), 0)
	for i := range 20 {
		last = w.land(t, closed("c"+strconv.Itoa(i)), last)
	}
	r := w.tail(t, eventlog.TailConfig{Gapless: true, HeadersOnly: true})
	r.wait(22)
	r.end(1, 22)
	recs, _ := r.events()
	for i, rec := range recs {
		_, isClosed := rec.Body.(*events.DispatchClosed)
		if want := i >= 2; isClosed != want || rec.Partial == want || !rec.Known {
			t.Errorf("event %d: %+v", i, rec)
		}
	}
	if recs[1].Nonce != "n1" || recs[1].Attempt != 1 {
		t.Errorf("envelope = %+v", recs[1].Envelope)
	}
}

func TestTailFiltersAndBeginsAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1", "m2")
	w.land(t, started("s1", "n1"), 0)
	w.append(t, "m3")
	third, err := w.log.Get(t.Context(), events.EventsStream(part), 3)
	if err != nil {
		t.Fatal(err)
	}
	dispatch := w.tail(t, eventlog.TailConfig{Filters: []string{events.GroupFilter(part, events.GroupDispatch)}})
	dispatch.wait(1)
	dispatch.end(3, 3)
	both := w.tail(t, eventlog.TailConfig{From: 2, Filters: []string{events.GroupFilter(part, events.GroupDispatch), events.GroupFilter(part, events.GroupQueued)}})
	both.wait(3)
	both.end(2, 4)
	timed := w.tail(t, eventlog.TailConfig{FromTime: third.Stored})
	timed.wait(2)
	timed.end(3, 4)
}

func TestTailSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 20)...)
	whole := w.tail(t, eventlog.TailConfig{Gapless: true})
	headers := w.tail(t, eventlog.TailConfig{Gapless: true, HeadersOnly: true})
	whole.wait(20)
	for round := range 2 {
		w.node.stop()
		w.node.start()
		w.append(t, ids(21+10*round, 30+10*round)...)
	}
	whole.wait(40)
	headers.wait(40)
	whole.end(1, 40)
	headers.end(1, 40)
}

func TestTailSurvivesTheLossOfItsConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, "m1")
	r := w.tail(t, eventlog.TailConfig{})
	r.wait(1)
	s, err := w.js.Stream(t.Context(), events.EventsStream(part))
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.ConsumerNames(t.Context()).Name() {
		if err := s.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	w.append(t, "m2")
	r.wait(2)
	r.end(1, 2)
}

func TestTailStopsAtAGap(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	nc := dial(t, n.url())
	w := &world{node: n, nc: nc, js: jets(t, nc)}
	w.log = eventlog.New(w.js, fast)
	// Like EVENTS, but a message can be damaged.
	s, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: events.EventsStream(part), Subjects: []string{events.EventsFilter(part)}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	w.append(t, ids(1, 10)...)
	if err := s.DeleteMsg(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	heard := make(chan eventlog.Gap, 1)
	expect := func(cfg eventlog.TailConfig, want eventlog.Gap, events ...uint64) {
		t.Helper()
		cfg.Gapless, cfg.OnGap = true, func(g eventlog.Gap) { heard <- g }
		r := w.tail(t, cfg)
		err := <-r.done
		gap, ok := errors.AsType[*eventlog.Gap](err)
		if !ok || *gap != want || <-heard != want {
			t.Fatalf("error = %v, want %+v", err, want)
		}
		wantCode(t, err, "LOG_GAP")
		if got := r.sequences(); !slices.Equal(got, events) {
			t.Errorf("sequences = %v, want %v", got, events)
		}
	}
	stream := events.EventsStream(part)
	expect(eventlog.TailConfig{}, eventlog.Gap{Stream: stream, Want: 6, Have: 7}, 1, 2, 3, 4, 5)
	expect(eventlog.TailConfig{From: 6, HeadersOnly: true}, eventlog.Gap{Stream: stream, Want: 6, Have: 7})
	expect(eventlog.TailConfig{From: 14}, eventlog.Gap{Stream: stream, Want: 14, Have: 10})
	if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(4)); err != nil {
		t.Fatal(err)
	}
	expect(eventlog.TailConfig{From: 2}, eventlog.Gap{Stream: stream, Want: 2, Have: 4})
	// Where a hole is allowed it is none.
	r := w.tail(t, eventlog.TailConfig{From: 5})
	r.wait(5)
	if got := r.sequences(); !slices.Equal(got, []uint64{5, 7, 8, 9, 10}) {
		t.Errorf("sequences = %v", got)
	}
}

// raw stores bytes that are no event.
func (w *world) raw(t *testing.T, subject string, header nats.Header, data string) {
	t.Helper()
	if _, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: header, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

func TestTailPassesOnWhatDoesNotDecode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := events.EventSubject(part, instance, events.GroupDispatch, "closed")
	w.raw(t, bad, nats.Header{"ce-id": {"x"}, "ce-type": {events.TypeDispatchClosed}, "ce-subject": {"m1"}}, "{")
	w.raw(t, bad, nil, "{}")
	w.append(t, "m1")
	for _, headersOnly := range []bool{false, true} {
		var mu sync.Mutex
		var heard []uint64
		r := w.tail(t, eventlog.TailConfig{Gapless: true, HeadersOnly: headersOnly, OnMalformed: func(at events.Position, subject string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if heard = append(heard, at.Sequence); subject != bad || events.CodeOf(err) != events.CodeMalformed {
				t.Errorf("heard %s: %v", subject, err)
			}
		}})
		r.wait(3)
		r.end(1, 3)
		recs, _ := r.events()
		if recs[0].Known || recs[0].Type != events.TypeDispatchClosed || recs[0].Body != nil || recs[0].Address != bad || recs[0].Subject != "m1" {
			t.Errorf("record = %+v", recs[0])
		}
		if recs[1].Known || recs[1].Type != "dispatch.closed" || !recs[2].Known {
			t.Errorf("records = %+v", recs[1:])
		}
		slices.Sort(heard)
		if !slices.Equal(heard, []uint64{1, 2}) {
			t.Errorf("heard of %v", heard)
		}
	}
	_, err := w.log.Get(t.Context(), events.EventsStream(part), 1)
	wantCode(t, err, events.CodeMalformed)
}

func TestTailEndsWithItsHandlerAndWithItsConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(t, ids(1, 5)...)
	boom := errors.New("boom")
	err := w.log.Tail(t.Context(), eventlog.TailConfig{Stream: events.EventsStream(part)}, func(context.Context, eventlog.Batch) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("error = %v", err)
	}
	r := w.tail(t, eventlog.TailConfig{})
	r.wait(5)
	w.nc.Close()
	wantCode(t, <-r.done, events.CodeUnavailable)
}

// BenchmarkTail prints how many events a second a tail hands over, by what it reads.
func BenchmarkTail(b *testing.B) {
	const stored = 200_000
	w := newWorld(b)
	fill(b, w, stored)
	for _, headersOnly := range []bool{true, false} {
		b.Run(fmt.Sprintf("headersOnly=%v", headersOnly), func(b *testing.B) {
			var took time.Duration
			cpu := cpuTime(b)
			for b.Loop() {
				begun := time.Now()
				full := errors.New("all read")
				n := 0
				err := w.log.Tail(b.Context(), eventlog.TailConfig{Stream: events.EventsStream(part), Gapless: true, HeadersOnly: headersOnly},
					func(_ context.Context, batch eventlog.Batch) error {
						if n += len(batch.Events); n == stored {
							return full
						}
						return nil
					})
				if !errors.Is(err, full) {
					b.Fatal(err)
				}
				took += time.Since(begun)
			}
			b.ReportMetric(float64(stored)*float64(b.N)/took.Seconds(), "events/s")
			// Of server and reader together: steadier than the rate on a machine that does other work too.
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/(stored*float64(b.N)), "cpu-us/event")
		})
	}
}

func fill(b *testing.B, w *world, n int) {
	b.Helper()
	for i := range n {
		ev := queued("m" + strconv.Itoa(i))
		ev.DeliverUntil = epoch.Add(time.Hour)
		wire, err := events.Standard.Encode(ev)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := w.js.PublishMsgAsync(&nats.Msg{Subject: wire.Subject, Header: wire.Header, Data: wire.Data}, jetstream.WithStallWait(10*time.Second)); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-w.js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		b.Fatal("events are not stored")
	}
}

// cpuTime is what the process has used, user and system.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
