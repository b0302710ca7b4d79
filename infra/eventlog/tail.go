package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
)

// TailConfig says what to read. From wins over FromTime; with neither the tail begins at the first event.
type TailConfig struct {
	Stream      string
	Filters     []string  // none is the whole stream
	From        uint64    // first sequence wanted
	FromTime    time.Time // first moment wanted, by the server's clock
	HeadersOnly bool      // bodies are left out, except of events whose fold needs them
	// Gapless takes a missing sequence for the fault it is in a log that never deletes: the tail stops with a *Gap and
	// passes on nothing behind it. Only for the unfiltered tail of such a log; with FromTime it holds from the first event on.
	// One that reads whole events gives each its Digest, as evidence of what was stored.
	Gapless bool
	// OnDisk hands over only what a power cut cannot take back (Options.Durability): for a reader that keeps its place,
	// or what it read, elsewhere.
	OnDisk bool
	// BatchMax bounds a batch, 512 by default.
	BatchMax int
	// OnGap hears of a gap before the tail ends with it. May be nil.
	OnGap func(Gap)
	// OnMalformed hears of an event that does not decode; the tail passes it on as one of an unknown type, so folds
	// ignore it, or stop its instance when its subject lies in the fenced group. May be nil.
	OnMalformed func(at events.Position, subject string, err error)
	// OnStuck hears that events wait which the server does not bring (Options.Stuck), before the tail begins anew. May be nil.
	OnStuck func()
}

// Batch is what was ready at once.
type Batch struct {
	Events  []events.Recorded // in order; empty only to say CaughtUp
	Pending uint64            // events known to come after the batch, when its last one was delivered
	Last    uint64            // sequence of the last event handed over by this tail; before the first one, From-1
	// CaughtUp: the batch reaches the end of the stream as it was when the server sent it. A tail that finds nothing
	// waiting when it begins, or begins anew, says so with an empty batch.
	CaughtUp bool
}

// Tail hands the events of a stream to handle in order, each exactly once while it runs, until ctx ends (its error is
// returned), handle fails (likewise), or a Gapless log has a gap. What interrupts it otherwise (a lost connection, a
// server that restarts, a consumer that brings nothing) it survives and continues after the last handled sequence. handle has the tail for itself: the
// next batch is read only after it returned, while the server sends ahead.
func (l *Log) Tail(ctx context.Context, cfg TailConfig, handle func(context.Context, Batch) error) error {
	cfg.BatchMax = cmp.Or(max(cfg.BatchMax, 0), 512)
	t := &tail{log: l, cfg: cfg, handle: handle}
	if cfg.FromTime.IsZero() || cfg.From > 0 {
		t.next = max(cfg.From, 1)
		t.last = t.next - 1
	}
	for n, cuts := 0, 0; ; n++ {
		before := t.last
		err := t.session(ctx, cuts)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stop, ok := errors.AsType[*stopped](err); ok {
			return stop.err
		}
		if t.last > before {
			n, cuts = 0, 0
		}
		if errors.Is(err, errStuck) {
			cuts++
			if cfg.OnStuck != nil {
				cfg.OnStuck()
			}
			l.stuck(cfg.Stream)
		}
		if l.nc.IsClosed() {
			return fmt.Errorf("tail %s: %w", cfg.Stream, coded(nats.ErrConnectionClosed))
		}
		l.opts.Logger.Warn().Err(err).Str("stream", cfg.Stream).Uint64("after", t.last).Msg("tail begins anew")
		if !l.pause(ctx, n) {
			return ctx.Err()
		}
	}
}

// stopped carries the error that ends a tail.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }

type tail struct {
	log    *Log
	cfg    TailConfig
	handle func(context.Context, Batch) error
	next   uint64 // sequence to begin at; 0 while FromTime decides
	last   uint64 // last handled sequence
	pace   pace
}

// deliver hands a batch over and moves on.
func (t *tail) deliver(ctx context.Context, b Batch) error {
	if n := len(b.Events); n > 0 {
		b.Last = b.Events[n-1].Position.Sequence
	} else {
		b.Last = t.last
	}
	if t.cfg.OnDisk && len(b.Events) > 0 {
		if err := t.log.durable(ctx); err != nil {
			return err
		}
	}
	if err := t.handle(ctx, b); err != nil {
		return &stopped{err}
	}
	if len(b.Events) > 0 {
		t.last, t.next = b.Last, b.Last+1
	}
	return nil
}

// gap reports a hole and ends the tail.
func (t *tail) gap(want, have uint64) error {
	g := Gap{Stream: t.cfg.Stream, Want: want, Have: have}
	if t.cfg.OnGap != nil {
		t.cfg.OnGap(g)
	}
	return &stopped{fmt.Errorf("tail: %w", &g)}
}

// checkEnds compares the stream's ends with where the tail wants to go on: events lost before the first one or behind
// the last one leave no hole between two deliveries.
func (t *tail) checkEnds(ctx context.Context) error {
	state, err := t.log.state(ctx, t.cfg.Stream)
	switch {
	case err != nil:
		return err
	case state.LastSeq+1 < t.next:
		return t.gap(t.next, state.LastSeq)
	case state.LastSeq >= t.next && state.FirstSeq > t.next:
		return t.gap(t.next, state.FirstSeq)
	}
	return nil
}

func (t *tail) consumerConfig() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Description: "tail of " + t.log.reader(), // for operators: the server makes up the name
		AckPolicy:   jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, MaxDeliver: -1,
		InactiveThreshold: t.log.opts.Inactive, HeadersOnly: t.cfg.HeadersOnly,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.next,
	}
	if len(t.cfg.Filters) == 1 {
		cfg.FilterSubject = t.cfg.Filters[0]
	} else {
		cfg.FilterSubjects = t.cfg.Filters
	}
	if t.next == 0 {
		at := t.cfg.FromTime
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, 0, &at
	}
	return cfg
}
