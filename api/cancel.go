package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
	"pilotstatus.dev/infra/failpoint"
)

// MaxCancel is the most messages one request may cancel.
const MaxCancel = 100

// cancelRequest is the body of a cancel.
type cancelRequest struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	MessageIDs []string `json:"messageIds" minItems:"1" maxItems:"100" nullable:"false" doc:"Message ids, as the 202 of a send gave them. One that is given again counts once."`
}

// CancelResult is the body of a cancel's 200.
type CancelResult struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Cancelled []string      `json:"cancelled" nullable:"false" doc:"Canceled for good: none of them is ever sent. In the order of the request."`
	Failed    []NotCanceled `json:"failed" nullable:"false" doc:"The others, unchanged but for TRY_AGAIN. In the order of the request."`
}

// NotCanceled is a message that was not canceled.
type NotCanceled struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID     string `json:"id"`
	Reason string `json:"reason" enum:"NOT_FOUND,ALREADY_SENDING,UNCONFIRMED,ALREADY_SENT,ALREADY_FINAL,TRY_AGAIN" doc:"NOT_FOUND: no such message for this key. ALREADY_SENDING: a call to the gateway is under way. UNCONFIRMED: an earlier call may have had an effect. ALREADY_SENT: it left. ALREADY_FINAL: it FAILED. TRY_AGAIN: it could not be decided in time, and may be canceled all the same."`
}

type cancelInput struct {
	body []byte
	err  error
}

// Resolve reads the body.
func (in *cancelInput) Resolve(ctx huma.Context) []error {
	r, w := humago.Unwrap(ctx)
	limits, _ := ctx.Operation().Metadata[limitsKey].(bodyLimits)
	in.body, in.err = limits.read(w, r)
	return nil
}

type cancelOutput struct{ Body CancelResult }

func (a *API) registerCancel() {
	huma.Register(a.huma, huma.Operation{
		OperationID: "cancelMessages", Method: http.MethodDelete, Path: "/v1/messages/cancel", Summary: "Cancel messages",
		Description: "Cancels what has not begun to leave, scheduled or waiting. Each message is decided by itself. A message that was canceled " +
			"before is canceled: a request may be repeated. The customer's endpoints hear nothing of a cancel.",
		Tags: []string{"messages"}, Security: keySecurity(events.ScopeSend),
		Metadata: map[string]any{limitsKey: bodyLimits{size: a.cfg.BodyLimit, timeout: a.cfg.BodyTimeout}},
		Responses: a.problemResponses(events.CodeValidation, events.CodeUnauthorized, CodeInsufficientScope, CodeTenantSuspended, CodeRequestTimeout,
			events.CodeTooLarge, CodeEncodingNotSupported, events.CodeInternal, events.CodeUnavailable),
	}, a.cancel)
	doc := a.huma.OpenAPI()
	doc.Paths["/v1/messages/cancel"].Delete.RequestBody = &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{"application/json": {
			Schema:  schemaOf[cancelRequest](doc.Components.Schemas),
			Example: map[string]any{"messageIds": []string{"msg_0198c5d3a6a07c2b8d1f0a9b8c7d6e02"}},
		}},
	}
}

func (a *API) cancel(ctx context.Context, in *cancelInput) (*cancelOutput, error) {
	begun := time.Now()
	if in.err != nil {
		return nil, in.err
	}
	ids, err := decodeCancel(in.body, a.cfg.BodyDepth)
	if err != nil {
		return nil, err
	}
	caller, _ := ctx.Value(callerKey{}).(Caller)
	verdicts, err := a.canceler.cancel(ctx, caller.Scope(), ids, author{})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("api.cancel_before_answer")
	out := &cancelOutput{Body: CancelResult{Cancelled: []string{}, Failed: []NotCanceled{}}}
	for _, id := range ids {
		if v := verdicts[id]; v == cancel.Canceled {
			out.Body.Cancelled = append(out.Body.Cancelled, id)
		} else {
			out.Body.Failed = append(out.Body.Failed, NotCanceled{ID: id, Reason: string(v)})
		}
	}
	a.cfg.Log.Info().Str("request_id", requestOf(ctx).id).Str("tenant", caller.Key.TenantID).Str("project", caller.Key.ProjectID).
		Str("environment", string(caller.Key.Environment)).Str("key_id", caller.Key.ID).Int("messages", len(ids)).
		Int("canceled", len(out.Body.Cancelled)).Dur("elapsed_ms", time.Since(begun)).Msg("messages canceled")
	return out, nil
}

// decodeCancel gives the ids of a body, each once, in the order of their first place; all faults of the body at once.
func decodeCancel(raw []byte, maxDepth int) ([]string, error) {
	members, rule := object(raw, maxDepth)
	if rule != "" {
		return nil, faultsError(faults{{Field: "body", Rule: rule}})
	}
	const field = "messageIds"
	var items []json.RawMessage
	list, given := members[field]
	switch {
	case !given || string(list) == "null":
		return nil, faultsError(faults{{Field: field, Rule: ruleRequired}})
	case json.Unmarshal(list, &items) != nil:
		return nil, faultsError(faults{{Field: field, Rule: ruleWrongType}})
	case len(items) == 0:
		return nil, faultsError(faults{{Field: field, Rule: ruleRequired}})
	case len(items) > MaxCancel:
		return nil, faultsError(faults{{Field: field, Rule: ruleTooMany}})
	}
	var f faults
	var ids []string
	seen := map[string]bool{}
	for i, item := range items {
		var id *string
		at := fmt.Sprintf("%s[%d]", field, i)
		switch err := json.Unmarshal(item, &id); {
		case err != nil:
			f.add(at, ruleWrongType)
		case id == nil || *id == "":
			f.add(at, ruleRequired)
		case len(*id) > maxIDLength:
			f.add(at, ruleTooLong)
		case !seen[*id]:
			seen[*id] = true
			ids = append(ids, *id)
		}
	}
	if len(f) > 0 {
		return nil, faultsError(f)
	}
	return ids, nil
}
