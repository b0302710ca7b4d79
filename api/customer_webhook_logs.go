package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
)

// WebhookLog is one try to tell a webhook.
type WebhookLog struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Event      string          `json:"event" example:"message.delivered" doc:"webhook.disabled says that the webhook was switched off: see reason."`
	Status     string          `json:"status" enum:"SUCCESS,FAILED"`
	StatusCode *int            `json:"statusCode" doc:"HTTP status of the answer; null when none came."`
	Payload    json.RawMessage `json:"payload" doc:"The body that was posted, without number and content where they were erased; null where it is not known."`
	Response   *string         `json:"response" doc:"The first KiB of what the webhook answered, bytes that are no UTF-8 replaced; null when it said nothing, and once the content of the message was erased."`
	DurationMS int64           `json:"durationMs" minimum:"0"`
	CreatedAt  string          `json:"createdAt" format:"date-time"`
	WebhookID  string          `json:"webhookId" doc:"The header webhook-id: the same for every try of one event."`
	MessageID  string          `json:"messageId" doc:"Id of the message, as in the 202."`
	Attempt    int             `json:"attempt" minimum:"0" doc:"The try, from 1; 0 where none was made, since the webhook had been switched off."`
	Reason     *string         `json:"reason" example:"timeout" doc:"Why it failed, in a word; null for a success."`
	NextAt     *string         `json:"nextAt" format:"date-time" doc:"When the next try is due; null when none follows."`
}

type webhookLogsInput struct {
	ID    string `path:"id" maxLength:"100"`
	Limit int    `query:"limit" minimum:"1" maximum:"50" default:"50" doc:"Most tries."`
}

func (a *API) registerWebhookLogs(path, tag, scope string) {
	op := a.customerOperation(http.MethodGet, path, "listWebhookLogs", "List the newest tries to tell a webhook", tag, scope, CodeWebhookNotFound)
	op.Description = "The newest first, of the last 30 days. Tries come into the list within seconds."
	huma.Register(a.huma, op, func(ctx context.Context, in *webhookLogsInput) (*listed[WebhookLog], error) {
		ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
		defer cancel()
		caller, _ := callerOf(ctx)
		e, err := a.webhook(caller.Key, in.ID)
		if err != nil {
			return nil, err
		}
		tries, err := a.ports.Reads.Deliveries.Deliveries(ctx, e.TenantID, e.ID, 0, in.Limit)
		if err != nil {
			return nil, readError(err)
		}
		out := &listed[WebhookLog]{Body: make([]WebhookLog, len(tries))}
		for i, d := range tries {
			if out.Body[i], err = a.webhookLog(ctx, e.TenantID, d); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

func (a *API) webhookLog(ctx context.Context, tenant string, d DeliveryView) (WebhookLog, error) {
	body, err := a.deliveryBody(ctx, tenant, d)
	if err != nil {
		return WebhookLog{}, err
	}
	response, err := a.deliveryResponse(ctx, tenant, d)
	if err != nil {
		return WebhookLog{}, err
	}
	l := WebhookLog{
		Event: d.Event, Status: "FAILED", Payload: body, Response: response, DurationMS: d.Elapsed.Milliseconds(), CreatedAt: stamp(d.At),
		WebhookID: d.WebhookID, MessageID: d.MessageID, Attempt: d.Attempt, Reason: orNull(d.Reason), NextAt: stampOrNull(d.NextAt),
	}
	if d.Result == events.HookSucceeded {
		l.Status = "SUCCESS"
	}
	if d.HTTPStatus > 0 {
		l.StatusCode = &d.HTTPStatus
	}
	return l, nil
}
