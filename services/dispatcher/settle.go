package dispatcher

import (
	"cmp"
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolution"
)

// settle appends the outcome of an attempt. It is retried until it is in the log or the process ends, and nothing else of
// this instance is taken meanwhile; what the fence refuses is decided anew from the fold (rule R1).
func (a *actor) settle(ctx context.Context, inst events.Instance, j job, s *intent, out outcome) {
	if out.verdict.Code == evolution.CauseRateLimited { // the limit is of the instance: the others behind it wait as long
		a.holdoff.limited(out.verdict.RetryAfter, a.p.d.set.Now(), a.p.d.draw()) // before the log tells an operator, whose word ends it
	}
	wait := backoff.NewExponentialBackOff()
	wait.MaxInterval = 5 * time.Second
	unsaid := false
	for ctx.Err() == nil {
		err := a.decide(ctx, func(q *queue.Queue, _ time.Time) decision { return a.outcome(q, j, s, out) })
		if err == nil {
			break
		}
		if !unsaid {
			unsaid = true
			a.unsaid.Add(1)
			defer a.unsaid.Add(-1)
		}
		a.log.Warn().Err(err).Str("message", j.id).Int("attempt", j.attempt).Msg("outcome not confirmed")
		await.Elapsed(ctx, wait.NextBackOff())
	}
	a.report(j, s, out)
	if out.result.ForeignJID {
		a.p.d.metrics.strayed(out.verdict.RemoteJID)
		a.append(ctx, a.evidence(events.TypeEvidenceAnomaly, "anomaly", j, &events.EvidenceAnomaly{Kind: events.AnomalyJIDMismatch}))
	}
	if out.late != "" {
		a.writtenLate(ctx, j, out.late)
	}
	if out.verdict.Park && out.verdict.Outcome == evolution.Deferred {
		a.park(ctx, inst, out.verdict)
	}
	a.felt(ctx, inst, out)
}

// outcome says what the fold allows to be appended of an outcome.
func (a *actor) outcome(q *queue.Queue, j job, s *intent, out outcome) decision {
	e, ok := q.Entry(j.id)
	if !ok {
		return a.late(j, out)
	}
	sum, at := e.Summary(), attemptOf(e, j.attempt)
	switch {
	case at.State == message.AttemptOpen && at.Nonce == s.nonce:
		ev := a.outcomeEvent(j, out)
		return decision{fenced: &ev}
	case at.Nonce != s.nonce:
		return decision{} // another life's attempt: ours never stood
	case at.State == message.AttemptDisproved && out.verdict.Outcome == evolution.Accepted && !sum.Settled(): // an operator was wrong
		ev := a.proved(j.message(), j.lane.Tenant, j.attempt, events.ProofLate, out.verdict.GatewayID)
		return decision{fenced: &ev}
	case at.State == message.AttemptUnknown && sum.End == nil && !sum.Proved: // a successor called it unknown
		switch out.verdict.Outcome {
		case evolution.Accepted:
			ev := a.proved(j.message(), j.lane.Tenant, j.attempt, events.ProofLate, out.verdict.GatewayID)
			return decision{fenced: &ev}
		case evolution.Refused, evolution.Deferred:
			body := &events.DispatchDisproved{By: events.DisprovedLate}
			if out.verdict.Outcome == evolution.Refused {
				body.Code = events.ErrorCode(out.verdict.Code)
			}
			ev := a.event(events.TypeDispatchDisproved, "disproved", j.message(), j.lane.Tenant, j.attempt, body)
			return decision{fenced: &ev}
		default:
			return decision{}
		}
	case stands(at.State, out.verdict.Outcome):
		return decision{} // an earlier try of this append landed
	}
	return a.late(j, out)
}

// stands reports whether the log already says of the attempt what the outcome says.
func stands(s message.AttemptState, o evolution.Outcome) bool {
	switch s {
	case message.AttemptAccepted, message.AttemptProved:
		return o == evolution.Accepted
	case message.AttemptRefused:
		return o == evolution.Refused
	case message.AttemptDeferred, message.AttemptDisproved:
		return o == evolution.Deferred || o == evolution.Refused
	case message.AttemptUnknown:
		return o == evolution.Unknown
	default:
		return false
	}
}

func (a *actor) late(j job, out outcome) decision {
	if out.verdict.Outcome == evolution.Unknown || !out.called {
		return decision{}
	}
	ev := a.evidence(events.TypeEvidenceLate, "late", j,
		&events.EvidenceLate{Outcome: string(out.verdict.Outcome), Cause: out.verdict.Code, HTTPStatus: out.result.Status})
	ev.ID = j.id + ".late." + newID()
	return decision{plain: &ev}
}

func (a *actor) outcomeEvent(j job, out outcome) events.Event {
	v, ms := out.verdict, out.elapsed.Milliseconds()
	switch {
	case v.Outcome == evolution.Accepted:
		body := &events.DispatchAccepted{HTTPStatus: out.result.Status, ElapsedMS: ms}
		if !v.MessageTimestamp.IsZero() {
			body.Timestamp = v.MessageTimestamp.Unix()
		}
		if out.result.ForeignJID {
			body.Anomaly = events.AnomalyJIDMismatch
		}
		ev := a.event(events.TypeDispatchAccepted, "accepted", j.message(), j.lane.Tenant, j.attempt, body)
		ev.GatewayID = v.GatewayID
		return ev
	case v.Outcome == evolution.Refused && out.called:
		return a.event(events.TypeDispatchRefused, "refused", j.message(), j.lane.Tenant, j.attempt,
			&events.DispatchRefused{Code: events.ErrorCode(v.Code), Cause: cmp.Or(out.cause, v.Code), HTTPStatus: out.result.Status, ElapsedMS: ms})
	case v.Outcome == evolution.Unknown && out.called:
		return a.event(events.TypeDispatchUnknown, "unknown", j.message(), j.lane.Tenant, j.attempt,
			&events.DispatchUnknown{Cause: v.Code, HTTPStatus: out.result.Status, ElapsedMS: ms})
	case v.Outcome == evolution.Refused: // found unsendable before a byte left: the same next time
		return a.event(events.TypeDispatchRefused, "refused", j.message(), j.lane.Tenant, j.attempt,
			&events.DispatchRefused{Code: events.ErrorCode(v.Code), Cause: v.Code, ElapsedMS: ms})
	}
	body := &events.DispatchDeferred{
		Cause: v.Code, Called: out.called, DueAt: out.dueAt, HTTPStatus: out.result.Status, ElapsedMS: ms, Limited: v.Code == evolution.CauseRateLimited,
	}
	if out.result.Stopped != nil {
		body.Cause = causeStopped
	}
	if v.Park {
		body.Park = string(v.Scope)
	}
	ev := a.event(events.TypeDispatchDeferred, "deferred", j.message(), j.lane.Tenant, j.attempt, body)
	ev.Called, ev.DueAt = body.Called, body.DueAt
	return ev
}

func (a *actor) proved(m events.ClosedMessage, tenant string, attempt int, by, gatewayID string) events.Event {
	ev := a.event(events.TypeDispatchProved, "proved", m, tenant, attempt, &events.DispatchProved{By: by})
	ev.GatewayID = gatewayID
	return ev
}

// append appends an event outside the fenced group and waits until the fold has it. Nothing depends on it: a failure is logged,
// not retried.
func (a *actor) append(ctx context.Context, ev events.Event) (kept bool) {
	try, cancel := context.WithTimeout(ctx, a.p.d.set.AppendTry)
	defer cancel()
	done, err := a.appends(try)
	if err == nil {
		defer done()
		var ack eventlog.Ack
		if ack, err = a.p.log.Append(try, ev); err == nil {
			err = a.p.wait(try, ack.Sequence)
		}
	}
	if err != nil {
		a.log.Warn().Err(err).Str("type", ev.Type).Msg("append event")
	}
	return err == nil
}

// report writes the one wide line of an attempt.
func (a *actor) report(j job, s *intent, out outcome) {
	a.p.d.metrics.attempt(j, s, out)
	line := a.log.Info()
	if out.alert {
		line = a.log.Error()
	}
	line.Str("message", j.id).Str("tenant", j.lane.Tenant).Str("class", string(j.lane.Class)).Int("attempt", j.attempt).
		Str("outcome", string(out.verdict.Outcome)).Str("code", out.verdict.Code).Str("scope", string(out.verdict.Scope)).
		Bool("called", out.called).Int("http_status", out.result.Status).Dur("elapsed", out.elapsed).
		Dur("waited", s.begun.Sub(j.acceptedAt)).Str("position", events.Position{Partition: a.p.n, Sequence: s.seq}.String()).
		AnErr("cause", out.result.Err).Msg("attempt")
}
