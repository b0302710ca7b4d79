package events

// Wire names of the events of a message outside the fenced group.
const (
	TypeMessageQueued              = "message.queued.v1"
	TypeMessageRetryRequested      = "message.retry_requested.v1"
	TypeMessageErased              = "message.erased.v1"
	TypeMessageDeliveryUnconfirmed = "message.delivery_unconfirmed.v1"
)

// Sealed is text under a data key: AES-256-GCM (layout in package keyring), bound to tenant, message and field by associated data (docs/adr/0004).
type Sealed struct {
	KeyID string `json:"keyId"` // in bucket keys, under "<tenant>.<key id>"
	Blob  []byte `json:"blob"`
}

// MessageQueued says that a message was accepted: the 202. Destination and rendered content are inside Sealed as a Payload.
type MessageQueued struct {
	Project         string      `json:"project"`
	Environment     Environment `json:"environment"`
	KeyID           string      `json:"keyId"` // API key that sent it
	Category        Category    `json:"category"`
	Urgent          bool        `json:"urgent,omitempty"`
	TemplateID      string      `json:"templateId,omitempty"` // empty for free text
	TemplateVersion int         `json:"templateVersion,omitempty"`
	Origin          string      `json:"origin"`                 // display name of the sending number
	SourceNumber    string      `json:"sourceNumber,omitempty"` // digits of the sending number
	CorrelationID   string      `json:"correlationId"`
	RecipientHash   string      `json:"recipientHash"` // keyed hash of the canonical recipient
	RetentionDays   int         `json:"retentionDays"` // 0: content is to die after SENT or an end; nothing erases it yet
	Labels          []string    `json:"labels,omitempty"`
	QuotaWindows    []string    `json:"quotaWindows,omitempty"` // windows it was counted in, e.g. "m-2026-11"
	RetryOf         string      `json:"retryOf,omitempty"`      // final message an operator retries with this one
	Retry           *Retry      `json:"retry,omitempty"`        // who said so, and why; there with RetryOf
	Sealed          Sealed      `json:"sealed"`
}

// Retry is an operator's word that a final message is sent anew.
type Retry struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
	Force  bool   `json:"force,omitempty"` // although the first may have arrived
}

// MessageRetryRequested is an operator's word that a message is tried again: one not yet final gets its next attempt now, of one
// that is final it tells which message was made of it.
type MessageRetryRequested struct {
	By        string `json:"by"`
	Reason    string `json:"reason"`
	Force     bool   `json:"force,omitempty"`
	RetriedAs string `json:"retriedAs,omitempty"` // id of the new message
}

// MessageErased says that the data key of a message was destroyed. Nothing appends it yet.
type MessageErased struct {
	KeyID string `json:"keyId"`
}

// MessageDeliveryUnconfirmed says that no delivery was confirmed in the long window: FAILED DELIVERED_NOT_CONFIRMED.
type MessageDeliveryUnconfirmed struct {
	WindowDays int    `json:"windowDays"`
	Seen       uint64 `json:"seen,omitempty"` // as of EvidenceAckOverdue
}

func messageSpecs() []Spec {
	return []Spec{
		{Name: "message.queued", Version: 1, New: func() any { return new(MessageQueued) }},
		{Name: "message.retry_requested", Version: 1, New: func() any { return new(MessageRetryRequested) }},
		{Name: "message.erased", Version: 1, New: func() any { return new(MessageErased) }},
		{Name: "message.delivery_unconfirmed", Version: 1, New: func() any { return new(MessageDeliveryUnconfirmed) }},
	}
}
