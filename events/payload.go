package events

import (
	"time"

	"pilotstatus.dev/events/template"
)

// Payload is the personal part of a message: what MessageQueued.Sealed holds as JSON. It is readable only while its data key lives.
type Payload struct {
	Destination string           `json:"destination"` // as the customer gave it
	Digits      string           `json:"digits"`      // send form: digits only
	Content     template.Content `json:"content"`     // rendered at acceptance
	LinkPreview bool             `json:"linkPreview,omitempty"`
}

// FieldPayload names the sealed field in the associated data, which is tenant, message id and field.
const FieldPayload = "payload"

// FieldSecret names sealed secrets of the control plane in the associated data: tenant, entity id and field.
const FieldSecret = "secret"

// SecretsKeyID is the data key that seals the platform's secrets (gateway keys, ingress, endpoint secrets) in CONTROL.
const SecretsKeyID = "secrets"

// DataKeyID names the data key of a message: its own when nothing is retained, so that it can die alone; else one per project and day.
func DataKeyID(messageID, project string, retentionDays int, at time.Time) string {
	if retentionDays <= 0 {
		return "m-" + messageID
	}
	return "d-" + project + "-" + at.UTC().Format("2006-01-02")
}

// Window of delivery of a category: deliverUntil when the sender gives none, counted from deliverAt.
func Window(c Category) time.Duration {
	switch c {
	case OTP:
		return 2 * time.Minute
	case Utility:
		return time.Hour
	default:
		return 4 * time.Hour
	}
}

// Limits of a window.
const (
	MaxHorizon = 90 * 24 * time.Hour // deliverAt from now
	MaxWindow  = 7 * 24 * time.Hour  // deliverUntil from deliverAt
)
