package rebuild

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// tailBatch is how many events a tail hands over at once: larger than for a live view, which is read sooner instead.
const tailBatch = 4096

// Streams reads the partitions of a log through tails of its own: nobody else hears of them, and nothing remains of them.
type Streams struct{ Log *eventlog.Log }

// Last gives the sequence of the newest event, as the leader says.
func (s Streams) Last(ctx context.Context, p events.Partition) (uint64, error) {
	return s.Log.LastSequence(ctx, events.EventsStream(p))
}

// Tail hands whole events on, in order and without a hole, until ctx ends or handle fails.
func (s Streams) Tail(ctx context.Context, p events.Partition, from uint64,
	handle func(ctx context.Context, recs []events.Recorded, last uint64) error,
) error {
	return s.Log.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(p), From: from, Gapless: true, OnDisk: true, BatchMax: tailBatch},
		func(ctx context.Context, b eventlog.Batch) error { return handle(ctx, b.Events, b.Last) })
}
