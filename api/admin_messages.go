package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
	"pilotstatus.dev/events/retry"
)

// CodeCancelRefused says that a message is not canceled; details.reason is the reason, as customers see it.
const CodeCancelRefused events.Code = "CANCEL_REFUSED"

// Originals finds accepted messages of any tenant, for operators. Errors are those of Views.
type Originals interface {
	// Place gives where a message was accepted, as far as the views know.
	Place(ctx context.Context, id string) (events.Position, error)
	// Event gives an event of the log whole.
	Event(ctx context.Context, at events.Position) (events.Recorded, error)
}

// AdminMessage is a message as operators see it: everything but number and content.
type AdminMessage struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID                string         `json:"id"`
	TenantID          string         `json:"tenantId"`
	ProjectID         string         `json:"projectId"`
	Environment       string         `json:"environment" enum:"TEST,LIVE"`
	KeyID             string         `json:"keyId" doc:"API key that sent it."`
	InstanceID        string         `json:"instanceId"`
	CorrelationID     string         `json:"correlationId"`
	Category          string         `json:"category" enum:"OTP,UTILITY,MARKETING"`
	Status            string         `json:"status" enum:"QUEUED,SENT,DELIVERED,READ,FAILED,CANCELED"`
	Stage             string         `json:"stage" enum:"QUEUED,SENDING,UNCONFIRMED,DISPATCHED,SENT,DELIVERED,READ,FAILED,CANCELED"`
	Attempts          int            `json:"attempts" minimum:"0"`
	CreatedAt         string         `json:"createdAt" format:"date-time"`
	DeliverAt         *string        `json:"deliverAt" format:"date-time"`
	DeliverUntil      *string        `json:"deliverUntil" format:"date-time"`
	ExternalMessageID *string        `json:"externalMessageId"`
	ErrorCode         *string        `json:"errorCode"`
	ErrorMessage      *string        `json:"errorMessage"`
	RetryOf           string         `json:"retryOf,omitempty" doc:"The message that an operator retried with this one."`
	Events            []AdminMoment  `json:"events" nullable:"false" doc:"What the log says of it, in its order."`
	Position          string         `json:"position" example:"2:1841" doc:"Place of its acceptance in the log."`
	Retry             *OperatorsWord `json:"retry,omitempty" doc:"Of a retry: who, and why."`
}

// AdminMoment is one event of a message.
type AdminMoment struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	TimelineEvent
	Word      *OperatorsWord `json:"word,omitempty" doc:"Where it is an operator's word."`
	RetriedAs string         `json:"retriedAs,omitempty" doc:"The new message that a retry made."`
}

// OperatorsWord is who said something, and why.
type OperatorsWord struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	By     string `json:"by" example:"operator:ana"`
	Reason string `json:"reason"`
	Forced bool   `json:"forced,omitempty" doc:"Although the message may have arrived."`
}

type adminMessageOutput struct{ Body AdminMessage }

// CanceledByOperator is a message that was canceled.
type CanceledByOperator struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID     string `json:"id"`
	Status string `json:"status" enum:"CANCELED"`
}

type canceledOutput struct{ Body CanceledByOperator }

type messageIDInput struct {
	ID string `path:"id" maxLength:"64" doc:"Message id." example:"msg_0198c5d3a6a07c2b8d1f0a9b8c7d6e02"`
}

type cancelByOperatorInput struct {
	Reasoned
	ID string `path:"id" maxLength:"64" doc:"Message id." example:"msg_0198c5d3a6a07c2b8d1f0a9b8c7d6e02"`
}

func (a *API) registerAdminMessages() {
	const path, tag = adminPrefix + "messages/{id}", "messages"
	get := a.adminOperation(http.MethodGet, path, "getAny", "message", tag, events.OperatorRead, events.CodeNotFound)
	get.Description += " A message of any tenant: state, attempts and events, without number and content."
	huma.Register(a.huma, get, a.getAnyMessage)
	stop := a.adminOperation(http.MethodPost, path+"/cancel", "cancelAny", "message", tag, events.OperatorSend, events.CodeNotFound, CodeCancelRefused)
	stop.Description += " Decided as for customers: 409 with details.reason ALREADY_SENDING, UNCONFIRMED, ALREADY_SENT or ALREADY_FINAL; 503 where it could not be decided in time. May be repeated."
	huma.Register(a.huma, stop, a.cancelByOperator)
	again := a.adminOperation(http.MethodPost, path+"/retry", "retry", "message", tag, events.OperatorSend, append([]events.Code{
		events.CodeNotFound, CodeContentErased, CodeInProgress, CodeKeyReused, CodeTenantSuspended, CodeProjectNotApproved, CodeNotInTestList,
		CodeOptedOut, CodeOptInRequired, CodeInstanceClosed, CodePlanLimit, CodeRecipientLimit, CodeSendingStopped, events.CodeNoInstance,
	}, retry.Codes()...)...)
	again.Description += " Not final: the next attempt is due now. Final: a new message with retryOf and a fresh window, under every rule of a send. Refused (409 RETRY_…) " +
		"unless the last outcome had no effect; where details.forceable is true, force takes the risk that it arrives twice, on record."
	huma.Register(a.huma, again, a.retryMessage)
}

// original finds an accepted message of any tenant: by the views, and in the log what they may not have.
func (a *API) original(ctx context.Context, id string) (events.Recorded, error) {
	p, _, ok := events.ParseMessageID(id)
	if !ok || int(p) >= partitionsOf(a.ports.Catalog) {
		return events.Recorded{}, errNoMessage()
	}
	if at, err := a.ports.Originals.Place(ctx, id); err == nil {
		rec, err := a.ports.Originals.Event(ctx, at)
		if err != nil {
			return rec, unavailable(err, "The log cannot be read right now.")
		}
		return rec, nil
	}
	w := windows([]string{id}, a.cfg.AcceptTimeout)[0]
	found, err := a.ports.Finder.Find(ctx, p, w.since, w.until, w.ids)
	if err != nil {
		return events.Recorded{}, unavailable(err, "The log cannot be read right now.")
	}
	rec, ok := found[id]
	if !ok {
		return rec, errNoMessage()
	}
	return rec, nil
}

// scopeOf is the scope that an accepted message lies in, and what it says.
func scopeOf(rec events.Recorded) (Scope, *events.MessageQueued, error) {
	q, ok := rec.Body.(*events.MessageQueued)
	if !ok {
		return Scope{}, nil, unavailable(nil, "The message was accepted by a newer version; it cannot be read here.")
	}
	return Scope{Tenant: rec.TenantID, Project: q.Project, Environment: q.Environment}, q, nil
}

func (a *API) getAnyMessage(ctx context.Context, in *messageIDInput) (*adminMessageOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	rec, err := a.original(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	scope, q, err := scopeOf(rec)
	if err != nil {
		return nil, err
	}
	m, err := a.find(ctx, scope, in.ID)
	if err != nil {
		return nil, err
	}
	entries, err := a.ports.Views.Timeline(ctx, scope, m.ID)
	if err != nil {
		return nil, readError(err)
	}
	addr, err := events.ParseEventSubject(rec.Address)
	if err != nil {
		return nil, internal(err)
	}
	out := &adminMessageOutput{Body: AdminMessage{
		ID: m.ID, TenantID: scope.Tenant, ProjectID: scope.Project, Environment: string(scope.Environment), KeyID: q.KeyID, InstanceID: addr.Instance,
		CorrelationID: m.CorrelationID, Category: string(m.Category), Status: string(m.Stage.Status()), Stage: string(m.Stage), Attempts: m.Attempts,
		CreatedAt: stamp(m.CreatedAt), DeliverAt: stampOrNull(m.DeliverAt), DeliverUntil: stampOrNull(m.DeliverUntil), ExternalMessageID: orNull(m.GatewayID),
		ErrorCode: orNull(string(m.ErrorCode)), ErrorMessage: orNull(failureText(m.ErrorCode)), RetryOf: q.RetryOf, Position: rec.Position.String(),
		Events: make([]AdminMoment, len(entries)),
	}}
	if q.Retry != nil {
		out.Body.Retry = &OperatorsWord{By: q.Retry.By, Reason: q.Retry.Reason, Forced: q.Retry.Force}
	}
	for i, e := range entries {
		if out.Body.Events[i], err = a.moment(ctx, e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// spoken are the events that may be an operator's word.
var spoken = []string{events.NameOf(events.TypeMessageRetryRequested), events.NameOf(events.TypeDispatchDisproved), events.NameOf(events.TypeDispatchClosed)}

func (a *API) moment(ctx context.Context, e TimelineEntry) (AdminMoment, error) {
	out := AdminMoment{TimelineEvent: TimelineEvent{Event: e.Event, Time: stamp(e.Time), Position: e.Position.String(), Attempt: e.Attempt}}
	if !slices.Contains(spoken, e.Event) {
		return out, nil
	}
	rec, err := a.ports.Originals.Event(ctx, e.Position)
	if err != nil {
		return out, unavailable(err, "The log cannot be read right now.")
	}
	switch b := rec.Body.(type) {
	case *events.MessageRetryRequested:
		out.Word, out.RetriedAs = &OperatorsWord{By: b.By, Reason: b.Reason, Forced: b.Force}, b.RetriedAs
	case *events.DispatchDisproved:
		if b.By == events.DisprovedOperator {
			out.Word = &OperatorsWord{By: b.Who, Reason: b.Reason, Forced: true}
		}
	case *events.DispatchClosed:
		if b.By != "" {
			out.Word = &OperatorsWord{By: b.By, Reason: b.Note}
		}
	default:
	}
	return out, nil
}

func (a *API) cancelByOperator(ctx context.Context, in *cancelByOperatorInput) (*canceledOutput, error) {
	begun := time.Now()
	by, err := authorOf(ctx, in.Reason)
	if err != nil {
		return nil, err
	}
	rec, err := a.original(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	scope, _, err := scopeOf(rec)
	if err != nil {
		return nil, err
	}
	said, err := a.canceler.cancel(ctx, scope, []string{in.ID}, by)
	if err != nil {
		return nil, err
	}
	a.cfg.Log.Info().Str("request_id", requestOf(ctx).id).Str("message_id", in.ID).Str("tenant", scope.Tenant).Str("by", by.by).
		Str("verdict", string(said[in.ID])).Dur("elapsed_ms", time.Since(begun)).Msg("cancel by an operator")
	switch v := said[in.ID]; v {
	case cancel.Canceled:
		return &canceledOutput{Body: CanceledByOperator{ID: in.ID, Status: string(events.StatusCanceled)}}, nil
	case cancel.NotFound:
		return nil, errNoMessage()
	case cancel.TryAgain:
		return nil, unavailable(nil, "It could not be decided in time, and the message may be canceled all the same; try again.")
	default:
		return nil, events.Errorf(CodeCancelRefused, "The message is not canceled: %s.", v).WithDetails("reason", string(v))
	}
}
