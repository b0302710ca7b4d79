package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
	"pilotstatus.dev/events/idempotency"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/events/retry"
)

// RetryOrder is what an operator asks for.
type RetryOrder struct {
	Force bool `json:"force,omitempty" doc:"Take the risk that the message arrives twice, where a refusal says forceable. On record, with the reason."`
}

// RetryResult is what a retry did.
type RetryResult struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID           string  `json:"id" doc:"The message that was retried."`
	Outcome      string  `json:"outcome" enum:"next_attempt,disproved,new_message" doc:"next_attempt: the next attempt is due now. disproved: the same, on the operator's word that the last call had no effect. new_message: a new message was accepted."`
	DueAt        *string `json:"dueAt" format:"date-time" doc:"The next attempt does not begin before; null for a new message."`
	MessageID    string  `json:"messageId,omitempty" doc:"The new message; its retryOf is id."`
	DeliverUntil string  `json:"deliverUntil" format:"date-time" doc:"No call starts after it."`
	Risk         bool    `json:"mayArriveTwice" doc:"Nothing but the operator's word says that the first did not arrive."`
}

type retryInput struct {
	Reasoned
	ID   string `path:"id" maxLength:"64" doc:"Message id." example:"msg_0198c5d3a6a07c2b8d1f0a9b8c7d6e02"`
	Key  string `header:"Idempotency-Key" required:"true" doc:"Names this retry for its repeats: one retry a key, kept 7 days. A second retry on purpose takes another key."`
	Body *RetryOrder

	key     string
	keyRule string
}

// Resolve reads the key as it came.
func (in *retryInput) Resolve(ctx huma.Context) []error {
	r, _ := humago.Unwrap(ctx)
	key, rule := idempotency.ParseKey(r.Header.Values(idempotency.Header))
	in.key, in.keyRule = key, string(rule)
	if key == "" && rule == "" {
		in.keyRule = ruleRequired
	}
	return nil
}

type retryOutput struct {
	Replayed string `header:"Idempotent-Replayed" enum:"true" doc:"There when this retry was made before, by the request that this one repeats."`
	Body     RetryResult
}

// retried is a message whose retry is being decided.
type retried struct {
	id          string
	rec         events.Recorded
	queued      *events.MessageQueued
	scope       Scope
	lane        events.Lane
	partition   events.Partition
	by          author
	force       bool
	now         time.Time
	fingerprint string
	slot        slotted
}

func (a *API) retryMessage(ctx context.Context, in *retryInput) (*retryOutput, error) {
	begun := time.Now()
	ctx, stop := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer stop()
	m, err := a.retried(ctx, in)
	if err != nil {
		return nil, err
	}
	result, replayed, err := a.repeatedRetry(ctx, m)
	if err == nil && !replayed {
		result, err = a.retry(ctx, m)
	}
	a.cfg.Log.Info().Str("request_id", requestOf(ctx).id).Str("message_id", m.id).Str("tenant", m.scope.Tenant).Str("by", m.by.by).
		Bool("force", m.force).Str("outcome", result.Outcome).Str("retried_as", result.MessageID).Bool("may_arrive_twice", result.Risk).
		Bool("replayed", replayed).Str("refused", string(events.CodeOf(err))).Dur("elapsed_ms", time.Since(begun)).Msg("retry by an operator")
	if err != nil {
		return nil, err
	}
	out := &retryOutput{Body: result}
	if replayed {
		out.Replayed = "true"
	}
	return out, nil
}

func (a *API) retried(ctx context.Context, in *retryInput) (*retried, error) {
	by, err := authorOf(ctx, in.Reason)
	if err != nil {
		return nil, err
	}
	if in.keyRule != "" {
		return nil, faultsError(faults{{Field: idempotency.Header, Rule: in.keyRule}})
	}
	m := &retried{id: in.ID, by: by, force: in.Body != nil && in.Body.Force, now: a.ports.Now().UTC().Truncate(time.Millisecond)}
	if m.rec, err = a.original(ctx, in.ID); err != nil {
		return nil, err
	}
	if m.scope, m.queued, err = scopeOf(m.rec); err != nil {
		return nil, err
	}
	addr, err := events.ParseEventSubject(m.rec.Address)
	if err != nil {
		return nil, internal(err)
	}
	m.lane, m.partition = addr.Lane, addr.Partition
	m.slot.name = idempotency.Request{
		Tenant: m.scope.Tenant, Environment: m.scope.Environment, Method: http.MethodPost, Path: adminPrefix + "messages/retry", Key: in.key, Item: in.ID,
	}.Name()
	m.fingerprint, err = idempotency.Fingerprint([]string{"operator", by.by, in.ID}, map[string]json.RawMessage{"force": json.RawMessage(strconv.FormatBool(m.force))})
	if err != nil {
		return nil, internal(err)
	}
	return m, nil
}

// repeatedRetry answers a retry that was made before: what it did is not decided anew.
func (a *API) repeatedRetry(ctx context.Context, m *retried) (result RetryResult, replayed bool, err error) {
	value, revision, err := a.ports.Claims.Get(ctx, m.slot.name)
	if err != nil {
		return result, false, outage(err, "It cannot be looked up whether this was done before; nothing was done now.")
	}
	m.slot.revision = revision
	if value == nil {
		return result, false, nil
	}
	var claim idempotency.Claim
	if err := json.Unmarshal(value, &claim); err != nil {
		return result, false, internal(err)
	}
	before, err := a.acceptor.resolve(ctx, claim, m.fingerprint, m.now)
	if err != nil || before == nil {
		return result, false, err
	}
	if claim.Pending() {
		a.acceptor.done(ctx, m.slot, claim)
	}
	if err := json.Unmarshal(claim.Response, &result); err != nil {
		return result, false, internal(err)
	}
	if result.MessageID != "" {
		a.tellOriginal(ctx, m, result)
	}
	return result, true, nil
}

// retry decides by what the log says now, and does it. What the fence refuses is decided anew.
func (a *API) retry(ctx context.Context, m *retried) (RetryResult, error) {
	// Receipts are in the views only: what they may say is waited for. Without them a message that may have arrived is not sent anew.
	current := a.catchUp(ctx, m.partition)
	g, err := a.groupOf(ctx, m)
	if err != nil {
		return RetryResult{}, err
	}
	budget := queue.DefaultRules().Attempts[m.lane.Class.Category()]
	for range cancelTries {
		last, err := a.canceler.read(ctx, m.partition, m.lane.Instance, g)
		if err != nil {
			return RetryResult{}, outage(err, "The log cannot be read right now; nothing was changed.")
		}
		record, doubt, whole := g.Facts(m.id)
		d, err := retry.Judge(retry.Facts{Record: record, InDoubt: doubt, Whole: whole, Budget: budget, DeliverUntil: m.rec.DeliverUntil}, m.force, m.now)
		if err != nil {
			return RetryResult{}, err
		}
		switch d.Action {
		case retry.Anew:
			if d.Risk && current != nil {
				return RetryResult{}, unavailable(current, "It is not known now whether the message arrived; nothing was changed.")
			}
			return a.sendAnew(ctx, m, d)
		case retry.Disprove:
			_, err = a.ports.Fence.Append(ctx, m.partition, m.lane.Instance, a.disproof(m, d.Attempt), last)
		default:
			_, err = a.ports.Log.Append(ctx, a.word(m, a.ports.NewID().String(), &events.MessageRetryRequested{By: m.by.by, Reason: m.by.reason}))
		}
		switch events.CodeOf(err) {
		case "":
			result := RetryResult{
				ID: m.id, Outcome: string(d.Action), DueAt: stampOrNull(later(m.now, m.rec.DeliverAt)), DeliverUntil: stamp(m.rec.DeliverUntil), Risk: d.Risk,
			}
			a.remember(ctx, m, result)
			return result, nil
		case events.CodeFenced: // something was decided meanwhile: what, is read
		default:
			return RetryResult{}, outage(err, "It is not known whether the retry is recorded; read the message, then try again.")
		}
	}
	return RetryResult{}, unavailable(nil, "Others were faster each time; try again.")
}

// groupOf gives the fenced group of the message's instance, to be read from where its facts are complete.
func (a *API) groupOf(ctx context.Context, m *retried) (*cancel.Group, error) {
	said := &verdicts{of: map[string]cancel.Verdict{}}
	found, _, err := a.canceler.locate(ctx, m.scope, []string{m.id}, said)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, unavailable(nil, "The message cannot be found right now; nothing was changed.")
	}
	g := cancel.NewGroup(found[0].after, []cancel.Message{found[0].Message})
	restored, err := a.ports.Fence.Restored(ctx, m.partition, m.lane.Instance)
	if err != nil {
		return nil, outage(err, "The log cannot be read right now; nothing was changed.")
	}
	if restored != nil {
		g.Restored(*restored)
	}
	return g, nil
}

func (a *API) disproof(m *retried, attempt int) events.Event {
	return events.Event{
		Envelope: events.Envelope{
			ID: a.ports.NewID().String(), Type: events.TypeDispatchDisproved, Source: "pilot/api", Time: m.now, Subject: m.id, TenantID: m.scope.Tenant,
			QueuedSeq: m.rec.Position.Sequence, Attempt: attempt,
		},
		Address: events.EventSubject(m.partition, m.lane.Instance, events.GroupDispatch, "disproved"),
		Body:    &events.DispatchDisproved{By: events.DisprovedOperator, Who: m.by.by, Reason: m.by.reason},
	}
}

// word is an operator's word about the message, outside the fenced group.
func (a *API) word(m *retried, id string, body *events.MessageRetryRequested) events.Event {
	return events.Event{
		Envelope: events.Envelope{
			ID: id, Type: events.TypeMessageRetryRequested, Source: "pilot/api", Time: m.now, Subject: m.id, TenantID: m.scope.Tenant,
			QueuedSeq: m.rec.Position.Sequence,
		},
		Address: events.EventSubject(m.partition, m.lane.Instance, events.GroupMessage, "retry_requested"),
		Body:    body,
	}
}

// remember keeps what a retry did for its repeats. It is done all the same when that fails: a repeat then decides anew.
func (a *API) remember(ctx context.Context, m *retried, result RetryResult) {
	response, err := json.Marshal(result)
	var value []byte
	if err == nil {
		value, err = json.Marshal(idempotency.Claim{Fingerprint: m.fingerprint, MessageID: m.id, Instance: m.lane.Instance, QueuedAt: m.now, Response: response})
	}
	ctx, stop := a.acceptor.behind(ctx)
	defer stop()
	if err == nil {
		_, err = a.ports.Claims.Put(ctx, m.slot.name, value, m.slot.revision, claimTTL)
	}
	if err != nil {
		a.cfg.Log.Warn().Err(err).Str("message_id", m.id).Str("outcome", result.Outcome).Msg("a retry is done, and not remembered for its repeats")
	}
}
