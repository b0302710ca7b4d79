package events

import (
	"strconv"
	"time"
)

// Wire names of customer deliveries.
const (
	TypeHookDelivery = "hook.delivery.v1"
	TypeHookAttempt  = "hook.attempt.v1"
)

// Names of the customer events of a message.
const (
	CustomerMessageSent      = "message.sent"
	CustomerMessageDelivered = "message.delivered"
	CustomerMessageRead      = "message.read"
	CustomerMessageFailed    = "message.failed"
)

// HookDelivery is one customer event on its way to one endpoint. Its id is the webhook-id, the same for every try.
// Number and content are not in it: they are unsealed for each try from the accepted message, or left out.
type HookDelivery struct {
	Endpoint      string      `json:"endpoint"`
	Instance      string      `json:"instance"`
	Event         string      `json:"event"`
	MessageID     string      `json:"messageId"`
	Queued        Position    `json:"queued"`
	Cause         Position    `json:"cause"` // the event that brought the transition
	Status        Status      `json:"status"`
	At            time.Time   `json:"at"` // when the transition happened
	Correction    int         `json:"correction,omitempty"`
	GatewayID     string      `json:"gatewayId,omitempty"`
	ErrorCode     ErrorCode   `json:"errorCode,omitempty"`
	Environment   Environment `json:"environment"`
	CorrelationID string      `json:"correlationId"`
	Origin        string      `json:"origin"`
	SourceNumber  string      `json:"sourceNumber,omitempty"`
	WithContent   bool        `json:"withContent"` // number and content are part of the body for every try
	Attempt       int         `json:"attempt"`     // tries made before this one
	FirstAt       time.Time   `json:"firstAt"`
	Replay        *HookReplay `json:"replay,omitempty"` // nil for the tries that the event itself brought
}

// HookReplay is an operator's word that an event be told to its endpoint again, under the same webhook-id.
type HookReplay struct {
	Nonce  string    `json:"nonce"` // of this replay alone: a second one of the same delivery is another
	After  int       `json:"after"` // tries made before it; its waits begin anew
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// TryID names try number of a delivery, "<webhook-id>[.<nonce>].<number>": what is stored of it is stored once under that name. The
// tries of each replay have names of their own.
func (d HookDelivery) TryID(webhookID string, number int) string {
	if d.Replay != nil {
		webhookID += "." + d.Replay.Nonce
	}
	return webhookID + "." + strconv.Itoa(number)
}

// CustomerWebhookDisabled names the entry of HOOKLOG that says that an endpoint was switched off. It is told to nobody.
const CustomerWebhookDisabled = "webhook.disabled"

// FieldHookResponse names the sealed answer of an endpoint in the associated data: tenant, webhook-id and field.
const FieldHookResponse = "hook-response"

// HookAttempt records one try of a delivery.
type HookAttempt struct {
	Endpoint   string    `json:"endpoint"`
	Event      string    `json:"event"`
	MessageID  string    `json:"messageId"`
	Attempt    int       `json:"attempt"` // 1-based; 0 where no try was made: the endpoint was switched off
	HTTPStatus int       `json:"httpStatus,omitempty"`
	Reason     string    `json:"reason,omitempty"` // readable, never personal data
	ElapsedMS  int64     `json:"elapsedMs"`
	NextAt     time.Time `json:"nextAt,omitzero"`
	// Delivery is what the body of the try was made from; nil in tries recorded before it was kept.
	Delivery *HookDelivery `json:"delivery,omitempty"`
	// Response is the beginning of what the endpoint answered, sealed under the data key of the message; nil when it said nothing, or
	// when that key was gone.
	Response *Sealed `json:"response,omitempty"`
}

func hookSpecs() []Spec {
	return []Spec{
		{Name: "hook.delivery", Version: 1, New: func() any { return new(HookDelivery) }},
		{Name: "hook.attempt", Version: 1, New: func() any { return new(HookAttempt) }},
	}
}
