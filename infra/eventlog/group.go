package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pilotstatus.dev/events"
)

// errEnough ends a tail that has what it was made for.
var errEnough = errors.New("enough")

// ReadGroup gives the events behind a sequence in the fenced group of an instance, up to its last one as the leader knew it, and that
// one's sequence, 0 for an empty group: what the next append expects. Of events only the bodies that folds need are read; what is
// given is on disk. When the group ends at or before after, no events are given. ctx bounds the reading.
func (l *Log) ReadGroup(ctx context.Context, p events.Partition, instance string, after uint64) (recs []events.Recorded, last uint64, err error) {
	stream, filter := events.EventsStream(p), events.DispatchFilter(p, instance)
	m, err := l.leaderGet(ctx, stream, getRequest{LastFor: filter})
	switch {
	case errors.Is(err, errNoMessage):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("read group: %w", events.Errorf(events.CodeUnavailable, "the log did not answer").WithCause(err))
	}
	if last = m.Position.Sequence; last <= after {
		return nil, last, nil
	}
	cfg := TailConfig{Stream: stream, Filters: []string{filter}, From: after + 1, HeadersOnly: true, OnDisk: true}
	err = l.Tail(ctx, cfg, func(_ context.Context, b Batch) error {
		for _, rec := range b.Events {
			if rec.Position.Sequence > last {
				return errEnough
			}
			recs = append(recs, rec)
			if rec.Position.Sequence == last {
				return errEnough
			}
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return nil, 0, fmt.Errorf("read group: %w", unavailable(ctx, err))
	}
	return recs, last, nil
}

// FindQueued looks for accepted messages by id among those that a partition stored from since to until, by the server's clock, and
// gives those it finds as headers: all of them, or an error. ctx bounds the reading.
func (l *Log) FindQueued(ctx context.Context, p events.Partition, since, until time.Time, ids []string) (map[string]events.Recorded, error) {
	wanted := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		wanted[id] = struct{}{}
	}
	found := make(map[string]events.Recorded, len(ids))
	cfg := TailConfig{Stream: events.EventsStream(p), Filters: []string{events.GroupFilter(p, events.GroupQueued)}, FromTime: since, HeadersOnly: true}
	err := l.Tail(ctx, cfg, func(_ context.Context, b Batch) error {
		for _, rec := range b.Events {
			if rec.Stored.After(until) {
				return errEnough
			}
			if _, ok := wanted[rec.Subject]; !ok || !rec.Known {
				continue
			}
			if _, again := found[rec.Subject]; !again { // the first one is the message
				found[rec.Subject] = rec
			}
			if len(found) == len(wanted) {
				return errEnough
			}
		}
		if b.CaughtUp {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("find accepted messages: %w", unavailable(ctx, err))
	}
	return found, nil
}
