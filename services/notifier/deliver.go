package notifier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/webhook"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/failpoint"
)

// Reasons of a delivery that ends without a further try, beside those of the last try.
const (
	reasonGone    = "gone"             // the endpoint answered 410
	reasonRemoved = "endpoint_removed" // it is not in the catalog any more
	reasonErased  = "content_erased"   // a replay, and number and content that every try before it had are gone
	reasonOff     = "endpoint_off"     // the notifier had switched it off when the event came
	reasonBody    = "body_not_encodable"
	reasonSecret  = "secret_unusable"
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
		return w.settle(ctx, d, body, events.Endpoint{}, answer{reason: reasonRemoved})
	case !endpoint.Active:
		return errors.New("the endpoint is switched off")
	}
	secrets, err := w.opened(ctx, endpoint)
	if err != nil {
		return err
	}
	if d.Attempt > 1 { // the broker brings it again: what was recorded of it is not done twice
		if try, err := w.recorded(ctx, d, body); err != nil {
			return err
		} else if try.there {
			return w.goOn(ctx, d, body, try, endpoint)
		}
	}
	payload, err := w.payload(ctx, d.TenantID, body)
	if err != nil {
		return err
	}
	if payload == nil && body.WithContent && body.Replay != nil {
		return w.settle(ctx, d, body, endpoint, answer{reason: reasonErased}) // every try of an event has the same body
	}
	raw, err := webhook.Body(body, payload)
	if err != nil {
		return w.settle(ctx, d, body, endpoint, answer{reason: reasonBody})
	}
	said := w.client.post(ctx, endpoint.URL, d.ID, secrets, raw)
	failpoint.Hit("notifier.after_post")
	return w.settle(ctx, d, body, endpoint, said)
}

// judge says what a try means after made others of its row, and when the next one is due; zero when none follows.
func (w *Worker) judge(made int, a answer, now time.Time) (result string, next time.Time) {
	switch {
	case a.reason == "":
		return events.HookSucceeded, time.Time{}
	case a.status == http.StatusGone, a.reason == reasonRemoved, a.reason == reasonErased, made >= len(w.settings.Waits):
		return events.HookExhausted, time.Time{}
	}
	wait := w.settings.Waits[made]
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
