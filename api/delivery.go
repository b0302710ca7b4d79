package api

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/webhook"
)

// DeliveryView is one try to tell an endpoint.
type DeliveryView struct {
	WebhookID  string // the same for every try of a customer event to an endpoint
	MessageID  string
	Event      string
	Attempt    int    // from 1
	Result     string // events.HookSucceeded, HookFailed or HookExhausted
	HTTPStatus int    // 0 without an answer
	Reason     string // a word of ours; empty for a success
	Elapsed    time.Duration
	At         time.Time
	NextAt     time.Time // zero when none follows
	// Made is what the body was made from, Sealed the content of its message where it is part of the body. Nil for a try recorded
	// before it was kept.
	Made   *events.HookDelivery
	Sealed events.Sealed
}

// deliveryBody gives the body that a try posted, without number and content where their key is gone; nil for a try of which it is
// not known. The caller has checked that the endpoint is the tenant's.
func (a *API) deliveryBody(ctx context.Context, tenant string, d DeliveryView) (json.RawMessage, error) {
	if d.Made == nil {
		return nil, nil
	}
	var p *events.Payload
	if d.Made.WithContent && len(d.Sealed.Blob) > 0 {
		plain, err := a.ports.Keyring.Open(ctx, tenant, d.Sealed, a.ports.AAD(tenant, d.MessageID, events.FieldPayload))
		switch {
		case errors.Is(err, ErrKeyMissing):
		case err != nil:
			return nil, outage(err, "Deliveries cannot be read right now; they go on.")
		default:
			p = new(events.Payload)
			if json.Unmarshal(plain, p) != nil { // the parser's own words may repeat what it read
				return nil, internal(errors.New("decode sealed payload"))
			}
		}
	}
	body, err := webhook.Body(*d.Made, p)
	if err != nil {
		return nil, internal(err)
	}
	return body, nil
}
