package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
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
	// Response is the sealed begin of what the endpoint answered; its blob is empty when there is none.
	Response events.Sealed
	Place    uint64 // in the log of deliveries: later tries have a higher one
}

// deliveryBody gives the body that a try posted, without number and content where their key is gone; nil for a try of which it is
// not known. The caller has checked that the endpoint is the tenant's.
func (a *API) deliveryBody(ctx context.Context, tenant string, d DeliveryView) (json.RawMessage, error) {
	if d.Made == nil {
		return nil, nil
	}
	p, err := a.deliveryPayload(ctx, tenant, d)
	if err != nil {
		return nil, err
	}
	body, err := webhook.Body(*d.Made, p)
	if err != nil {
		return nil, internal(err)
	}
	return body, nil
}

// deliveryPayload gives number and content that are part of the body of a try; nil where they are not, or are erased.
func (a *API) deliveryPayload(ctx context.Context, tenant string, d DeliveryView) (*events.Payload, error) {
	if d.Made == nil || !d.Made.WithContent {
		return nil, nil
	}
	plain, err := a.openDelivery(ctx, tenant, d.MessageID, events.FieldPayload, d.Sealed)
	if err != nil || plain == nil {
		return nil, err
	}
	p := new(events.Payload)
	if json.Unmarshal(plain, p) != nil { // the parser's own words may repeat what it read
		return nil, internal(errors.New("decode sealed payload"))
	}
	return p, nil
}

// deliveryResponse gives the begin of what an endpoint answered, as text whatever bytes it was; nil without one, or when it is erased.
func (a *API) deliveryResponse(ctx context.Context, tenant string, d DeliveryView) (*string, error) {
	plain, err := a.openDelivery(ctx, tenant, d.WebhookID, events.FieldHookResponse, d.Response)
	if err != nil || plain == nil {
		return nil, err
	}
	text := strings.ToValidUTF8(string(plain), "\uFFFD")
	return &text, nil
}

// openDelivery opens what is sealed of a try; nil when there is nothing, or its key is gone.
func (a *API) openDelivery(ctx context.Context, tenant, entity, field string, s events.Sealed) ([]byte, error) {
	if len(s.Blob) == 0 {
		return nil, nil
	}
	plain, err := a.ports.Keyring.Open(ctx, tenant, s, a.ports.AAD(tenant, entity, field))
	switch {
	case errors.Is(err, ErrKeyMissing):
		return nil, nil
	case err != nil:
		return nil, outage(err, "Deliveries cannot be read right now; they go on.")
	}
	return plain, nil
}
