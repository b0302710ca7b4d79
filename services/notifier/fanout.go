package notifier

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/webhook"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/failpoint"
)

// Durable is the name of the fan-out's consumer on EVENTS.
const Durable = "notifier"

// PurposeID separates webhook-ids from all other keyed hashes.
const PurposeID = "webhook-id"

// idLength is how many hex digits of the hash are the webhook-id.
const idLength = 32

// Reader follows, consumes and reads streams.
type Reader interface {
	Tail(ctx context.Context, cfg eventlog.TailConfig, handle func(context.Context, eventlog.Batch) error) error
	Consume(ctx context.Context, cfg eventlog.DurableConfig, handle func(context.Context, *eventlog.Delivery)) error
	Get(ctx context.Context, stream string, seq uint64) (events.Recorded, error)
	GetLeader(ctx context.Context, stream string, seq uint64) (events.Recorded, error)
	LastSequence(ctx context.Context, stream string) (uint64, error)
}

// Appender stores events now and later.
type Appender interface {
	Append(ctx context.Context, ev events.Event) (eventlog.Ack, error)
	Schedule(ctx context.Context, ev events.Event, scheduleSubject string, at time.Time) (eventlog.Ack, error)
}

// Log is what the notifier needs of the log.
type Log interface {
	Reader
	Appender
}

// Catalog is the control plane as this process knows it.
type Catalog interface {
	Read(use func(*catalog.Catalog))
	Current() error
	Ready() <-chan struct{}
}

// Hasher gives keyed hashes.
type Hasher interface {
	Hash(ctx context.Context, tenant, purpose string, data []byte) (string, error)
}

// FanoutSettings tune a Fanout. Zero values take the defaults.
type FanoutSettings struct {
	Horizon     time.Duration // a fan-out whose place was lost tells again what happened at most this long ago; 4 days
	Kept        time.Duration // messages are folded in memory for; older ones are read from the log again; 72 h
	MaxKept     int           // messages in memory; 300,000
	CallLimit   time.Duration // for what one event of the log brings; 25 s
	Again       time.Duration // an event that could not be told is tried again after; 1 s
	Concurrency int           // events handled at once; 8
	Logger      zerolog.Logger
	Metrics     *Metrics
}

// Fanout turns the transitions of the messages of one partition into deliveries, one for each subscribed endpoint. Several may run
// for one partition: each folds the whole log, they share the work, and each delivery has a deterministic id.
type Fanout struct {
	log       Log
	catalog   Catalog
	hasher    Hasher
	partition events.Partition
	settings  FanoutSettings
	memory    *memory
	queued    *queuedCache
	warm      chan struct{}
}

// NewFanout makes the fan-out of a partition.
func NewFanout(log Log, c Catalog, h Hasher, p events.Partition, s FanoutSettings) *Fanout {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&s.Horizon, 4 * 24 * time.Hour}, {&s.Kept, 72 * time.Hour}, {&s.CallLimit, 25 * time.Second}, {&s.Again, time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if s.MaxKept <= 0 {
		s.MaxKept = 300_000
	}
	if s.Concurrency <= 0 {
		s.Concurrency = 8
	}
	if s.Metrics == nil {
		s.Metrics = NewMetrics(nil)
	}
	return &Fanout{
		log: log, catalog: c, hasher: h, partition: p, settings: s,
		memory: newMemory(s.MaxKept, s.Kept), queued: newQueuedCache(log), warm: make(chan struct{}),
	}
}

// filters are the events that are facts of messages.
func filters(p events.Partition, instance string) []string {
	if instance == "" {
		instance = "*"
	}
	return []string{
		events.EventSubject(p, instance, events.GroupDispatch, ">"), events.EventSubject(p, instance, events.GroupReceipt, ">"),
		events.EventSubject(p, instance, events.GroupMessage, "delivery_unconfirmed"),
	}
}

// Warm is closed when the past was folded and new events are told.
func (f *Fanout) Warm() <-chan struct{} { return f.warm }

// Run folds the past, then tells what comes until ctx ends or the log cannot be read any more.
func (f *Fanout) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	stream := events.EventsStream(f.partition)
	group.Go(func() error {
		first := true
		end, err := f.log.LastSequence(ctx, stream)
		if err != nil {
			return fmt.Errorf("read the end of the log: %w", err)
		}
		return f.log.Tail(ctx, eventlog.TailConfig{
			Stream: stream, Filters: filters(f.partition, ""), FromTime: time.Now().Add(-f.settings.Kept), HeadersOnly: true,
		}, func(_ context.Context, b eventlog.Batch) error {
			f.memory.take(b.Events)
			if b.CaughtUp && first {
				first = false
				f.memory.reached(end)
				close(f.warm)
			}
			return nil
		})
	})
	group.Go(func() error {
		if !await.Closed(ctx, f.warm) || !await.Closed(ctx, f.catalog.Ready()) {
			return ctx.Err()
		}
		return f.log.Consume(ctx, eventlog.DurableConfig{
			Stream: stream, Durable: Durable, Filters: filters(f.partition, ""), Horizon: f.settings.Horizon, Concurrency: f.settings.Concurrency, Ahead: 64,
		}, f.handle)
	})
	return fmt.Errorf("fan out partition %s: %w", f.partition, group.Wait())
}

func (f *Fanout) handle(ctx context.Context, d *eventlog.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, f.settings.CallLimit)
	defer cancel()
	result, err := f.tell(ctx, d)
	failpoint.Hit("notifier.before_ack")
	if err == nil {
		if err = d.Done(); err == nil { // told again does no harm: each delivery has one id for life
			f.settings.Metrics.facts.WithLabelValues(result).Inc()
			return
		}
	}
	f.settings.Metrics.facts.WithLabelValues("retried").Inc()
	f.settings.Logger.Warn().Err(err).Stringer("position", d.Position).Msg("event of the log was not told")
	if err := d.Nak(f.settings.Again); err != nil { // it comes again after AckWait
		f.settings.Logger.Debug().Err(err).Stringer("position", d.Position).Msg("give back")
	}
}

// tell publishes what the event means for customers.
func (f *Fanout) tell(ctx context.Context, d *eventlog.Delivery) (string, error) {
	if err := f.memory.reach(ctx, d.Position.Sequence); err != nil {
		return "", fmt.Errorf("read the log up to %s: %w", d.Position, err)
	}
	if !d.Known { // of a newer release, or damaged: nothing is told of what is not understood
		if d.Malformed != nil {
			f.settings.Logger.Error().Err(d.Malformed).Stringer("position", d.Position).Msg("event does not decode")
		}
		return "unknown", nil
	}
	addr, err := events.ParseEventSubject(d.Address)
	if err != nil {
		return "", fmt.Errorf("read subject at %s: %w", d.Position, err)
	}
	var told atomic.Bool
	all := message.Subjects(d.Recorded)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(messagesAtOnce)
	for _, about := range all {
		group.Go(func() error {
			n, err := f.tellOf(ctx, addr.Instance, about, d.Recorded)
			if n > 0 {
				told.Store(true)
			}
			if err == nil && len(all) > 1 {
				err = d.InProgress()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	if told.Load() {
		return "told", nil
	}
	return "silent", nil
}

// messagesAtOnce is how many messages of one event are told at once: an end names hundreds, and each delivery waits for the disk.
const messagesAtOnce = 16

// tellOf publishes the transition that rec brings to one message, and gives the number of endpoints.
func (f *Fanout) tellOf(ctx context.Context, instance string, about events.ClosedMessage, rec events.Recorded) (int, error) {
	state, err := f.state(ctx, instance, about, rec)
	if err != nil {
		return 0, err
	}
	change, ok := webhook.At(state, rec.Position.Sequence)
	if !ok {
		return 0, nil
	}
	name, ok := webhook.Name(change.Status)
	if !ok || about.QueuedSeq == 0 {
		return 0, nil
	}
	if err := f.catalog.Current(); err != nil {
		return 0, fmt.Errorf("find endpoints: %w", err)
	}
	queued, err := f.queued.get(ctx, events.Position{Partition: f.partition, Sequence: about.QueuedSeq})
	if events.CodeOf(err) == events.CodeNotFound {
		// A log that never deletes has no such event, if its leader says so.
		queued, err = f.log.GetLeader(ctx, events.EventsStream(f.partition), about.QueuedSeq)
		if events.CodeOf(err) == events.CodeNotFound {
			return 0, f.bury(ctx, instance, rec, "its accepted message is not in the log")
		}
	}
	if err != nil {
		return 0, fmt.Errorf("read accepted message: %w", err)
	}
	state = state.Apply(queued)
	if state.Queued == nil || state.Queued.Body == nil {
		return 0, nil
	}
	var endpoints, off []events.Endpoint
	f.catalog.Read(func(c *catalog.Catalog) {
		q := state.Queued.Body
		endpoints = c.Subscribers(queued.TenantID, q.Project, q.KeyID, q.Environment, name)
		off = c.Disabled(queued.TenantID, q.Project, q.KeyID, q.Environment, name)
	})
	for _, e := range endpoints {
		if err := f.publish(ctx, e, state, change); err != nil {
			return 0, err
		}
	}
	for _, e := range off {
		if err := f.miss(ctx, e, state, change); err != nil {
			return 0, err
		}
	}
	return len(endpoints), nil
}

// bury records an event that can never be told, for a person; it is done with.
func (f *Fanout) bury(ctx context.Context, instance string, rec events.Recorded, reason string) error {
	stream := events.EventsStream(f.partition)
	_, err := f.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: "dead." + events.DeadFanout + "." + rec.Position.String(), Type: events.TypeDeadLetter, Source: "pilot/notifier", Time: time.Now().UTC(),
		},
		Address: events.DeadSubject(events.DeadFanout, instance),
		Body:    &events.DeadLetter{Stream: stream, Sequence: rec.Position.Sequence, Reason: reason},
	})
	if err != nil {
		return fmt.Errorf("bury event: %w", err)
	}
	f.settings.Logger.Error().Stringer("position", rec.Position).Str("reason", reason).Msg("event is dead: it is told to nobody")
	return nil
}

// delivery makes the delivery of a change to an endpoint, and its id.
func (f *Fanout) delivery(ctx context.Context, e events.Endpoint, state message.State, change webhook.Change) (id string, body events.HookDelivery, ok bool, err error) {
	body, ok = webhook.Delivery(e.ID, state, change, webhook.WithContent(state.Queued.Body.RetentionDays))
	if !ok {
		return "", body, false, nil
	}
	id, err = f.hasher.Hash(ctx, e.TenantID, PurposeID, []byte(webhook.IDInput(e.ID, state.ID, change.Status, change.Correction)))
	if err != nil {
		return "", body, false, fmt.Errorf("make webhook-id: %w", err)
	}
	body.FirstAt = time.Now().UTC()
	return id[:idLength], body, true, nil
}

// miss records what an endpoint that the notifier switched off does not hear, so that it can be replayed.
func (f *Fanout) miss(ctx context.Context, e events.Endpoint, state message.State, change webhook.Change) error {
	id, body, ok, err := f.delivery(ctx, e, state, change)
	if err != nil || !ok {
		return err
	}
	_, err = f.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: body.TryID(id, 0) + "." + events.HookExhausted, Type: events.TypeHookAttempt, Source: "pilot/notifier", Time: body.FirstAt,
			Subject: state.ID, TenantID: e.TenantID,
		},
		Address: events.HookLogSubject(e.ID, events.HookExhausted),
		Body: &events.HookAttempt{
			Endpoint: e.ID, Event: body.Event, MessageID: state.ID, Reason: reasonOff, Delivery: &body,
		},
	})
	if err != nil {
		return fmt.Errorf("record what is missed: %w", err)
	}
	return nil
}

func (f *Fanout) publish(ctx context.Context, e events.Endpoint, state message.State, change webhook.Change) error {
	id, body, ok, err := f.delivery(ctx, e, state, change)
	if err != nil || !ok {
		return err
	}
	_, err = f.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: id, Type: events.TypeHookDelivery, Source: "pilot/notifier", Time: body.FirstAt,
			Subject: state.ID, TenantID: e.TenantID, QueuedSeq: state.Queued.Position.Sequence,
		},
		Address: events.HookSubject(e.ID), Body: &body,
	})
	if err != nil {
		return fmt.Errorf("publish delivery: %w", err)
	}
	return nil
}

// state gives the fold of a message up to rec, with rec itself whole. A message that memory does not know from its beginning is
// read again from its acceptance on.
func (f *Fanout) state(ctx context.Context, instance string, about events.ClosedMessage, rec events.Recorded) (message.State, error) {
	e, ok := f.memory.get(about.ID)
	state := e.state
	if !ok || !e.whole {
		rebuilt, err := f.rebuild(ctx, instance, about)
		if err != nil {
			return message.State{}, err
		}
		f.memory.restore(about.ID, rebuilt.Record, rebuilt.Queued)
		state = rebuilt
	}
	fact, ok := message.FactOf(rec)
	if !ok {
		return state, nil
	}
	record := make(message.Record, 0, len(state.Record)+1)
	for _, known := range state.Record {
		if known.Seq < fact.Seq {
			record = append(record, known)
		}
	}
	state.Record = append(record, fact)
	return state, nil
}

var errRead = errors.New("read")

// rebuild folds the facts of a message from its acceptance up to what memory has read.
func (f *Fanout) rebuild(ctx context.Context, instance string, about events.ClosedMessage) (message.State, error) {
	end := f.memory.end()
	state := message.State{ID: about.ID}
	err := f.log.Tail(ctx, eventlog.TailConfig{
		Stream: events.EventsStream(f.partition), Filters: filters(f.partition, instance), From: about.QueuedSeq + 1, HeadersOnly: true,
	}, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			if rec.Position.Sequence > end {
				return errRead
			}
			state = state.Apply(rec)
		}
		if b.CaughtUp {
			return errRead
		}
		return nil
	})
	if !errors.Is(err, errRead) {
		return message.State{}, fmt.Errorf("read the message again: %w", err)
	}
	return state, nil
}
