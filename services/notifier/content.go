package notifier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
)

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

// accepted gives the message that a delivery tells of, as it was accepted; nil when another one stands where it should: nothing of that is
// ever told.
func (w *Worker) accepted(ctx context.Context, tenant string, body events.HookDelivery) (*events.MessageQueued, error) {
	rec, err := w.queued.get(ctx, body.Queued)
	if err != nil {
		return nil, fmt.Errorf("read accepted message: %w", err)
	}
	queued, ok := rec.Body.(*events.MessageQueued)
	if !ok || rec.Subject != body.MessageID || rec.TenantID != tenant {
		return nil, nil
	}
	return queued, nil
}

// payload unseals number and content; nil when they are not wanted, or gone for good.
func (w *Worker) payload(ctx context.Context, tenant string, body events.HookDelivery) (*events.Payload, error) {
	if !body.WithContent {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.settings.CallLimit)
	defer cancel()
	queued, err := w.accepted(ctx, tenant, body)
	if err != nil || queued == nil {
		return nil, err
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

// kept seals the begin of what an endpoint answered beside the content of its message, so that the two die together. nil when there is
// nothing to keep, or the key is gone; that it cannot be kept right now is no reason to call the endpoint again.
func (w *Worker) kept(ctx context.Context, d *eventlog.Delivery, body events.HookDelivery, a answer) *events.Sealed {
	if len(a.said) == 0 {
		return nil
	}
	queued, err := w.accepted(ctx, d.TenantID, body)
	if err == nil && queued != nil {
		var sealed events.Sealed
		if sealed, err = w.keys.SealBeside(ctx, d.TenantID, queued.Sealed, keyring.AAD(d.TenantID, d.ID, events.FieldHookResponse), a.said); err == nil {
			return &sealed
		}
	}
	if err == nil || errors.Is(err, keyring.ErrKeyMissing) || errors.Is(err, keyring.ErrCorrupt) {
		return nil
	}
	w.settings.Logger.Warn().Err(err).Str("webhook_id", d.ID).Msg("answer of an endpoint is not kept")
	return nil
}
