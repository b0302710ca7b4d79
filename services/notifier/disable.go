package notifier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/services/control"
)

// weighTries bounds how often the switching off of an endpoint is judged anew because somebody else changed it.
const weighTries = 16

// weigh switches an endpoint off when the end of a delivery says so: at once after a 410 of the address that it still has, and when this
// was the DisableAfter-th delivery in a row that ended without success. What is counted is in HOOKLOG, which has one order, and CONTROL
// takes the change of one version once: so it happens exactly at the limit and once, however many workers there are. tried is the
// endpoint as it was called.
func (w *Worker) weigh(ctx context.Context, tried events.Endpoint, gone bool) error {
	for range weighTries {
		var e events.Endpoint
		var version uint64
		var changed time.Time
		there := false
		w.catalog.Read(func(c *catalog.Catalog) {
			e, there = c.Endpoint(tried.ID)
			version, changed = c.Version(events.KindEndpoint, tried.ID), c.EndpointChanged(tried.ID)
		})
		if !there || !e.Active || e.TenantID != tried.TenantID {
			return nil
		}
		why := events.EndpointDisabled{At: time.Now().UTC().Truncate(time.Millisecond), Reason: events.DisabledGone}
		reason := "it answered 410"
		if !gone || e.URL != tried.URL {
			if w.settings.DisableAfter < 0 {
				return nil
			}
			n, err := w.failures(ctx, e.ID, changed)
			if err != nil || n < w.settings.DisableAfter {
				return err
			}
			why.Reason, why.Failures = events.DisabledFailing, n
			reason = strconv.Itoa(n) + " deliveries in a row ended without success"
		}
		e.Active, e.Disabled = false, &why
		seq, err := control.Define(ctx, w.log, events.KindEndpoint, e.ID, e, control.Author{By: "notifier", Reason: reason}, version)
		switch {
		case events.CodeOf(err) == events.CodeConflict: // changed by somebody else: look at what they made of it
			if err := w.know(ctx, 0); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("switch endpoint off: %w", err)
		}
		w.settings.Metrics.disabled.WithLabelValues(why.Reason).Inc()
		w.settings.Logger.Warn().Str("endpoint", e.ID).Str("tenant", e.TenantID).Str("reason", why.Reason).Int("failures", why.Failures).Msg("endpoint is switched off")
		return errors.Join(w.note(ctx, e, seq), w.know(ctx, seq))
	}
	return fmt.Errorf("switch endpoint off: %w", events.Errorf(events.CodeConflict, "it is changed again and again"))
}

// know waits until this process serves CONTROL up to seq; 0 is up to where it ends now.
func (w *Worker) know(ctx context.Context, seq uint64) error {
	if seq == 0 {
		var err error
		if seq, err = w.log.LastSequence(ctx, events.StreamControl); err != nil {
			return fmt.Errorf("read the end of control: %w", err)
		}
	}
	return w.catalog.Await(ctx, seq)
}

// note puts the switching off into the log of deliveries, where its owner reads what became of their webhook.
func (w *Worker) note(ctx context.Context, e events.Endpoint, seq uint64) error {
	_, err := w.log.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: "disabled-" + strconv.FormatUint(seq, 10) + ".0." + events.HookExhausted, Type: events.TypeHookAttempt, Source: "pilot/notifier",
			Time: e.Disabled.At, TenantID: e.TenantID,
		},
		Address: events.HookLogSubject(e.ID, events.HookExhausted),
		Body:    &events.HookAttempt{Endpoint: e.ID, Event: events.CustomerWebhookDisabled, Reason: e.Disabled.Reason},
	})
	if err != nil {
		return fmt.Errorf("record that an endpoint was switched off: %w", err)
	}
	return nil
}

// ours are reasons of an end that say nothing of the endpoint.
var ours = []string{reasonErased, reasonBody, reasonSecret, reasonRemoved}

// failures counts the deliveries to an endpoint that ended without success since the last one that had it, and since the endpoint was
// last changed; no more than the limit is read.
func (w *Worker) failures(ctx context.Context, endpoint string, since time.Time) (n int, err error) {
	cfg := eventlog.TailConfig{Stream: events.StreamHookLog, Filters: []string{events.HookLogSubject(endpoint, events.HookExhausted)}, FromTime: since}
	last, err := w.log.LastBySubject(ctx, events.StreamHookLog, events.HookLogSubject(endpoint, events.HookSucceeded))
	switch {
	case events.CodeOf(err) == events.CodeNotFound:
	case err != nil:
		return 0, fmt.Errorf("find the last success: %w", err)
	case last.Stored.After(since):
		cfg.From = last.Position.Sequence + 1
	}
	err = w.log.Tail(ctx, cfg, func(_ context.Context, b eventlog.Batch) error {
		for _, rec := range b.Events {
			a, ok := rec.Body.(*events.HookAttempt)
			if ok && a.Attempt > 0 && !slices.Contains(ours, a.Reason) {
				n++
			}
			if n >= w.settings.DisableAfter {
				return errRead
			}
		}
		if b.CaughtUp {
			return errRead
		}
		return nil
	})
	if !errors.Is(err, errRead) {
		return 0, fmt.Errorf("count failed deliveries: %w", err)
	}
	return n, nil
}
