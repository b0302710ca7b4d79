package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/eventlog"
)

// skipTries bounds how often a skip is decided anew because the group moved.
const skipTries = 10

// Skip records an operator's word that a fenced event of an instance means nothing, and gives the sequence of that word. It is decided
// on the fold of that instance alone: an event that does not hold it, because it can be read, is of another instance or was skipped
// before, is events.CodeNotPermitted, with what could be skipped in the detail "unreadable".
func Skip(ctx context.Context, log *eventlog.Log, p events.Partition, instance string, word events.DispatchSkipped) (uint64, error) {
	for range skipTries {
		q, err := fenced(ctx, log, p, instance)
		if err != nil {
			return 0, fmt.Errorf("skip: %w", err)
		}
		if held := q.Unreadable(); !slices.Contains(held, word.Sequence) {
			err := events.Errorf(events.CodeNotPermitted, "%s:%d is no fenced event of %s that cannot be read; those are %v", p, word.Sequence, instance, held)
			return 0, fmt.Errorf("skip: %w", err.WithDetails("unreadable", held))
		}
		seq, err := log.AppendFenced(ctx, p, instance, events.Event{
			Address:  events.EventSubject(p, instance, events.GroupDispatch, "skipped"),
			Envelope: events.Envelope{ID: newID(), Type: events.TypeDispatchSkipped, Source: "pilot/operator", Time: time.Now().UTC()},
			Body:     &word,
		}, q.GroupSequence())
		var refused *eventlog.Refused
		if !errors.As(err, &refused) {
			return seq, err
		}
	}
	return 0, fmt.Errorf("skip: %w", events.Errorf(events.CodeUnavailable, "the fenced group of %s moves too fast", instance))
}

var errRead = errors.New("read to the end")

// fenced folds the fenced group of an instance as it is now.
func fenced(ctx context.Context, log *eventlog.Log, p events.Partition, instance string) (*queue.Queue, error) {
	q := queue.New(instance, queue.DefaultRules())
	err := log.Tail(ctx, eventlog.TailConfig{
		Stream: events.EventsStream(p), Filters: []string{events.DispatchFilter(p, instance)}, HeadersOnly: true,
	}, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			q.Apply(rec)
		}
		if b.CaughtUp {
			return errRead
		}
		return nil
	})
	if !errors.Is(err, errRead) {
		return nil, err
	}
	return q, nil
}
