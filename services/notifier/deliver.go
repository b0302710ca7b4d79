package notifier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/webhook"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/failpoint"
	"pilotstatus.dev/infra/keyring"
)

// Reasons of a delivery that ends without a further try, beside those of the last try.
const (
	reasonGone    = "gone"             // the endpoint answered 410
	reasonRemoved = "endpoint_removed" // it is not in the catalog any more
)

// deliver is the consumer's turn with one delivery: one try, its record, the schedule of the next, and only then the end of this one.
func (w *Worker) deliver(ctx context.Context, d *eventlog.Delivery) {
	body, ok := d.Body.(*events.HookDelivery)
	if !ok {
		w.settings.Logger.Error().Err(d.Malformed).Stringer("position", d.Position).Msg("delivery does not decode")
		if err := d.Term("it does not decode"); err != nil {
			w.settings.Logger.Debug().Err(err).Msg("terminate")
		}
		return
	}
	rest := w.keep(d)
	err := w.attempt(ctx, d, *body)
	rest()
	if err != nil {
		w.settings.Metrics.attempts.WithLabelValues("postponed").Inc()
		w.settings.Logger.Warn().Err(err).Str("endpoint", body.Endpoint).Str("webhook_id", d.ID).Msg("delivery is postponed")
		if err := d.Nak(w.settings.Postpone); err != nil {
			w.settings.Logger.Debug().Err(err).Msg("give back")
		}
	}
}

// keep tells the server that a try goes on until rest is called. So AckWait need not cover the slowest endpoint, and what a
// process that was killed held comes again soon: while it holds Concurrency deliveries, the endpoint gets no others.
func (w *Worker) keep(d *eventlog.Delivery) (rest func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(w.settings.AckWait / 3)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				if err := d.InProgress(); err != nil { // at worst it comes again
					w.settings.Logger.Debug().Err(err).Msg("extend")
				}
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

// attempt makes one try and records what came of it. An error means that the try must be made again: nothing is lost, and the
// endpoint may see the same event twice.
func (w *Worker) attempt(ctx context.Context, d *eventlog.Delivery, body events.HookDelivery) error {
	endpoint, there := w.endpoint(body.Endpoint, d.TenantID)
	switch {
	case !there:
		if err := w.catalog.Current(); err != nil {
			return fmt.Errorf("find endpoint: %w", err)
		}
		return w.settle(ctx, d, body, answer{reason: reasonRemoved})
	case !endpoint.Active:
		return errors.New("the endpoint is switched off")
	}
	secrets, err := w.opened(ctx, endpoint)
	if err != nil {
		return err
	}
	payload, err := w.payload(ctx, d.TenantID, body)
	if err != nil {
		return err
	}
	raw, err := webhook.Body(body, payload)
	if err != nil {
		return w.settle(ctx, d, body, answer{reason: "body_not_encodable"})
	}
	said := w.client.post(ctx, endpoint.URL, d.ID, secrets, raw)
	failpoint.Hit("notifier.after_post")
	return w.settle(ctx, d, body, said)
}

// settle records the try, schedules the next where one follows, and ends the delivery.
func (w *Worker) settle(ctx context.Context, d *eventlog.Delivery, body events.HookDelivery, a answer) error {
	ctx, cancel := context.WithTimeout(ctx, 3*w.settings.CallLimit)
	defer cancel()
	number := body.Attempt + 1
	result, next := w.judge(number, a, time.Now())
	reason := a.reason
	if a.status == http.StatusGone {
		reason = reasonGone
	}
	w.record(d, body, number, result, reason, a, next)
	_, err := w.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: fmt.Sprintf("%s.%d.%s", d.ID, number, result), Type: events.TypeHookAttempt, Source: "pilot/notifier", Time: time.Now(),
			Subject: body.MessageID, TenantID: d.TenantID, Attempt: number, DueAt: next,
		},
		Address: events.HookLogSubject(body.Endpoint, result),
		Body: &events.HookAttempt{
			Endpoint: body.Endpoint, Event: body.Event, MessageID: body.MessageID, Attempt: number, HTTPStatus: a.status, Reason: reason,
			ElapsedMS: a.elapsed.Milliseconds(), NextAt: next, Delivery: &body,
		},
	})
	if err != nil {
		return fmt.Errorf("record try: %w", err)
	}
	if !next.IsZero() {
		if err := w.schedule(ctx, d, body, number, next); err != nil {
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
	again.DedupID = fmt.Sprintf("%s.%d", d.ID, number)
	body.Attempt = number
	again.Body = &body
	if _, err := w.log.Schedule(ctx, again, events.HookScheduleSubject(body.Endpoint, d.ID), at); err != nil {
		return fmt.Errorf("schedule next try: %w", err)
	}
	return nil
}

// judge says what try number means, and when the next one is due; zero when none follows.
func (w *Worker) judge(number int, a answer, now time.Time) (result string, next time.Time) {
	switch {
	case a.reason == "":
		return events.HookSucceeded, time.Time{}
	case a.status == http.StatusGone, a.reason == reasonRemoved, number > len(w.settings.Waits):
		return events.HookExhausted, time.Time{}
	}
	wait := w.settings.Waits[number-1]
	if w.settings.Jitter > 0 {
		wait += time.Duration(rand.Float64() * w.settings.Jitter * float64(wait)) //nolint:gosec // spreads load, keeps no secret
	}
	return events.HookFailed, now.Add(max(wait, min(a.retryAfter, w.settings.MaxRetryAfter))).UTC().Truncate(time.Millisecond)
}

// record counts and logs one try: one line, without anything personal and without the URL.
func (w *Worker) record(d *eventlog.Delivery, body events.HookDelivery, number int, result, reason string, a answer, next time.Time) {
	w.settings.Metrics.attempts.WithLabelValues(result).Inc()
	if a.elapsed > 0 {
		w.settings.Metrics.seconds.Observe(a.elapsed.Seconds())
	}
	line := w.settings.Logger.Info().Str("webhook_id", d.ID).Str("endpoint", body.Endpoint).Str("tenant", d.TenantID).
		Str("event", body.Event).Str("message", body.MessageID).Int("attempt", number).Str("result", result).
		Int("status", a.status).Dur("elapsed", a.elapsed)
	if reason != "" {
		line = line.Str("reason", reason)
	}
	if !next.IsZero() {
		line = line.Time("next_at", next)
	}
	line.Msg("webhook")
}

// opened gives the signing secrets of an endpoint, newest first.
func (w *Worker) opened(ctx context.Context, e events.Endpoint) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.settings.CallLimit)
	defer cancel()
	var out []string
	for _, sealed := range e.Secrets {
		secret, err := w.secrets.Open(ctx, e.ID, sealed)
		if err != nil {
			return nil, err
		}
		out = append(out, string(secret))
	}
	return out, nil
}

// payload unseals number and content; nil when they are not wanted, or gone for good.
func (w *Worker) payload(ctx context.Context, tenant string, body events.HookDelivery) (*events.Payload, error) {
	if !body.WithContent {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.settings.CallLimit)
	defer cancel()
	rec, err := w.queued.get(ctx, body.Queued)
	if err != nil {
		return nil, fmt.Errorf("read accepted message: %w", err)
	}
	queued, ok := rec.Body.(*events.MessageQueued)
	if !ok || rec.Subject != body.MessageID || rec.TenantID != tenant {
		return nil, nil // nothing of another message is ever told
	}
	text, err := w.keys.Open(ctx, tenant, queued.Sealed, keyring.AAD(tenant, body.MessageID, events.FieldPayload))
	if errors.Is(err, keyring.ErrKeyMissing) || errors.Is(err, keyring.ErrCorrupt) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("unseal message: %w", err)
	}
	var p events.Payload
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, nil // what was sealed is no payload: told without content
	}
	return &p, nil
}
