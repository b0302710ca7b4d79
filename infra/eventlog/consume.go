package eventlog

import (
	"cmp"
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

// deletedSettle is waited before a deleted consumer is made again: the server tells its readers before it removes its
// files, and would remove those of a new one of the same name with them.
const deletedSettle = time.Second

// DurableConfig describes a consumer that the server remembers. Zero values take the defaults.
type DurableConfig struct {
	Stream        string
	Durable       string
	Filters       []string
	Among         string        // in a work queue with many consumers of one exact filter each: covers theirs, so that one question serves all
	Horizon       time.Duration // one that is made begins at most this long ago; 0 is at the first event. A work queue begins at what it still holds
	AckWait       time.Duration // 30 s by default
	MaxAckPending int           // 256 by default, over all processes that share the consumer
	MaxDeliver    int           // without bound by default
	Concurrency   int           // handlers at once in this process, 1 by default
	Ahead         int           // deliveries that may wait here for a handler, Concurrency by default
	Grace         time.Duration // handlers may run on after ctx ended, 10 s by default
	// About names what a delivery is about. Those about the same are handled one after the other in this process, as they came, each by a
	// handler of its own that waits; those about "" at once. nil: all at once.
	About func(*Delivery) string
}

func (c DurableConfig) withDefaults() DurableConfig {
	c.AckWait = cmp.Or(c.AckWait, 30*time.Second)
	c.MaxAckPending = cmp.Or(c.MaxAckPending, 256)
	c.MaxDeliver = cmp.Or(c.MaxDeliver, -1)
	c.Concurrency = max(c.Concurrency, 1)
	c.Ahead = cmp.Or(max(c.Ahead, 0), c.Concurrency)
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	if c.About == nil {
		c.About = func(*Delivery) string { return "" }
	}
	return c
}

// Consume brings the events of a stream to handle, each at least once, until ctx ends; it returns ctx's error. handle
// ends a delivery by Ack, Nak or Term; one that it leaves open comes again after AckWait. Several processes may share a
// durable. A consumer that somebody deleted is made again, and goes on behind what was acknowledged (place.resume). One that brings
// nothing of what waits (Options.Stuck) is read anew, and made anew where that does not help.
//
// What handle is given is on disk (Options.Durability), so that neither the consumer's own place nor what handle tells
// others can outlive it.
//
// When ctx ends no further delivery is taken, those that wait for a handler are given back at once, and Consume returns
// when the running handlers have; their own context ends Grace later than ctx.
func (l *Log) Consume(ctx context.Context, cfg DurableConfig, handle func(context.Context, *Delivery)) error {
	cfg = cfg.withDefaults()
	c := &consumption{log: l, cfg: cfg, handle: handle, slots: make(chan struct{}, cfg.Concurrency)}
	var stop context.CancelFunc
	c.ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		grace := time.AfterFunc(cfg.Grace, stop)
		c.running.Wait()
		grace.Stop()
		stop()
	}()
	for n := 0; ; n++ {
		before := c.counts()
		err := c.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c.counts() > before {
			n = 0
		}
		if errors.Is(err, errStuck) {
			l.stuck(cfg.Stream)
		}
		if l.nc.IsClosed() {
			return fmt.Errorf("consume %s: %w", cfg.Durable, coded(nats.ErrConnectionClosed))
		}
		l.opts.Logger.Warn().Err(err).Str("durable", cfg.Durable).Msg("consumer begins anew")
		if !l.pause(ctx, n) {
			return ctx.Err()
		}
	}
}

// consumption is one running Consume.
type consumption struct {
	log     *Log
	cfg     DurableConfig
	handle  func(context.Context, *Delivery)
	ctx     context.Context //nolint:containedctx // of the handlers: it outlives the caller's by the grace
	running sync.WaitGroup
	slots   chan struct{}
	busy    atomic.Int32
	had     bool // the consumer existed before, so that its absence means a deletion
	seen    standing
	doomed  time.Time // when the consumer was made that must be made anew
	turns   turns

	place
}

// session takes deliveries until anything goes wrong.
func (c *consumption) session(ctx context.Context) (err error) {
	cons, err := c.consumer(ctx)
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { c.watch(ctx, cut) })
	defer func() {
		cut(nil)
		watching.Wait()
		if errors.Is(context.Cause(ctx), errStuck) {
			err = errStuck
		}
	}()
	iter, err := cons.Messages(jetstream.PullMaxMessages(c.cfg.Ahead),
		jetstream.PullExpiry(max(pullExpiry, 2*c.log.opts.Heartbeat)), jetstream.PullHeartbeat(c.log.opts.Heartbeat))
	if err != nil {
		return fmt.Errorf("consume %s: %w", c.cfg.Durable, err)
	}
	defer c.giveBack(iter)
	for {
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		m, err := iter.Next(jetstream.NextContext(ctx))
		if err != nil {
			<-c.slots
			return fmt.Errorf("consume %s: %w", c.cfg.Durable, err)
		}
		d, behind, err := c.read(m)
		if err != nil {
			<-c.slots
			return err
		}
		mark := c.log.mark()
		before, done := c.turns.next(c.cfg.About(d))
		c.busy.Add(1)
		c.running.Go(func() {
			defer func() { <-c.slots }()
			defer c.busy.Add(-1)
			defer done()
			c.log.yield(c.ctx, behind) // what goes first may bring the sync with it
			if err := c.log.durableAfter(c.ctx, mark); err != nil {
				c.log.opts.Logger.Warn().Err(err).Str("durable", c.cfg.Durable).Msg("delivery is left for later")
				return
			}
			if before != nil { // who goes before has a slot, and a limit
				<-before
			}
			c.handle(c.ctx, d)
		})
	}
}

// read decodes a delivery and keeps count of it; behind is how many wait after it.
func (c *consumption) read(m jetstream.Msg) (d *Delivery, behind uint64, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, 0, fmt.Errorf("read delivery: %w", err)
	}
	d = c.log.delivery(c.cfg.Stream, placed{
		seq: meta.Sequence.Stream, attempt: meta.NumDelivered, at: meta.Timestamp, reply: m.Reply(),
	}, events.Wire{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	d.settled = c.take(meta.Sequence)
	return d, meta.NumPending, nil
}

// giveBack returns what waits for a handler, so that nobody waits for AckWait.
func (c *consumption) giveBack(iter jetstream.MessagesContext) {
	iter.Drain()
	for range c.cfg.Ahead + 1 {
		m, err := iter.Next(jetstream.NextMaxWait(c.log.opts.TryTimeout))
		if err != nil {
			break
		}
		if err := m.Nak(); err != nil {
			break
		}
	}
	iter.Stop()
}

// consumer finds the durable and gives it the wanted settings, or makes it. Where it began is never changed: the server
// would refuse that.
func (c *consumption) consumer(ctx context.Context) (jetstream.Consumer, error) {
	found, err := c.find(ctx)
	if err == nil {
		err = c.discard(ctx, found.CachedInfo())
	}
	if c.had && errors.Is(err, jetstream.ErrConsumerNotFound) {
		settle := time.NewTimer(deletedSettle)
		defer settle.Stop()
		select {
		case <-settle.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		found, err = c.find(ctx) // another process may have made it
	}
	ctx, cancel := c.log.try(ctx)
	defer cancel()
	want := jetstream.ConsumerConfig{
		Durable: c.cfg.Durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.cfg.AckWait,
		MaxAckPending: c.cfg.MaxAckPending, MaxDeliver: c.cfg.MaxDeliver,
	}
	if len(c.cfg.Filters) == 1 {
		want.FilterSubject = c.cfg.Filters[0]
	} else {
		want.FilterSubjects = c.cfg.Filters
	}
	switch {
	case err == nil:
		have := found.CachedInfo().Config
		want.DeliverPolicy, want.OptStartSeq, want.OptStartTime = have.DeliverPolicy, have.OptStartSeq, have.OptStartTime
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, fmt.Errorf("look up consumer %s: %w", c.cfg.Durable, err)
	default:
		stream, err := c.log.streamNow(ctx, c.cfg.Stream, "")
		if err != nil {
			return nil, err
		}
		// A work queue knows by itself what is still to do, and allows no other start.
		if stream.retention == jetstream.LimitsPolicy {
			if at := c.resume(stream.state.LastSeq); at > 0 {
				want.DeliverPolicy, want.OptStartSeq = jetstream.DeliverByStartSequencePolicy, at
			} else if since := time.Now().Add(-c.cfg.Horizon); c.cfg.Horizon > 0 && stream.state.FirstTime.Before(since) {
				want.DeliverPolicy, want.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
			}
		}
	}
	cons, err := c.log.js.CreateOrUpdateConsumer(ctx, c.cfg.Stream, want)
	if err != nil {
		return nil, fmt.Errorf("create consumer %s: %w", c.cfg.Durable, err)
	}
	c.had = true
	c.stands(cons.CachedInfo(), true)
	return cons, nil
}

func (c *consumption) find(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := c.log.try(ctx)
	defer cancel()
	return c.log.js.Consumer(ctx, c.cfg.Stream, c.cfg.Durable)
}
