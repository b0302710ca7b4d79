package app

import (
	"cmp"
	"context"
	"slices"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/projections/views"
)

// apiWords asks the leader of the log what was said of an instance: of each word the newest is enough.
type apiWords struct{ log *eventlog.Log }

func (w apiWords) Now(ctx context.Context, p events.Partition, instance string) (presence.State, error) {
	var said []events.Recorded
	for _, name := range presence.Words() {
		rec, err := w.log.LastBySubject(ctx, events.EventsStream(p), events.EventSubject(p, instance, events.GroupInstance, name))
		switch events.CodeOf(err) {
		case "":
			said = append(said, rec)
		case events.CodeNotFound, events.CodeMalformed: // never said; published by hand, and then nobody folds it
		default:
			return presence.State{}, err
		}
	}
	slices.SortFunc(said, func(a, b events.Recorded) int { return cmp.Compare(a.Position.Sequence, b.Position.Sequence) })
	var s presence.State
	for _, rec := range said {
		s = s.Apply(rec)
	}
	return s, nil
}

// apiOriginals finds messages of any tenant.
type apiOriginals struct {
	views *views.Views
	log   *eventlog.Log
}

func (o apiOriginals) Place(ctx context.Context, id string) (events.Position, error) {
	return o.views.Place(ctx, id)
}

func (o apiOriginals) Event(ctx context.Context, at events.Position) (events.Recorded, error) {
	return o.log.Get(ctx, events.EventsStream(at.Partition), at.Sequence)
}
