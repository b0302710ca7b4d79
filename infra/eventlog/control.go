package eventlog

import (
	"context"
	"errors"
	"fmt"

	"pilotstatus.dev/events"
)

// AppendNext stores an event of CONTROL if the stream ends at expected, 0 when it must be empty, and gives its sequence. What was
// judged against everything up to there is so recorded behind exactly that. Refused is events.CodeConflict with the detail
// "last"; a missing acknowledgement is resolved as in AppendFenced, and events.CodeUnavailable means the same.
func (l *Log) AppendNext(ctx context.Context, ev events.Event, expected uint64) (uint64, error) {
	return l.appendControl(ctx, ev, events.ControlFilter, expected)
}

// appendControl appends to CONTROL with the expected last sequence of what the filter covers; empty is the event's own subject.
func (l *Log) appendControl(ctx context.Context, ev events.Event, filter string, expected uint64) (uint64, error) {
	wire, err := l.opts.Registry.Encode(ev)
	if err != nil {
		return 0, fmt.Errorf("append to control: %w", err)
	}
	if filter == "" {
		filter = wire.Subject
	}
	seq, err := l.appendExpected(ctx, events.StreamControl, wire, filter, expected, l.durable)
	if refused, ok := errors.AsType[*Refused](err); ok {
		err = events.Errorf(events.CodeConflict, "it was changed by somebody else").WithDetails("last", refused.Last)
	}
	if err != nil {
		return 0, fmt.Errorf("append to control: %w", err)
	}
	return seq, nil
}

// History gives the events of one subject of CONTROL behind a sequence, the oldest first and at most limit. ctx bounds the reading.
func (l *Log) History(ctx context.Context, subject string, after uint64, limit int) ([]events.Recorded, error) {
	var recs []events.Recorded
	cfg := TailConfig{Stream: events.StreamControl, Filters: []string{subject}, From: after + 1}
	err := l.Tail(ctx, cfg, func(_ context.Context, b Batch) error {
		recs = append(recs, b.Events[:min(len(b.Events), limit-len(recs))]...)
		if b.CaughtUp || len(recs) == limit {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("read history: %w", unavailable(ctx, err))
	}
	return recs, nil
}
