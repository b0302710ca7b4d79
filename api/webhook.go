package api

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// WebhookEvent is what a customer's endpoint receives for every event of a message. It is documented here and sent by
// the notifier.
type WebhookEvent struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Event     string      `json:"event" enum:"message.sent,message.delivered,message.read,message.failed"`
	Type      string      `json:"type" doc:"The same as event."`
	Timestamp string      `json:"timestamp" format:"date-time" doc:"When it happened."`
	Data      WebhookData `json:"data"`
}

// WebhookData is the union of what receivers of either generation of the API read. Of the four times, the one of the event is there.
type WebhookData struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID                string  `json:"id" example:"msg_0198c5d3a6a07c2b8d1f0a9b8c7d6e02" doc:"The id of the 202."`
	InternalMessageID string  `json:"internalMessageId" doc:"The same as id."`
	MessageID         *string `json:"messageId" doc:"WhatsApp's id; null when none was assigned."`
	CorrelationID     string  `json:"correlationId"`
	NumberID          string  `json:"numberId" doc:"The sending instance."`
	Environment       string  `json:"environment" enum:"TEST,LIVE"`
	DestinationNumber string  `json:"destinationNumber" doc:"As given; empty when nothing is retained."`
	To                string  `json:"to" doc:"E.164; empty when nothing is retained."`
	From              string  `json:"from" doc:"E.164 of the sending number."`
	Content           string  `json:"content" doc:"The text; empty when nothing is retained."`
	Status            string  `json:"status" enum:"SENT,DELIVERED,READ,FAILED"`
	CreatedAt         string  `json:"createdAt" format:"date-time" doc:"When it happened."`
	SentAt            string  `json:"sentAt,omitempty" format:"date-time"`
	DeliveredAt       string  `json:"deliveredAt,omitempty" format:"date-time"`
	ReadAt            string  `json:"readAt,omitempty" format:"date-time"`
	FailedAt          string  `json:"failedAt,omitempty" format:"date-time"`
	ErrorMessage      string  `json:"errorMessage,omitempty" doc:"Of message.failed."`
	ErrorCode         string  `json:"errorCode,omitempty" doc:"Of message.failed."`
}

// addWebhooks documents the events (Standard Webhooks 1.0.0 headers).
func addWebhooks(doc *huma.OpenAPI) {
	text := &huma.Schema{Type: huma.TypeString}
	schema := schemaOf[WebhookEvent](doc.Components.Schemas)
	doc.Webhooks = map[string]*huma.PathItem{}
	for event, summary := range map[string]string{
		"message.sent":      "WhatsApp's server took the message",
		"message.delivered": "The message reached a device",
		"message.read":      "The message was read",
		"message.failed":    "The message failed; a receipt may correct it once",
	} {
		name := strings.ToUpper(event[len("message."):len("message.")+1]) + event[len("message.")+1:]
		doc.Webhooks[event] = &huma.PathItem{Post: &huma.Operation{
			OperationID: "onMessage" + name, Summary: summary, Tags: []string{"webhooks"},
			Description: "Any 2xx is success. Delivered at least once, in no promised order: repeats have the same webhook-id and body.",
			Parameters: []*huma.Param{
				{Name: "webhook-id", In: "header", Required: true, Schema: text, Description: "One per event and endpoint, for ever."},
				{Name: "webhook-timestamp", In: "header", Required: true, Schema: text, Description: "Unix seconds of this try."},
				{Name: "webhook-signature", In: "header", Required: true, Schema: text, Description: "v1,<base64>; several during a rotation."},
			},
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}},
			Responses:   map[string]*huma.Response{"2XX": {Description: "Received."}},
		}}
	}
}
