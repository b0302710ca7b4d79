package notifier

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// settle records the try, schedules the next where one follows, and ends the delivery.
func (w *Worker) settle(ctx context.Context, d *eventlog.Delivery, body events.HookDelivery, endpoint events.Endpoint, a answer) error {
	ctx, cancel := context.WithTimeout(ctx, 3*w.settings.CallLimit)
	defer cancel()
	number, made := body.Attempt+1, body.Attempt
	if body.Replay != nil {
		made -= body.Replay.After
	}
	result, next := w.judge(max(made, 0), a, time.Now())
	reason := a.reason
	if a.status == http.StatusGone {
		reason = reasonGone
	}
	w.record(d, body, number, result, reason, a, next)
	if _, err := w.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: body.TryID(d.ID, number) + "." + result, Type: events.TypeHookAttempt, Source: "pilot/notifier", Time: time.Now(),
			Subject: body.MessageID, TenantID: d.TenantID, Attempt: number, DueAt: next,
		},
		Address: events.HookLogSubject(body.Endpoint, result),
		Body: &events.HookAttempt{
			Endpoint: body.Endpoint, Event: body.Event, MessageID: body.MessageID, Attempt: number, HTTPStatus: a.status, Reason: reason,
			ElapsedMS: a.elapsed.Milliseconds(), NextAt: next, Delivery: &body, Response: w.kept(ctx, d, body, a),
		},
	}); err != nil {
		return fmt.Errorf("record try: %w", err)
	}
	return w.goOn(ctx, d, body, done{there: true, result: result, next: next, gone: reason == reasonGone}, endpoint)
}

// done is what HOOKLOG says of a try.
type done struct {
	there  bool
	result string
	next   time.Time // zero when no try follows
	gone   bool      // the endpoint answered 410
}

// goOn does what follows a recorded try: the schedule of the next, what its end says of the endpoint, the end of this delivery. Doing it
// again changes nothing.
func (w *Worker) goOn(ctx context.Context, d *eventlog.Delivery, body events.HookDelivery, try done, endpoint events.Endpoint) error {
	if !try.next.IsZero() {
		if err := w.schedule(ctx, d, body, body.Attempt+1, try.next); err != nil {
			return err
		}
	}
	if try.result == events.HookExhausted && endpoint.ID != "" {
		if err := w.weigh(ctx, endpoint, try.gone); err != nil {
			return err
		}
	}
	if err := d.Ack(ctx); err != nil {
		return fmt.Errorf("end delivery: %w", err)
	}
	return nil
}

// schedule stores the next try: the same delivery with the same id, and an own deduplication id, since the log has seen this one.
func (w *Worker) schedule(ctx context.Context, d *eventlog.Delivery, body events.HookDelivery, number int, at time.Time) error {
	again := d.Event
	again.Address = events.HookSubject(body.Endpoint)
	again.DedupID = body.TryID(d.ID, number)
	body.Attempt = number
	again.Body = &body
	if _, err := w.log.Schedule(ctx, again, events.HookScheduleSubject(body.Endpoint, d.ID), at); err != nil {
		return fmt.Errorf("schedule next try: %w", err)
	}
	return nil
}

// lookBack is how old the record of a try may be that is still found when the broker brings it again: less than the window in which a
// second schedule of the try after it is known for a repeat.
const lookBack = 5 * time.Minute

// recorded looks for the record of this try in HOOKLOG: who made it may have ended before it could acknowledge. Of a try that was made
// and not recorded nobody knows; it is made again, under the same webhook-id.
func (w *Worker) recorded(ctx context.Context, d *eventlog.Delivery, body events.HookDelivery) (try done, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.settings.CallLimit)
	defer cancel()
	since := time.Now().Add(-lookBack)
	if d.Stored.After(since) {
		since = d.Stored
	}
	name := body.TryID(d.ID, body.Attempt+1) + "."
	err = w.log.Tail(ctx, eventlog.TailConfig{
		Stream: events.StreamHookLog, Filters: []string{events.HookLogSubject(body.Endpoint, "*")}, FromTime: since,
	}, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			if result, is := strings.CutPrefix(rec.ID, name); is {
				try = done{there: true, result: result, next: rec.DueAt}
				if a, ok := rec.Body.(*events.HookAttempt); ok {
					try.gone = a.Reason == reasonGone
				}
				return errRead
			}
		}
		if b.CaughtUp {
			return errRead
		}
		return nil
	})
	if !errors.Is(err, errRead) {
		return done{}, fmt.Errorf("look for the record of the try: %w", err)
	}
	return try, nil
}
