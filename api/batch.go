package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
)

// Limits of a batch.
const (
	MaxBatch      = 1000    // messages
	batchBody     = 4 << 20 // bytes
	batchParallel = 32      // recipients whose messages are accepted at the same time
	batchPath     = "/v1/messages/batch"
	ndjson        = "application/x-ndjson"
)

// batchRequest documents the JSON form with a member; an array of messages, or one message a line, are the others.
type batchRequest struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Messages []sendRequest `json:"messages" minItems:"1" maxItems:"1000" doc:"Each as the body of a send."`
}

// BatchItem is what became of one message of a batch.
type BatchItem struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Index    int            `json:"index" doc:"Of the message in the batch, from 0; of lines, empty ones not counted."`
	Status   int            `json:"status" example:"202" doc:"The HTTP status that a send of this message alone would have had."`
	Replayed bool           `json:"replayed,omitempty" doc:"It was accepted before, by the request that this one repeats."`
	Message  *QueuedMessage `json:"message,omitempty" doc:"Of 202."`
	Error    *Problem       `json:"error,omitempty" doc:"Of every other status."`
}

// BatchAnswer is the body of the answer to a batch.
type BatchAnswer struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Data     []BatchItem `json:"data" doc:"One for each message, in the order of the batch."`
	Accepted int         `json:"accepted"`
	Refused  int         `json:"refused" doc:"Those with another status than 202."`
}

type batchOutput struct{ Body BatchAnswer }

func (a *API) registerBatch() {
	op := huma.Operation{
		OperationID: "sendBatch", Method: http.MethodPost, Path: batchPath, DefaultStatus: http.StatusOK,
		Summary: "Send many messages", Tags: []string{"messages"}, Security: keySecurity(events.ScopeSend),
		Description: "At most 1,000 messages and 4 MiB, each judged by the rules of a send, by itself: 200 says that every message has an " +
			"answer in data, not that it was accepted. Messages to one number are accepted in their order. An Idempotency-Key covers " +
			"each message by its place: a repeated batch is answered message by message.",
		Metadata: map[string]any{limitsKey: bodyLimits{size: batchBody, timeout: 2 * a.cfg.BodyTimeout}},
		Responses: a.problemResponses(
			events.CodeValidation, events.CodeUnauthorized, CodeInsufficientScope, CodeTenantSuspended, CodeProjectNotApproved, CodeRequestTimeout,
			events.CodeTooLarge, CodeEncodingNotSupported, events.CodeInternal, events.CodeUnavailable),
	}
	huma.Register(a.huma, op, a.sendBatch)
	message := schemaOf[sendRequest](a.huma.OpenAPI().Components.Schemas)
	least, most := 1, MaxBatch
	a.huma.OpenAPI().Paths[batchPath].Post.RequestBody = &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{OneOf: []*huma.Schema{
				schemaOf[batchRequest](a.huma.OpenAPI().Components.Schemas),
				{Type: huma.TypeArray, Items: message, MinItems: &least, MaxItems: &most},
			}}},
			ndjson: {Schema: &huma.Schema{Type: huma.TypeString, Description: "One message a line, as JSON without line breaks."}},
		},
	}
}

func (a *API) sendBatch(ctx context.Context, in *sendInput) (*batchOutput, error) {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	whole := submission{caller: caller, trace: traceParent(in.TraceParent), path: batchPath, key: in.key}
	for _, rule := range []func(*draft, submission) error{a.acceptor.fresh, a.acceptor.approved} {
		if err := rule(&draft{}, whole); err != nil {
			return nil, err
		}
	}
	bodies, err := a.batch(in)
	if err != nil {
		return nil, err
	}
	if a.bursts.perSecond > 0 {
		noteLimit(ctx, a.bursts.charge(a.grantOf(caller.Key), caller.Key.ID, len(bodies)-1, a.ports.Now()))
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	items := make([]BatchItem, len(bodies))
	var all sync.WaitGroup
	slots := make(chan struct{}, batchParallel)
	for _, group := range byRecipient(bodies) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			for _, i := range group {
				s := whole
				s.body, s.item = bodies[i], strconv.Itoa(i)
				items[i] = a.batchItem(ctx, s, i)
			}
		})
	}
	all.Wait()
	out := &batchOutput{Body: BatchAnswer{Data: items}}
	for _, item := range items {
		if item.Status == http.StatusAccepted {
			out.Body.Accepted++
		} else {
			out.Body.Refused++
		}
	}
	return out, nil
}

// batchItem accepts or refuses one message. A panic over one is a 500 of that one.
func (a *API) batchItem(ctx context.Context, s submission, index int) (item BatchItem) {
	begun := time.Now()
	refuse := func(err error) BatchItem {
		p := problemOf(ctx, err)
		return BatchItem{Index: index, Status: p.Status, Error: p}
	}
	defer func() {
		if v := recover(); v != nil {
			item = refuse(fmt.Errorf("panic over a message of a batch: %T", v)) // its value may hold what was sent
		}
	}()
	var err error
	switch {
	case ctx.Err() != nil:
		err = unavailable(ctx.Err(), "There was no time left for this message; it was not accepted.")
	case int64(len(s.body)) > a.cfg.BodyLimit:
		err = events.Errorf(events.CodeTooLarge, "The message is larger than %d bytes.", a.cfg.BodyLimit)
	}
	if err != nil {
		return refuse(err)
	}
	m, err := a.acceptor.accept(ctx, s)
	if err != nil {
		return refuse(err)
	}
	a.logAccepted(ctx, s.caller, m, time.Since(begun))
	return BatchItem{Index: index, Status: http.StatusAccepted, Replayed: m.replayed, Message: &m.response}
}

// batch splits a body into its messages, which are not looked at yet.
func (a *API) batch(in *sendInput) ([]json.RawMessage, error) {
	if in.err != nil {
		return nil, in.err
	}
	var f faults
	bodies, rule, field := a.split(in)
	switch {
	case rule != "":
		f.add(field, rule)
	case len(bodies) == 0:
		f.add(field, ruleRequired)
	case len(bodies) > MaxBatch:
		f.add(field, ruleTooMany)
	}
	if in.keyRule != "" {
		f.add("Idempotency-Key", in.keyRule)
	}
	if len(f) > 0 {
		return nil, faultsError(f)
	}
	return bodies, nil
}

func (a *API) split(in *sendInput) (bodies []json.RawMessage, rule, field string) {
	if in.mediaType == ndjson {
		for line := range bytes.Lines(in.body) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				bodies = append(bodies, line)
			}
		}
		return bodies, "", "body"
	}
	raw, list := bytes.TrimSpace(in.body), false
	if list = bytes.HasPrefix(raw, []byte("[")); list { // the same as the member, whose checks it then has
		raw = bytes.Join([][]byte{[]byte(`{"messages":`), raw, []byte(`}`)}, nil)
	}
	members, rule := object(raw, a.cfg.BodyDepth+2)
	if rule != "" {
		return nil, rule, "body"
	}
	if list && !json.Valid(bytes.TrimSpace(in.body)) { // valid only with what was put around it
		return nil, ruleJSON, "body"
	}
	messages, given := members["messages"]
	if !given {
		return nil, ruleRequired, "messages"
	}
	if err := json.Unmarshal(messages, &bodies); err != nil {
		return nil, ruleWrongType, "messages"
	}
	return bodies, "", "messages"
}

// byRecipient groups messages by the number that they go to, each group in the order of the batch. What names no number is
// a group of its own.
func byRecipient(bodies []json.RawMessage) [][]int {
	var groups [][]int
	at := map[string]int{}
	for i, raw := range bodies {
		var to struct {
			DestinationNumber string `json:"destinationNumber"`
		}
		_ = json.Unmarshal(raw, &to) // it is judged in its turn
		r, err := recipient.Parse(to.DestinationNumber)
		if err != nil {
			groups = append(groups, []int{i})
			continue
		}
		g, known := at[r.Canonical()]
		if !known {
			g = len(groups)
			at[r.Canonical()] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}
