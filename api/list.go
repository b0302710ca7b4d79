package api

import (
	"context"
	"net/http"
	"net/url"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
)

// MessageList is a page of messages, newest first.
type MessageList struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Data       []Message `json:"data" nullable:"false"`
	NextCursor *string   `json:"nextCursor" doc:"Give it as cursor, with the same filters, for the next page; null on the last one. Also in the header Link."`
}

type listInput struct {
	Status      string `query:"status" enum:"QUEUED,SENT,DELIVERED,READ,FAILED,CANCELED"`
	Stage       string `query:"stage" enum:"QUEUED,SENDING,UNCONFIRMED,DISPATCHED,SENT,DELIVERED,READ,FAILED,CANCELED" doc:"The inner state."`
	Category    string `query:"category" enum:"OTP,UTILITY,MARKETING"`
	Instance    string `query:"instance" doc:"Id of the instance it is sent from." example:"inst-7f3a"`
	CreatedFrom string `query:"createdFrom" format:"date-time" doc:"Accepted then or later."`
	CreatedTo   string `query:"createdTo" format:"date-time" doc:"Accepted before."`
	Destination string `query:"destinationNumber" doc:"Telephone number, in any form that a send takes. It is compared by a keyed hash." example:"+5511987654321"`
	Template    string `query:"template" doc:"Id or name of the template." example:"generic_notification"`
	Label       string `query:"label" doc:"One of its labels."`
	Limit       string `query:"limit" doc:"Most messages of a page."`
	Cursor      string `query:"cursor" doc:"nextCursor of the page before, with the same filters."`
}

type listOutput struct {
	Link string `header:"Link" doc:"The next page, relative to this one (RFC 8288): <?…>; rel=\"next\". Absent on the last one."`
	Body MessageList
}

func (a *API) registerList() {
	huma.Register(a.huma, huma.Operation{
		OperationID: "listMessages", Method: http.MethodGet, Path: "/v1/messages", Summary: "List messages",
		Description: "Newest first, in pages. A message that was there when the first page was read is on one page, once, unless its status " +
			"changes while a filter names one. The first page has every message that was accepted before, or the answer is 503.",
		Tags: []string{"messages"}, Security: keySecurity(events.ScopeRead),
		SkipValidateParams: true, // all faults at once, by rules of ours
		Responses: a.problemResponses(events.CodeValidation, events.CodeUnauthorized, CodeTenantSuspended, events.CodeInternal,
			events.CodeUnavailable),
	}, a.listMessages)
	one, most := 1.0, float64(maxPage)
	for _, p := range a.huma.OpenAPI().Paths["/v1/messages"].Get.Parameters {
		if p.Name == "limit" {
			p.Schema = &huma.Schema{Type: huma.TypeInteger, Minimum: &one, Maximum: &most, Default: defaultPage}
		}
	}
}

func (a *API) listMessages(ctx context.Context, in *listInput) (*listOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	caller, _ := ctx.Value(callerKey{}).(Caller)
	q, err := a.listQuery(ctx, caller, in)
	if err != nil {
		return nil, err
	}
	if err := a.catchUpList(ctx, q); err != nil {
		return nil, err
	}
	found, err := a.ports.Reads.Lists.Messages(ctx, q.scope, q.filter, q.after, q.limit+1)
	if err != nil {
		return nil, readError(err)
	}
	out := &listOutput{Body: MessageList{Data: make([]Message, min(len(found), q.limit))}}
	for i := range out.Body.Data {
		if out.Body.Data[i], err = a.messageBody(ctx, found[i]); err != nil {
			return nil, err
		}
	}
	if len(found) > q.limit {
		last := found[q.limit-1]
		cursor, err := a.cursor(ctx, q, ListPlace{CreatedAt: last.CreatedAt, ID: last.ID})
		if err != nil {
			return nil, err
		}
		out.Body.NextCursor, out.Link = &cursor, nextLink(in, cursor)
	}
	return out, nil
}

// nextLink repeats the query with another cursor. A reference of a query alone holds under every path that the API is
// served at.
func nextLink(in *listInput, cursor string) string {
	v := url.Values{"cursor": {cursor}}
	for name, value := range map[string]string{
		"status": in.Status, "stage": in.Stage, "category": in.Category, "instance": in.Instance, "createdFrom": in.CreatedFrom,
		"createdTo": in.CreatedTo, "destinationNumber": in.Destination, "template": in.Template, "label": in.Label, "limit": in.Limit,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return "<?" + v.Encode() + `>; rel="next"`
}

// catchUpList waits until the views have seen all that was in the log when a first page was asked for, so that a caller finds
// what it wrote. Where only older messages are asked for, nothing new can be among them.
func (a *API) catchUpList(ctx context.Context, q listQuery) error {
	if q.after != (ListPlace{}) || !q.filter.To.IsZero() && q.filter.To.Before(a.ports.Now().Add(-a.cfg.Young)) {
		return nil
	}
	n := partitionsOf(a.ports.Catalog)
	var parts []events.Partition
	switch {
	case n < 1: // nothing was ever accepted
	case q.filter.Instance != "":
		parts = []events.Partition{events.PartitionOf(q.filter.Instance, n)}
	default:
		for p := range n {
			parts = append(parts, events.Partition(p))
		}
	}
	errs := make([]error, len(parts))
	var waiting sync.WaitGroup
	for i, p := range parts {
		waiting.Go(func() { errs[i] = a.catchUp(ctx, p) })
	}
	waiting.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
