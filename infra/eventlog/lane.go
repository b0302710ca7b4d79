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

const (
	laneBatch  = 1_000_000 // one pull serves a lane for long
	laneExpiry = 10 * time.Minute
)

// LaneConfig says which lane to read. Zero limits take the defaults.
type LaneConfig struct {
	Partition  events.Partition
	Lane       events.Lane
	From       uint64        // first sequence wanted
	Dispatcher string        // whose lane it is; part of the consumer's name
	AckWait    time.Duration // after which an unacknowledged head comes again, 60 s by default
	Inactive   time.Duration // after which the server drops a lane that nobody reads, 60 s by default
}

// Lane brings the accepted messages of a lane in order, the next one when the one before is acknowledged. It only
// hints (rule R3): the order holds in the good case, and what it brings may have been canceled, ended or attempted.
// Its methods are for one goroutine at a time.
type Lane struct {
	stream string
	pull   *puller
}

// Lane makes the consumer of a lane: in memory, one copy, gone when idle. One of the same name, left over by an earlier
// run of the dispatcher, is deleted first, so that its acknowledgements cannot free a head of this one. ErrLanesFull
// says that the stream takes no more consumers.
func (l *Log) Lane(ctx context.Context, cfg LaneConfig) (*Lane, error) {
	stream := events.EventsStream(cfg.Partition)
	want := jetstream.ConsumerConfig{
		Name:          events.LaneConsumer(cfg.Lane, cfg.Dispatcher),
		FilterSubject: events.QueuedSubject(cfg.Partition, cfg.Lane),
		AckPolicy:     jetstream.AckExplicitPolicy, MaxAckPending: 1, MaxDeliver: -1, MaxWaiting: 8,
		AckWait:           cmp.Or(cfg.AckWait, time.Minute),
		InactiveThreshold: cmp.Or(cfg.Inactive, time.Minute),
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(cfg.From, 1),
		MemoryStorage: true, Replicas: 1,
	}
	tctx, cancel := l.try(ctx)
	defer cancel()
	err := l.js.DeleteConsumer(tctx, stream, want.Name)
	if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = l.js.CreateConsumer(tctx, stream, want)
	}
	if errCode(err) == jetstream.JSErrCodeMaximumConsumersLimit {
		return nil, fmt.Errorf("open lane: %w", ErrLanesFull)
	}
	if err != nil {
		return nil, fmt.Errorf("open lane: %w", events.Errorf(events.CodeUnavailable, "the log did not answer").WithCause(err))
	}
	pull, err := l.pullFrom(stream, want.Name, laneBatch, 1, laneExpiry)
	if err != nil {
		return nil, fmt.Errorf("open lane: %w", err)
	}
	return &Lane{stream: stream, pull: pull}, nil
}

// Next waits for the head of the lane: the next message after the acknowledged one, or the same again when AckWait ran
// out. ErrLaneGone says that the consumer vanished: close the lane and make it again. ctx ends the wait only.
func (n *Lane) Next(ctx context.Context) (*Delivery, error) {
	m, err := n.pull.next(ctx)
	switch {
	case errors.Is(err, errConsumerGone), errors.Is(err, nats.ErrConnectionClosed):
		return nil, fmt.Errorf("read lane: %w", errors.Join(ErrLaneGone, err))
	case err != nil:
		return nil, fmt.Errorf("read lane: %w", err)
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read lane: %w", err)
	}
	return n.pull.log.delivery(n.stream, placed{
		seq: meta.Sequence.Stream, attempt: meta.NumDelivered, at: meta.Timestamp, reply: m.Reply,
	}, events.Wire{Subject: m.Subject, Header: m.Header, Data: m.Data}), nil
}

// Close stops the pull and deletes the consumer, or leaves it to the server's Inactive when that cannot be reached.
func (n *Lane) Close(ctx context.Context) {
	n.pull.stop()
	n.pull.log.deleteConsumer(ctx, n.stream, n.pull.consumer)
}
