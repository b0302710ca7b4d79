package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"pilotstatus.dev/events"
)

// Body gives the bytes that are posted for d: Standard Webhooks 1.0.0 `type, timestamp, data` and the older `event`, with the
// fields of docs/reference/webhooks.md. p is the unsealed payload; nil, or a delivery without content, leaves number and content
// empty. Every try of one delivery has the same body while the payload is readable.
func Body(d events.HookDelivery, p *events.Payload) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a text is signed as it is shown
	if err := e.Encode(newEnvelope(d, p)); err != nil {
		return nil, fmt.Errorf("encode customer event: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

type envelope struct {
	Event     string `json:"event"`
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Data      data   `json:"data"`
}

// data is the union of what clients of both generations of the API read.
type data struct {
	ID                string             `json:"id"`
	InternalMessageID string             `json:"internalMessageId"`
	MessageID         *string            `json:"messageId"` // WhatsApp's id; null when none is known
	CorrelationID     string             `json:"correlationId"`
	NumberID          string             `json:"numberId"`
	Environment       events.Environment `json:"environment"`
	DestinationNumber string             `json:"destinationNumber"`
	To                string             `json:"to"`
	From              string             `json:"from"`
	Origin            string             `json:"origin"`
	Content           string             `json:"content"`
	Status            events.Status      `json:"status"`
	CreatedAt         string             `json:"createdAt"`
	SentAt            string             `json:"sentAt,omitempty"`
	DeliveredAt       string             `json:"deliveredAt,omitempty"`
	ReadAt            string             `json:"readAt,omitempty"`
	FailedAt          string             `json:"failedAt,omitempty"`
	ErrorMessage      string             `json:"errorMessage,omitempty"`
	ErrorCode         events.ErrorCode   `json:"errorCode,omitempty"`
}

func newEnvelope(d events.HookDelivery, p *events.Payload) envelope {
	at := d.At.UTC().Format("2006-01-02T15:04:05.000Z")
	out := envelope{Event: d.Event, Type: d.Event, Timestamp: at, Data: data{
		ID: d.MessageID, InternalMessageID: d.MessageID, CorrelationID: d.CorrelationID, NumberID: d.Instance,
		Environment: d.Environment, From: e164(d.SourceNumber), Origin: d.Origin, Status: d.Status, CreatedAt: at,
	}}
	if d.GatewayID != "" {
		out.Data.MessageID = &d.GatewayID
	}
	if p != nil && d.WithContent {
		out.Data.DestinationNumber, out.Data.To, out.Data.Content = p.Destination, e164(p.Digits), p.Content.Text()
	}
	switch d.Status {
	case events.StatusSent:
		out.Data.SentAt = at
	case events.StatusDelivered:
		out.Data.DeliveredAt = at
	case events.StatusRead:
		out.Data.ReadAt = at
	case events.StatusFailed:
		out.Data.FailedAt, out.Data.ErrorCode, out.Data.ErrorMessage = at, d.ErrorCode, ErrorMessage(d.ErrorCode)
	default: // no customer event
	}
	return out
}

func e164(digits string) string {
	if digits == "" {
		return ""
	}
	return "+" + digits
}

// Horizon is how long a delivery may be tried before it is exhausted, with every wait and its jitter (docs/reference/webhooks.md).
const Horizon = 4 * 24 * time.Hour

// WithContent reports whether number and content outlive the last try, so that every try can have the same body.
func WithContent(retentionDays int) bool {
	return time.Duration(retentionDays)*24*time.Hour >= Horizon
}
