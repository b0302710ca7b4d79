package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
)

// Message is the body of a read. Times that have not come are null.
type Message struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID                string  `json:"id" example:"msg_0198c5d3a6a07c2b8d1f0a9b8c7d6e02"`
	Status            string  `json:"status" enum:"QUEUED,SENT,DELIVERED,READ,FAILED,CANCELED" doc:"SENT only on WhatsApp's word. Never goes backwards; a FAILED may be corrected once by a receipt."`
	Stage             string  `json:"stage" enum:"QUEUED,SENDING,UNCONFIRMED,DISPATCHED,SENT,DELIVERED,READ,FAILED,CANCELED" doc:"The inner state; SENDING, UNCONFIRMED and DISPATCHED have status QUEUED."`
	CorrelationID     string  `json:"correlationId"`
	Environment       string  `json:"environment" enum:"TEST,LIVE"`
	Category          string  `json:"category" enum:"OTP,UTILITY,MARKETING"`
	DestinationNumber string  `json:"destinationNumber" example:"+5511987654321" doc:"As given; empty when it was erased."`
	Template          *string `json:"template" example:"generic_notification" doc:"Name of the template; null for free text."`
	Origin            string  `json:"origin"`
	SourceNumber      string  `json:"sourceNumber"`
	CreatedAt         string  `json:"createdAt" format:"date-time"`
	DeliverAt         *string `json:"deliverAt" format:"date-time" doc:"Null for as soon as possible."`
	DeliverUntil      *string `json:"deliverUntil" format:"date-time"`
	SentAt            *string `json:"sentAt" format:"date-time"`
	DeliveredAt       *string `json:"deliveredAt" format:"date-time"`
	ReadAt            *string `json:"readAt" format:"date-time"`
	FailedAt          *string `json:"failedAt" format:"date-time"`
	CanceledAt        *string `json:"canceledAt" format:"date-time"`
	ExternalMessageID *string `json:"externalMessageId" doc:"WhatsApp's id; null until one is known."`
	ErrorCode         *string `json:"errorCode" doc:"Why it FAILED."`
	ErrorMessage      *string `json:"errorMessage" doc:"The same for a person; fixed per errorCode."`
	AckOverdue        bool    `json:"ackOverdue,omitempty" doc:"True while the message was handed over to WhatsApp and no acknowledgement came in time; it is not sent again."`
	Attempts          int     `json:"attempts" minimum:"0" doc:"Tries to call the gateway."`
}

type idInput struct {
	ID string `path:"id" doc:"Message id, correlation id or WhatsApp id." example:"msg_0198c5d3a6a07c2b8d1f0a9b8c7d6e02"`
}

type messageOutput struct{ Body Message }

// Timeline is what the log says of a message, in its order.
type Timeline struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Data []TimelineEvent `json:"data" nullable:"false"`
}

// TimelineEvent is one event of a message.
type TimelineEvent struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Event    string `json:"event" example:"dispatch.started"`
	Time     string `json:"time" format:"date-time"`
	Position string `json:"position" example:"2:1841" doc:"Place in the log: <partition>:<sequence>."`
	Attempt  int    `json:"attempt" minimum:"0" doc:"The try it is about, from 1; 0 for none."`
}

type timelineOutput struct{ Body Timeline }

func (a *API) registerMessage() {
	responses := func() map[string]*huma.Response {
		return a.problemResponses(events.CodeUnauthorized, CodeInsufficientScope, CodeTenantSuspended, events.CodeNotFound, events.CodeInternal,
			events.CodeUnavailable)
	}
	huma.Register(a.huma, huma.Operation{
		OperationID: "getMessage", Method: http.MethodGet, Path: "/v1/messages/{id}", Summary: "Read a message",
		Description: "A message that was accepted a moment ago is found, or the answer is 503: never a wrong 404.",
		Tags:        []string{"messages"}, Security: keySecurity(events.ScopeRead), Responses: responses(),
	}, a.getMessage)
	huma.Register(a.huma, huma.Operation{
		OperationID: "getMessageEvents", Method: http.MethodGet, Path: "/v1/messages/{id}/events",
		Summary: "Read what happened to a message", Tags: []string{"messages"}, Security: keySecurity(events.ScopeRead), Responses: responses(),
	}, a.getEvents)
}

func (a *API) getMessage(ctx context.Context, in *idInput) (*messageOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	caller, _ := ctx.Value(callerKey{}).(Caller)
	m, err := a.find(ctx, caller.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	body, err := a.messageBody(ctx, m)
	if err != nil {
		return nil, err
	}
	return &messageOutput{Body: body}, nil
}

// messageBody shows a message as a read of it does, in lists too.
func (a *API) messageBody(ctx context.Context, m MessageView) (Message, error) {
	destination, err := a.destination(ctx, m)
	if err != nil {
		return Message{}, err
	}
	return Message{
		ID: m.ID, Status: string(m.Stage.Status()), Stage: string(m.Stage), CorrelationID: m.CorrelationID,
		Environment: string(m.Environment), Category: string(m.Category), DestinationNumber: destination,
		Template: a.templateName(m), Origin: m.Origin, SourceNumber: m.SourceNumber, CreatedAt: stamp(m.CreatedAt),
		DeliverAt: stampOrNull(m.DeliverAt), DeliverUntil: stampOrNull(m.DeliverUntil), SentAt: stampOrNull(m.SentAt),
		DeliveredAt: stampOrNull(m.DeliveredAt), ReadAt: stampOrNull(m.ReadAt), FailedAt: stampOrNull(m.FailedAt),
		CanceledAt: stampOrNull(m.CanceledAt), ExternalMessageID: orNull(m.GatewayID), ErrorCode: orNull(string(m.ErrorCode)),
		ErrorMessage: orNull(failureText(m.ErrorCode)), AckOverdue: m.AckOverdue, Attempts: m.Attempts,
	}, nil
}

// destination opens the number as the customer gave it; empty when its key died. A key that cannot be reached is no
// answer: empty would say that the number is gone.
func (a *API) destination(ctx context.Context, m MessageView) (string, error) {
	if len(m.Sealed.Blob) == 0 {
		return "", nil
	}
	plain, err := a.ports.Keyring.Open(ctx, m.Tenant, m.Sealed, a.ports.AAD(m.Tenant, m.ID, events.FieldPayload))
	if errors.Is(err, ErrKeyMissing) {
		return "", nil
	}
	if err != nil {
		return "", outage(err, "Messages cannot be read right now; sending goes on.")
	}
	var p events.Payload
	if err := json.Unmarshal(plain, &p); err != nil {
		// The parser's own words may repeat what it read.
		return "", internal(errors.New("decode sealed payload"))
	}
	return p.Destination, nil
}

// templateName is the friendly name, the id of a template that was removed, or null for free text.
func (a *API) templateName(m MessageView) *string {
	name := m.TemplateID
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		if t, ok := c.TemplateByID(m.TemplateID); ok {
			name = t.Name
		}
	})
	return orNull(name)
}

func (a *API) getEvents(ctx context.Context, in *idInput) (*timelineOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	caller, _ := ctx.Value(callerKey{}).(Caller)
	m, err := a.find(ctx, caller.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	entries, err := a.ports.Views.Timeline(ctx, caller.Scope(), m.ID)
	if err != nil { // a message does not disappear between two reads
		return nil, readError(err)
	}
	out := &timelineOutput{Body: Timeline{Data: make([]TimelineEvent, len(entries))}}
	for i, e := range entries {
		out.Body.Data[i] = TimelineEvent{Event: e.Event, Time: stamp(e.Time), Position: e.Position.String(), Attempt: e.Attempt}
	}
	return out, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
