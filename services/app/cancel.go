package app

import (
	"context"
	"errors"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// apiFence lets the API cancel: it reads groups, finds messages, and appends to partitions that the guard admits.
type apiFence struct {
	log    *eventlog.Log
	health *appendHealth
	guard  *guard
}

func (f apiFence) Read(ctx context.Context, p events.Partition, instance string, after uint64) (recs []events.Recorded, last uint64, err error) {
	return f.log.ReadGroup(ctx, p, instance, after)
}

func (f apiFence) Restored(ctx context.Context, p events.Partition, instance string) (*events.Recorded, error) {
	rec, err := f.log.LastBySubject(ctx, events.EventsStream(p), events.EventSubject(p, instance, events.GroupDispatch, "restored"))
	switch events.CodeOf(err) {
	case "":
		return &rec, nil
	case events.CodeNotFound:
		return nil, nil //nolint:nilnil // there is none, as the port says
	default:
		return nil, err
	}
}

func (f apiFence) Append(ctx context.Context, p events.Partition, instance string, e events.Event, expected uint64) (uint64, error) {
	if err := f.guard.admit(e.Address); err != nil {
		return 0, err
	}
	seq, err := f.log.AppendFenced(ctx, p, instance, e, expected)
	f.health.heard(e.Address, err)
	return seq, err
}

func (f apiFence) Find(ctx context.Context, p events.Partition, since, until time.Time, ids []string) (map[string]events.Recorded, error) {
	found, err := f.log.FindQueued(ctx, p, since, until, ids)
	for id, rec := range found {
		whole, e := f.log.Get(ctx, events.EventsStream(p), rec.Position.Sequence)
		if e != nil {
			err = errors.Join(err, e)
			break
		}
		found[id] = whole
	}
	return found, err
}
