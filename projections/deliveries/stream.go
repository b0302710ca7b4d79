package deliveries

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// Stream reads HOOKLOG through a tail of its own. The stream lets go of what is old, so holes are none of its faults.
type Stream struct{ Log *eventlog.Log }

// Last gives the sequence of the newest event, as the leader says.
func (s Stream) Last(ctx context.Context) (uint64, error) {
	return s.Log.LastSequence(ctx, events.StreamHookLog)
}

// Tail hands whole events on, in order, until ctx ends or handle fails.
func (s Stream) Tail(ctx context.Context, from uint64, handle func(ctx context.Context, recs []events.Recorded, last uint64) error) error {
	return s.Log.Tail(ctx, eventlog.TailConfig{Stream: events.StreamHookLog, From: from, OnDisk: true},
		func(ctx context.Context, b eventlog.Batch) error { return handle(ctx, b.Events, b.Last) })
}
