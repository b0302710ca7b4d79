package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"pilotstatus.dev/events"
)

const maxIDLength = 256

// find looks a message up by message id, correlation id or WhatsApp id. A miss on a young id of ours waits until the view
// has seen all that was in the log when the request came: a caller reads what it wrote, or is told to try again.
func (a *API) find(ctx context.Context, scope Scope, id string) (MessageView, error) {
	if !printable(id) {
		return MessageView{}, errNoMessage()
	}
	m, err := a.ports.Views.Message(ctx, scope, id)
	if events.CodeOf(err) != events.CodeNotFound {
		return m, readError(err)
	}
	p, young := a.young(id)
	if !young {
		return MessageView{}, errNoMessage()
	}
	if err := a.catchUp(ctx, p); err != nil {
		return MessageView{}, err
	}
	m, err = a.ports.Views.Message(ctx, scope, id)
	if events.CodeOf(err) == events.CodeNotFound {
		return MessageView{}, errNoMessage()
	}
	return m, readError(err)
}

func (a *API) catchUp(ctx context.Context, p events.Partition) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ViewWait)
	defer cancel()
	head, err := a.ports.Heads.Last(ctx, p)
	if err == nil {
		err = a.ports.Views.WaitFor(ctx, p, head)
	}
	if err != nil {
		return unavailable(err, "The message may be too new to be read; try again.")
	}
	return nil
}

// young tells the partition of an id of ours that was made a moment ago.
func (a *API) young(id string) (events.Partition, bool) {
	if rest, ok := strings.CutPrefix(id, "cor_"); ok {
		id = "msg_" + rest // the same form: see correlationID
	}
	p, unixMilli, ok := events.ParseMessageID(id)
	if !ok || int(p) >= partitionsOf(a.ports.Catalog) {
		return 0, false
	}
	age := a.ports.Now().Sub(time.UnixMilli(unixMilli))
	return p, age.Abs() < a.cfg.Young
}

func printable(id string) bool {
	if id == "" || len(id) > maxIDLength {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

func errNoMessage() error {
	return events.Errorf(events.CodeNotFound, "There is no message of this id.")
}

// readError tells an outage of the views, which goes away, from a fault of ours.
func readError(err error) error {
	outage := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case err == nil:
		return nil
	case outage, events.CodeOf(err) == events.CodeUnavailable:
		return unavailable(err, "Messages cannot be read right now; sending goes on.")
	default:
		return internal(err)
	}
}
