package api

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/idempotency"
)

// QueuedMessage is the body of a 202.
type QueuedMessage struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID            string `json:"id" example:"msg_0198c5d3a6a07c2b8d1f0a9b8c7d6e02" doc:"Stable and safe in a URL; the internalMessageId of every webhook."`
	CorrelationID string `json:"correlationId" example:"cor_0198c5d3a6a07c2b8d1f0a9b8c7d6f02"`
	Status        string `json:"status" enum:"QUEUED"`
	CreatedAt     string `json:"createdAt" format:"date-time" example:"2026-11-29T15:22:01.123Z"`
	Origin        string `json:"origin" example:"Pilot" doc:"Display name of the sending number."`
	SourceNumber  string `json:"sourceNumber" example:"5511900000000" doc:"Digits of the sending number; empty while it is not known."`
	DeliverUntil  string `json:"deliverUntil" format:"date-time" example:"2026-11-29T16:22:01.123Z" doc:"No call to the gateway starts after it."`
	// ExpectedDispatchAt is left out where nothing can be said.
	ExpectedDispatchAt string `json:"expectedDispatchAt,omitempty" format:"date-time" example:"2026-11-29T15:22:31.000Z" doc:"An estimate of when the message begins to leave, from what waits before it and the pace of the number. Absent when it cannot be said: scheduled for later, or the number is paused, not connected, or too little is known of it."`
}

// sendInput takes the body as it comes: what is wrong with it is said after the rules that go before it.
type sendInput struct {
	TraceParent    string `header:"traceparent" doc:"W3C trace context; ignored when invalid."`
	IdempotencyKey string `header:"Idempotency-Key" example:"\"8e03978e-40d5-43dd-bc93-6894a57f9324\"" doc:"Names this request for its repeats, quoted (RFC 8941) or bare, at most 255 printable ASCII characters; best a UUID. Kept 7 days."`

	body    []byte
	err     error
	key     string
	keyRule string

	mediaType string
}

// Resolve reads the body.
func (in *sendInput) Resolve(ctx huma.Context) []error {
	r, w := humago.Unwrap(ctx)
	limits, _ := ctx.Operation().Metadata[limitsKey].(bodyLimits)
	in.body, in.err = limits.read(w, r)
	key, rule := idempotency.ParseKey(r.Header.Values(idempotency.Header))
	in.key, in.keyRule = key, string(rule)
	in.mediaType, _, _ = mime.ParseMediaType(r.Header.Get("Content-Type")) // JSON is tried when it cannot be read
	return nil
}

const (
	sendPath  = "/v1/messages/send"
	limitsKey = "limits"
)

type bodyLimits struct {
	size    int64
	timeout time.Duration
}

func (l bodyLimits) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	// A writer without deadlines has no connection that could be slow.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.timeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, l.size))
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooLarge):
		return nil, events.Errorf(events.CodeTooLarge, "The request body is larger than %d bytes.", l.size)
	case errors.As(err, &network) && network.Timeout():
		return nil, events.Errorf(CodeRequestTimeout, "The request body did not arrive in time.")
	default:
		return nil, faultsError(faults{{Field: "body", Rule: ruleJSON}})
	}
}

type sendOutput struct {
	Location string `header:"Location" doc:"Where to read the message."`
	Replayed string `header:"Idempotent-Replayed" enum:"true" doc:"There when the message was accepted before, by the request that this one repeats."`
	Body     QueuedMessage
}

func (a *API) registerSend() {
	op := huma.Operation{
		OperationID: "sendMessage", Method: http.MethodPost, Path: sendPath, DefaultStatus: http.StatusAccepted,
		Summary: "Send a message", Tags: []string{"messages"}, Security: keySecurity(events.ScopeSend),
		Description: "A 202 means that the message is on disk. It ends in exactly one final status. Unknown fields are ignored. " +
			"After a 503 it may not be known whether the message was accepted: the same request again, with the same Idempotency-Key or " +
			"within 10 minutes with none, finds it.",
		Metadata: map[string]any{limitsKey: bodyLimits{size: a.cfg.BodyLimit, timeout: a.cfg.BodyTimeout}},
		Responses: a.problemResponses(
			events.CodeValidation, events.CodeMissingVariables, events.CodeInvalidVariable, CodeGroupNotSupported,
			CodeNewsletterNotSupported, CodeMediaNotSupported, events.CodeUnauthorized, CodeInsufficientScope,
			CodeTenantSuspended, CodeProjectNotApproved, events.CodeMarketingOwnNumber, events.CodeFreeTextOwnNumber, events.CodeTemplateNotFound,
			events.CodeNotApproved, events.CodeNotForProduction, events.CodeOtherProject, CodeNotInTestList, CodeInstanceClosed, CodeOptedOut, CodeOptInRequired, CodeRecipientLimit,
			CodePlanLimit, CodeSendingStopped, CodeKeyReused, CodeInProgress, CodeRequestTimeout, events.CodeTooLarge, CodeEncodingNotSupported, events.CodeNoInstance, events.CodeInternal,
			events.CodeUnavailable, CodeCannotDeliverInTime),
	}
	huma.Register(a.huma, op, a.send)
	documentSend(a.huma.OpenAPI())
}

func (a *API) send(ctx context.Context, in *sendInput) (*sendOutput, error) {
	begun := time.Now()
	caller, _ := ctx.Value(callerKey{}).(Caller)
	m, err := a.acceptor.accept(ctx, submission{
		caller: caller, body: in.body, bodyErr: in.err, trace: traceParent(in.TraceParent), path: sendPath, key: in.key, keyRule: in.keyRule,
	})
	if err != nil {
		return nil, err
	}
	a.logAccepted(ctx, caller, m, time.Since(begun))
	out := &sendOutput{Location: "/v1/messages/" + m.id, Body: m.response}
	if m.replayed {
		out.Replayed = "true"
	}
	return out, nil
}

// queuedMessage is the answer to an acceptance.
func queuedMessage(e events.Event, q *events.MessageQueued) QueuedMessage {
	return QueuedMessage{
		ID: e.ID, CorrelationID: q.CorrelationID, Status: string(events.StatusQueued), CreatedAt: stamp(e.Time), Origin: q.Origin,
		SourceNumber: q.SourceNumber, DeliverUntil: stamp(e.DeliverUntil),
	}
}

// logAccepted writes the one line of an acceptance: everything that is known of it and personal to nobody.
func (a *API) logAccepted(ctx context.Context, c Caller, m accepted, elapsed time.Duration) {
	if m.replayed {
		a.cfg.Log.Info().Str("request_id", requestOf(ctx).id).Str("message_id", m.id).Str("tenant", c.Key.TenantID).
			Str("key_id", c.Key.ID).Dur("elapsed_ms", elapsed).Msg("acceptance replayed")
		return
	}
	a.cfg.Log.Info().
		Str("request_id", requestOf(ctx).id).Str("message_id", m.event.ID).Str("correlation_id", m.queued.CorrelationID).
		Str("trace_parent", m.event.TraceParent).
		Str("tenant", c.Key.TenantID).Str("project", c.Key.ProjectID).Str("environment", string(c.Key.Environment)).
		Str("key_id", c.Key.ID).Str("instance", m.lane.Instance).Str("category", string(m.queued.Category)).
		Str("class", string(m.lane.Class)).Uint8("slot", m.lane.Slot).Str("template_id", m.queued.TemplateID).
		Time("deliver_at", m.event.DeliverAt).Time("deliver_until", m.event.DeliverUntil).
		Str("position", m.position.String()).Dur("elapsed_ms", elapsed).
		Msg("message accepted")
}
