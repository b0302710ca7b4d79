package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/projections/views"
)

// ends is the second net under the dispatchers: it ends what they should have ended, and did not within the margin. Where they
// work there is nothing to do.
func (r *Reconciler) ends(ctx context.Context, p events.Partition, now time.Time) error {
	found := page{of: listing{listUnended, p}}
	err := func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, r.set.CallLimit)
		defer cancel()
		before := now.Add(-r.set.Margin)
		found.rows, err = r.views.Unended(ctx, p, before, before.Add(-r.set.Ends.PresumedAfter), r.set.PerInstance, r.reachedIn(found.of))
		return err
	}()
	if err != nil {
		return fmt.Errorf("partition %s: %w", p, err)
	}
	var errs []error
	later := map[string]bool{}
	for list := found.rows; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].InstanceID == list[0].InstanceID {
			n++
		}
		looked, err := r.end(ctx, p, list[0].InstanceID, list[:n], now)
		if err != nil {
			errs = append(errs, fmt.Errorf("end messages of instance %s: %w", list[0].InstanceID, err))
		}
		later[list[0].ID] = !looked
		list = list[n:]
	}
	r.advance(found, later)
	return errors.Join(errs...)
}

// end decides from the log about candidates of one instance: it reads their acceptance and the fenced group from there on, and
// appends what the rules of ends allow with the fence at what was read. What the fence refuses was decided on an old picture, and is
// dropped: the next round decides anew about the same ones, which looked, when false, says.
func (r *Reconciler) end(ctx context.Context, p events.Partition, instance string, list []views.Awaited, now time.Time) (looked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.set.RoundLimit)
	defer cancel()
	accepted, err := r.accepted(ctx, p, instance, list)
	if err != nil || len(accepted) == 0 {
		return err == nil, err
	}
	first := accepted[0].Position.Sequence
	for _, rec := range accepted {
		first = min(first, rec.Position.Sequence)
	}
	group, last, err := r.log.ReadGroup(ctx, p, instance, first-1)
	if err != nil {
		return false, err
	}
	q := queue.Since(instance, r.set.Ends, accepted, group)
	for _, e := range q.Open() {
		if last, err = r.unknown(ctx, p, instance, e, last); err != nil {
			return false, r.dropped(err)
		}
	}
	for _, c := range q.Closes(now, len(accepted)) {
		ev := q.EndEvent(fenced(p, instance, events.TypeDispatchClosed, "closed", nil), c)
		ev.Time = now.UTC()
		if last, err = r.log.AppendFenced(ctx, p, instance, ev, last); err != nil {
			return false, r.dropped(err)
		}
		r.set.Metrics.acts.WithLabelValues(actEnded).Add(float64(len(c.Messages)))
		r.set.Logger.Warn().Str("instance", instance).Str("reason", c.Reason).Str("code", string(c.Code)).Int("messages", len(c.Messages)).
			Str("first", c.Messages[0].ID).Msg("ended what no dispatcher ended")
	}
	return true, nil
}

// accepted reads the acceptance of each candidate.
func (r *Reconciler) accepted(ctx context.Context, p events.Partition, instance string, list []views.Awaited) ([]events.Recorded, error) {
	var out []events.Recorded
	for _, a := range list {
		rec, err := r.log.Get(ctx, events.EventsStream(p), a.Queued.Sequence)
		if err != nil {
			return nil, err
		}
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil || rec.Subject != a.ID || addr.Instance != instance || rec.Type != events.TypeMessageQueued {
			r.set.Logger.Error().Str("message", a.ID).Stringer("position", a.Queued).Msg("the view names a message that the log does not have there")
			continue
		}
		out = append(out, rec)
	}
	return out, nil
}

// unknown says of an open start, seen for longer than any call of it can be under way, that its outcome is not known (rule R9). It
// gives the last sequence of the group.
func (r *Reconciler) unknown(ctx context.Context, p events.Partition, instance string, e *queue.Entry, last uint64) (uint64, error) {
	n := e.Summary().Open()
	at := e.Summary().Attempts[n-1]
	since, ok := r.seen[at.Nonce]
	if !ok {
		if len(r.seen) >= maxAsked {
			clear(r.seen)
		}
		since = time.Now()
		r.seen[at.Nonce] = since
	}
	if time.Since(since) < r.set.SuccessorWait || at.State != message.AttemptOpen {
		return last, nil
	}
	ev := fenced(p, instance, events.TypeDispatchUnknown, "unknown", &events.DispatchUnknown{
		Cause: events.UnknownOwnerGone, ElapsedMS: time.Since(at.StartedAt).Milliseconds(),
	})
	ev.Subject, ev.TenantID, ev.Attempt, ev.QueuedSeq = e.ID, e.Lane.Tenant, n, e.QueuedSeq
	seq, err := r.log.AppendFenced(ctx, p, instance, ev, last)
	if err != nil {
		return last, err
	}
	delete(r.seen, at.Nonce)
	r.set.Metrics.acts.WithLabelValues(actUnknown).Inc()
	r.set.Logger.Warn().Str("message", e.ID).Str("instance", instance).Int("attempt", n).Msg("resolved an open start that no dispatcher resolved")
	return seq, nil
}

// dropped takes the refusal of the fence for what it is: somebody works for the instance after all.
func (r *Reconciler) dropped(err error) error {
	if refused := (*eventlog.Refused)(nil); errors.As(err, &refused) {
		r.set.Metrics.acts.WithLabelValues(actDropped).Inc()
		r.set.Logger.Debug().Err(err).Msg("dropped: the group has moved since it was read")
		return nil
	}
	return err
}

func fenced(p events.Partition, instance, typ, name string, body any) events.Event {
	return events.Event{
		Envelope: events.Envelope{ID: uuid.NewString(), Type: typ, Source: source, Time: time.Now().UTC()},
		Address:  events.EventSubject(p, instance, events.GroupDispatch, name), Body: body,
	}
}
