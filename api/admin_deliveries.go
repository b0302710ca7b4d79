package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/policy"
)

// AdminDelivery is one try to tell an endpoint, as operators see it: without number and content.
type AdminDelivery struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Place      uint64          `json:"place" doc:"Its place in the log of deliveries: before of the next page."`
	WebhookID  string          `json:"webhookId" doc:"The header webhook-id: of every try of one event to one endpoint, replays included."`
	MessageID  string          `json:"messageId"`
	Event      string          `json:"event" example:"message.delivered" doc:"webhook.disabled: the endpoint was switched off."`
	Attempt    int             `json:"attempt" doc:"The try, from 1; 0 where none was made, since the endpoint was off."`
	Result     string          `json:"result" enum:"succeeded,failed,exhausted" doc:"failed: another try follows; exhausted: none does."`
	StatusCode *int            `json:"statusCode" doc:"HTTP status of the answer; null when none came."`
	Reason     *string         `json:"reason" example:"timeout" doc:"Why it is no success, in a word."`
	Response   *string         `json:"response" doc:"The first KiB of the endpoint's answer; null without one, once the message's content is erased, and without the scope write."`
	DurationMS int64           `json:"durationMs"`
	CreatedAt  string          `json:"createdAt" format:"date-time"`
	NextAt     *string         `json:"nextAt" format:"date-time"`
	Replay     *DeliveryReplay `json:"replay,omitempty" doc:"Whose replay it is a try of; absent for the tries that the event itself brought."`
}

// DeliveryReplay says who had a delivery made again, and why.
type DeliveryReplay struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	By     string `json:"by" example:"operator:ana"`
	Reason string `json:"reason"`
	At     string `json:"at" format:"date-time"`
}

// ReplaySettings choose deliveries to be made again.
type ReplaySettings struct {
	From    string   `json:"from" format:"date-time" doc:"Newest try at or after."`
	To      string   `json:"to,omitempty" format:"date-time" doc:"Newest try before; now when absent."`
	Results []string `json:"results,omitempty" doc:"Of the newest try: exhausted when absent; failed ones are tried again by themselves, but later."`
	After   uint64   `json:"after,omitempty" doc:"next of the answer before."`
	Limit   int      `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"100" doc:"Most deliveries."`
}

// ReplayAnswer says what is made again.
type ReplayAnswer struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Replayed []string `json:"replayed" nullable:"false" doc:"webhook-ids, the oldest try first."`
	Erased   []string `json:"erased" nullable:"false" doc:"webhook-ids that cannot be made again: their number and content are erased."`
	Next     uint64   `json:"next,omitempty" doc:"To be given as after for those behind them; absent when there are none."`
}

type (
	deliveriesInput struct {
		ID     string `path:"id" maxLength:"64"`
		Before uint64 `query:"before" doc:"place of the last try of the page before."`
		Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	}
	replayInput struct {
		Reasoned
		ID       string `path:"id" maxLength:"64"`
		Delivery string `path:"delivery" maxLength:"64" doc:"Its webhook-id."`
	}
	replaysInput struct {
		Reasoned
		ID   string `path:"id" maxLength:"64"`
		Body ReplaySettings
	}
)

// CodeContentErased says that an event can no longer be told as it was: every try of it has the same body.
const CodeContentErased events.Code = "CONTENT_ERASED"

// registerAdminDeliveries registers what operators do with deliveries to endpoints.
func (a *API) registerAdminDeliveries() {
	const tag, base = "endpoints", adminPrefix + "endpoints/{id}/"
	list := a.adminOperation(http.MethodGet, base+"deliveries", "list", "endpointDeliveries", tag, events.OperatorRead, events.CodeNotFound)
	list.Description += " Tries of the last 30 days, the newest first."
	huma.Register(a.huma, list, a.listDeliveries)
	one := a.adminOperation(http.MethodPost, base+"deliveries/{delivery}/replay", "replay", "delivery", tag, events.OperatorWrite, events.CodeNotFound, CodeContentErased)
	one.Description += " One more row of tries under the same webhook-id, each with a new timestamp and signature. The endpoint must be on."
	huma.Register(a.huma, one, func(ctx context.Context, in *replayInput) (*bodyOf[ReplayAnswer], error) {
		e, by, err := a.replayable(ctx, in.ID, in.Reason)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
		defer cancel()
		d, err := a.ports.Reads.Deliveries.Delivery(ctx, e.TenantID, e.ID, in.Delivery)
		if events.CodeOf(err) == events.CodeNotFound {
			return nil, errNoEntity()
		}
		if err != nil {
			return nil, readError(err)
		}
		if err := a.replay(ctx, e, d, by); err != nil {
			return nil, err
		}
		return &bodyOf[ReplayAnswer]{Body: ReplayAnswer{Replayed: []string{d.WebhookID}, Erased: []string{}}}, nil
	})
	many := a.adminOperation(http.MethodPost, base+"replay-deliveries", "replay", "deliveries", tag, events.OperatorWrite, events.CodeNotFound)
	many.Description += " Deliveries whose newest try falls in the time and has one of the results, the oldest first: what an endpoint missed while it was down or off."
	huma.Register(a.huma, many, func(ctx context.Context, in *replaysInput) (*bodyOf[ReplayAnswer], error) {
		e, by, err := a.replayable(ctx, in.ID, in.Reason)
		if err != nil {
			return nil, err
		}
		return a.replayMany(ctx, e, in.Body, by)
	})
}

// endpointOf gives an endpoint of any tenant.
func (a *API) endpointOf(id string) (events.Endpoint, error) {
	e, _, found := findEntity(a.ports.Catalog, entity[events.Endpoint]{kind: events.KindEndpoint, get: (*catalog.Catalog).Endpoint}, id)
	if !found {
		return e, errNoEntity()
	}
	return e, nil
}

// replayable gives an endpoint that takes deliveries, and who has them made.
func (a *API) replayable(ctx context.Context, id, reason string) (events.Endpoint, author, error) {
	by, err := authorOf(ctx, reason)
	if err != nil {
		return events.Endpoint{}, by, err
	}
	e, err := a.endpointOf(id)
	if err == nil && !e.Active {
		err = events.Errorf(events.CodeConflict, "The endpoint is off: switch it on first.")
	}
	return e, by, err
}

func (a *API) listDeliveries(ctx context.Context, in *deliveriesInput) (*bodyOf[Page[AdminDelivery]], error) {
	e, err := a.endpointOf(in.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	tries, err := a.ports.Reads.Deliveries.Deliveries(ctx, e.TenantID, e.ID, in.Before, in.Limit)
	if err != nil {
		return nil, readError(err)
	}
	out := &bodyOf[Page[AdminDelivery]]{Body: Page[AdminDelivery]{Data: []AdminDelivery{}}}
	for _, d := range tries {
		v := AdminDelivery{
			Place: d.Place, WebhookID: d.WebhookID, MessageID: d.MessageID, Event: d.Event, Attempt: d.Attempt, Result: d.Result, Reason: orNull(d.Reason),
			DurationMS: d.Elapsed.Milliseconds(), CreatedAt: stamp(d.At), NextAt: stampOrNull(d.NextAt),
		}
		if d.HTTPStatus > 0 {
			v.StatusCode = &d.HTTPStatus
		}
		if d.Made != nil && d.Made.Replay != nil {
			v.Replay = &DeliveryReplay{By: d.Made.Replay.By, Reason: d.Made.Replay.Reason, At: stamp(d.Made.Replay.At)}
		}
		if slices.Contains(operatorOf(ctx).Scopes, events.OperatorWrite) { // an endpoint may repeat what it was told
			if v.Response, err = a.deliveryResponse(ctx, e.TenantID, d); err != nil {
				return nil, err
			}
		}
		out.Body.Data = append(out.Body.Data, v)
	}
	if n := len(tries); n == in.Limit {
		out.Body.Next = strconv.FormatUint(tries[n-1].Place, 10)
	}
	return out, nil
}

// replay stores one more delivery of an event whose newest try is d. Its nonce makes it another than every replay before it.
func (a *API) replay(ctx context.Context, e events.Endpoint, d DeliveryView, by author) error {
	if d.Made == nil {
		return events.Errorf(events.CodeConflict, "It is not known what this was made from; it cannot be made again.")
	}
	if d.Made.WithContent {
		switch p, err := a.deliveryPayload(ctx, e.TenantID, d); {
		case err != nil:
			return err
		case p == nil && d.Sealed.KeyID == "":
			return unavailable(nil, "The message is not in the views yet; try again.")
		case p == nil:
			return events.Errorf(CodeContentErased, "Number and content are erased: the event can no longer be told as it was.")
		}
	}
	now := a.ports.Now().UTC().Truncate(time.Millisecond)
	made := *d.Made
	made.Attempt = d.Attempt
	made.Replay = &events.HookReplay{Nonce: "r" + hexID(a.ports.NewID()), After: d.Attempt, By: by.by, Reason: by.reason, At: now}
	_, err := a.ports.Hooks.Append(ctx, events.Event{
		Envelope: events.Envelope{
			ID: d.WebhookID, Type: events.TypeHookDelivery, Source: "pilot/api", Time: now, Subject: d.MessageID, TenantID: e.TenantID,
			QueuedSeq: made.Queued.Sequence,
		},
		Address: events.HookSubject(e.ID), DedupID: made.TryID(d.WebhookID, made.Attempt), Body: &made,
	})
	if err != nil {
		return outage(err, "It is not known whether the delivery is made again; look at its tries.")
	}
	return nil
}

func (a *API) replayMany(ctx context.Context, e events.Endpoint, s ReplaySettings, by author) (*bodyOf[ReplayAnswer], error) {
	var f faults
	from, to := timeOf(&f, "from", s.From), timeOf(&f, "to", s.To)
	if s.To == "" {
		to = a.ports.Now()
	}
	if s.From == "" {
		f.add("from", ruleRequired)
	}
	if len(s.Results) == 0 {
		s.Results = []string{events.HookExhausted}
	}
	for i, r := range s.Results {
		if r != events.HookExhausted && r != events.HookFailed {
			f.add("results["+strconv.Itoa(i)+"]", policy.RuleUnknown)
		}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if s.Limit == 0 {
		s.Limit = 100
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	all, err := a.ports.Reads.Deliveries.Ended(ctx, e.TenantID, e.ID, EndedFilter{Results: s.Results, From: from, To: to, After: s.After}, s.Limit)
	if err != nil {
		return nil, readError(err)
	}
	out := ReplayAnswer{Replayed: []string{}, Erased: []string{}}
	for i, d := range all {
		switch err := a.replay(ctx, e, d, by); {
		case events.CodeOf(err) == CodeContentErased:
			out.Erased = append(out.Erased, d.WebhookID)
		case err != nil && i == 0:
			return nil, err
		case err != nil: // what is done is told; the caller goes on behind it
			out.Next = all[i-1].Place
			return &bodyOf[ReplayAnswer]{Body: out}, nil
		default:
			out.Replayed = append(out.Replayed, d.WebhookID)
		}
	}
	if n := len(all); n == s.Limit {
		out.Next = all[n-1].Place
	}
	return &bodyOf[ReplayAnswer]{Body: out}, nil
}
