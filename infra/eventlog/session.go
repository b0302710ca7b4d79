package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
)

const (
	aheadHeaders = 4096 // messages the server may send ahead of the handler
	aheadWhole   = 1024
	pullExpiry   = 30 * time.Second
	bodyReaders  = 8
)

var errReconnected = errors.New("the connection was lost and made again")

// item is one decoded delivery on its way from the connection's goroutine to the handler.
type item struct {
	rec      events.Recorded
	pending  uint64
	consumer uint64 // delivery number of this consumer: contiguous, or something was lost on the way
	bad      error  // why it does not decode
}

// session reads with one consumer until anything goes wrong.
func (t *tail) session(ctx context.Context, cuts int) (err error) {
	l := t.log
	status := l.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer l.nc.RemoveStatusListener(status)
	if t.cfg.Gapless && t.next > 0 {
		if err := t.checkEnds(ctx); err != nil {
			return err
		}
	}
	cctx, cancel := l.try(ctx)
	cons, err := l.js.CreateConsumer(cctx, t.cfg.Stream, t.consumerConfig())
	cancel()
	if err != nil {
		return fmt.Errorf("create consumer of %s: %w", t.cfg.Stream, err)
	}
	defer l.deleteConsumer(ctx, t.cfg.Stream, cons.CachedInfo().Name)

	in := newInbox(t.cfg.BatchMax)
	failed := make(chan error, 1)
	done := make(chan struct{})
	fail := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	ahead := aheadWhole
	if t.cfg.HeadersOnly {
		ahead = aheadHeaders
	}
	consuming, err := cons.Consume(func(m jetstream.Msg) {
		it, err := t.read(m)
		if err != nil {
			fail(err)
			return
		}
		in.put(it, done)
	}, jetstream.PullMaxMessages(ahead), jetstream.PullExpiry(max(pullExpiry, 2*l.opts.Heartbeat)), jetstream.PullHeartbeat(l.opts.Heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { fail(err) }))
	if err != nil {
		return fmt.Errorf("consume %s: %w", t.cfg.Stream, err)
	}
	defer func() {
		close(done)
		consuming.Stop()
		select {
		case <-consuming.Closed():
		case <-time.After(l.opts.TryTimeout):
		}
	}()
	if cons.CachedInfo().NumPending == 0 {
		if err := t.deliver(ctx, Batch{CaughtUp: true}); err != nil {
			return err
		}
	}
	t.pace.next.Store(t.next)
	t.pace.moves.Store(0)
	began := max(t.next, cons.CachedInfo().Delivered.Stream+1) // where FromTime decides the server knows where
	watched, rest := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer rest()
	watching.Go(func() { l.attend(watched, t.cfg.Stream, t.cfg.Filters, &t.pace, began, cuts, fail) })
	return t.pump(ctx, in, failed, status)
}

// pump gathers what is ready and hands it over.
func (t *tail) pump(ctx context.Context, in *inbox, failed <-chan error, status <-chan nats.Status) error {
	var seen, behind uint64
	var batch []item
	for {
		select {
		case <-in.ready:
			t.log.yield(ctx, behind)
			batch = in.take(batch)
		case err := <-failed:
			return err
		case <-status:
			return errReconnected
		case <-ctx.Done():
			return ctx.Err()
		}
		t.pace.moves.Add(1)
		n, err := t.inOrder(batch, &seen)
		rest := false
		if n > 0 {
			behind = batch[n-1].pending
			rest = behind == 0
			if err := t.handOver(ctx, batch[:n]); err != nil {
				return err
			}
		}
		if g, ok := errors.AsType[*Gap](err); ok {
			return t.gap(g.Want, g.Have)
		}
		if err != nil {
			return err
		}
		batch = in.give(batch, rest)
		t.pace.next.Store(t.next)
		t.pace.moves.Add(1)
	}
}

// inOrder gives how many items follow each other, and why the next one does not.
func (t *tail) inOrder(batch []item, seen *uint64) (int, error) {
	want := t.next
	for i, it := range batch {
		if it.consumer != *seen+1 {
			return i, fmt.Errorf("delivery %d of %s follows %d", it.consumer, t.cfg.Stream, *seen)
		}
		have := it.rec.Position.Sequence
		if t.cfg.Gapless && want > 0 && have != want {
			return i, &Gap{Want: want, Have: have}
		}
		*seen, want = it.consumer, have+1
	}
	return len(batch), nil
}

func (t *tail) handOver(ctx context.Context, batch []item) error {
	last := batch[len(batch)-1]
	b := Batch{Events: make([]events.Recorded, len(batch)), Pending: last.pending, CaughtUp: last.pending == 0}
	for i, it := range batch {
		b.Events[i] = it.rec
		if it.bad != nil {
			t.malformed(it.rec, it.bad)
		}
	}
	if t.cfg.HeadersOnly {
		if err := t.bodies(ctx, b.Events); err != nil {
			return err
		}
	}
	return t.deliver(ctx, b)
}

func (t *tail) malformed(rec events.Recorded, err error) {
	t.log.opts.Logger.Error().Err(err).Str("stream", t.cfg.Stream).Stringer("position", rec.Position).Msg("event does not decode")
	if t.cfg.OnMalformed != nil {
		t.cfg.OnMalformed(rec.Position, rec.Address, err)
	}
}

// bodies gets the bodies that folds need, several at a time.
func (t *tail) bodies(ctx context.Context, recs []events.Recorded) error {
	var need []int
	for i := range recs {
		if recs[i].Known && t.log.opts.Registry.NeedsBody(recs[i]) {
			need = append(need, i)
		}
	}
	errs := make([]error, len(need))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(bodyReaders, len(need)) {
		readers.Go(func() {
			for k := next.Add(1) - 1; k < int64(len(need)); k = next.Add(1) - 1 {
				i := need[k]
				rec, err := t.log.Get(ctx, t.cfg.Stream, recs[i].Position.Sequence)
				if err == nil {
					recs[i] = rec
				}
				errs[k] = err
			}
		})
	}
	readers.Wait()
	for k, err := range errs {
		rec := &recs[need[k]]
		switch {
		case err == nil:
		case events.CodeOf(err) == events.CodeMalformed:
			rec.Known = false
			t.malformed(*rec, err)
		case events.CodeOf(err) == events.CodeNotFound && t.cfg.Gapless:
			return t.gap(rec.Position.Sequence, rec.Position.Sequence+1)
		case events.CodeOf(err) == events.CodeNotFound: // it aged out since
			rec.Known = false
		default:
			return err
		}
	}
	return nil
}

// read decodes a delivery. One that does not decode keeps its place, its type and its subject, and Known is false.
func (t *tail) read(m jetstream.Msg) (item, error) {
	meta, err := m.Metadata()
	if err != nil {
		return item{}, fmt.Errorf("read delivery: %w", err)
	}
	it := item{pending: meta.NumPending, consumer: meta.Sequence.Consumer}
	wire := events.Wire{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}
	it.rec, it.bad = t.log.decode(events.Stored{
		Wire: wire, Position: position(t.cfg.Stream, meta.Sequence.Stream), Time: meta.Timestamp, HeadersOnly: t.cfg.HeadersOnly,
	})
	if t.cfg.Gapless && !t.cfg.HeadersOnly {
		it.rec.Digest = wire.Digest()
	}
	return it, nil
}

// decode never loses an event: what does not decode comes back as one of an unknown type, with the reason.
func (l *Log) decode(m events.Stored) (events.Recorded, error) {
	rec, err := l.opts.Registry.Decode(m)
	if err == nil {
		return rec, nil
	}
	first := func(k string) string {
		if v := m.Header[k]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	env := events.Envelope{ID: first(events.HeaderID), Type: first(events.HeaderType), Subject: first(events.HeaderSubject)}
	if a, bad := events.ParseEventSubject(m.Subject); env.Type == "" && bad == nil {
		env.Type = a.Group + "." + a.Name
	}
	return events.Recorded{
		Event: events.Event{Envelope: env, Address: m.Subject}, Position: m.Position, Stored: m.Time.UTC(), Partial: m.HeadersOnly,
	}, err
}

// deleteConsumer tidies up; the server does it by itself after a while, so a failure is of no interest.
func (l *Log) deleteConsumer(ctx context.Context, stream, name string) {
	if !l.nc.IsConnected() {
		return
	}
	ctx, cancel := l.try(context.WithoutCancel(ctx))
	defer cancel()
	if err := l.js.DeleteConsumer(ctx, stream, name); err != nil {
		l.opts.Logger.Debug().Err(err).Str("stream", stream).Msg("delete consumer")
	}
}
