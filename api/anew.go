package api

import (
	"context"
	"encoding/json"
	"errors"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/idempotency"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/events/retry"
	"pilotstatus.dev/infra/failpoint"
)

// sendAnew accepts a final message once more, as a new one with retryOf and a window as long as the first: under the rules of a send
// that can have changed since, and counted again.
func (a *API) sendAnew(ctx context.Context, m *retried, d retry.Decision) (RetryResult, error) {
	dr, s, plain, err := a.judgeAnew(ctx, m)
	if err != nil {
		return RetryResult{}, err
	}
	id := events.MessageID(a.ports.NewID(), m.partition)
	key := s.caller.Key
	sealed, err := a.ports.Keyring.Seal(ctx, key.TenantID, events.DataKeyID(id, key.ProjectID, m.queued.RetentionDays, m.now),
		a.ports.AAD(key.TenantID, id, events.FieldPayload), plain)
	if err != nil {
		return RetryResult{}, outage(err, "Nothing was accepted; try again.")
	}
	place, err := a.acceptor.reserve(ctx, dr, s)
	if err != nil {
		return RetryResult{}, err
	}
	q := *m.queued
	q.Origin, q.SourceNumber = origin(dr.instance), dr.instance.Number
	q.QuotaWindows, q.Sealed = place.Names(), sealed
	q.RetryOf, q.Retry = m.id, &events.Retry{By: m.by.by, Reason: m.by.reason, Force: d.Risk}
	window := m.rec.DeliverUntil.Sub(later(m.rec.Time, m.rec.DeliverAt))
	e := events.Event{
		Envelope: events.Envelope{
			ID: id, Type: events.TypeMessageQueued, Source: "pilot/api", Time: m.now, Subject: id, TenantID: key.TenantID, DeliverUntil: m.now.Add(window),
		},
		Address: events.QueuedSubject(m.partition, m.lane),
		Body:    &q,
	}
	result := RetryResult{ID: m.id, Outcome: string(d.Action), MessageID: id, DeliverUntil: stamp(e.DeliverUntil), Risk: d.Risk}
	if err := a.putAnew(ctx, m, e, result, place); err != nil {
		return RetryResult{}, err
	}
	a.tellOriginal(ctx, m, result)
	return result, nil
}

// judgeAnew runs the rules, and gives the plaintext of what was sealed.
func (a *API) judgeAnew(ctx context.Context, m *retried) (d draft, s submission, plain []byte, err error) {
	d = draft{now: m.now, category: m.queued.Category}
	var tenant events.Tenant
	var hasTenant, hasProject, hasInstance bool
	s.caller.Key = events.Key{ID: m.queued.KeyID, TenantID: m.scope.Tenant, ProjectID: m.scope.Project, Environment: m.scope.Environment}
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		d.partitions = c.Deployment.Partitions
		tenant, hasTenant = c.Tenant(m.scope.Tenant)
		s.caller.Project, hasProject = c.Project(m.scope.Project)
		d.instance, hasInstance = c.Instance(m.lane.Instance)
	})
	d.own = d.instance.TenantID == m.scope.Tenant && !d.instance.Shared
	switch {
	case !hasTenant, !hasProject:
		return d, s, nil, errNoMessage()
	case tenant.Suspended:
		return d, s, nil, events.Errorf(CodeTenantSuspended, "The account is suspended.")
	case !hasInstance:
		return d, s, nil, events.Errorf(events.CodeNoInstance, "The number that it was to leave from is no more; nothing was accepted.")
	}
	plain, err = a.ports.Keyring.Open(ctx, m.scope.Tenant, m.queued.Sealed, a.ports.AAD(m.scope.Tenant, m.id, events.FieldPayload))
	switch {
	case errors.Is(err, ErrKeyMissing):
		return d, s, nil, events.Errorf(CodeContentErased, "Number and content are erased: the message cannot be sent again.")
	case err != nil:
		return d, s, nil, outage(err, "Nothing was accepted; try again.")
	}
	var p events.Payload
	if err := json.Unmarshal(plain, &p); err != nil {
		return d, s, nil, internal(errors.New("decode sealed payload")) // the parser's own words may repeat what it read
	}
	if d.to, err = recipient.Parse(p.Destination); err != nil {
		return d, s, nil, internal(errors.New("parse sealed destination"))
	}
	for _, rule := range []func(*draft, submission) error{
		a.acceptor.fresh, a.acceptor.running, a.acceptor.approved,
		func(d *draft, s submission) error { return a.acceptor.recognized(ctx, d, s) },
		a.acceptor.connected, a.acceptor.consented,
		func(d *draft, s submission) error { return a.acceptor.seldom(ctx, d, s) },
	} {
		if err := rule(&d, s); err != nil {
			return d, s, nil, err
		}
	}
	return d, s, plain, nil
}

// putAnew claims the key of the retry, appends, and marks the claim: a repeat finds the message whatever died in between.
func (a *API) putAnew(ctx context.Context, m *retried, e events.Event, result RetryResult, place Reservation) error {
	response, err := json.Marshal(result)
	if err != nil {
		return internal(err)
	}
	claim, err := idempotency.New(m.fingerprint, m.lane.Instance, e, response)
	if err != nil {
		return internal(err)
	}
	value, err := json.Marshal(claim)
	if err != nil {
		return internal(err)
	}
	revision, err := a.ports.Claims.Put(ctx, m.slot.name, value, m.slot.revision, claimTTL)
	switch {
	case errors.Is(err, ErrMoved):
		place.GiveBack(ctx)
		return events.Errorf(CodeInProgress, "Another request with this Idempotency-Key is being answered; try again.")
	case err != nil: // the claim may stand, and a repeat append what it holds
		return outage(err, "It is not known whether the retry is recorded; try again with the same Idempotency-Key.")
	}
	m.slot.revision = revision
	if _, err = a.ports.Log.Append(ctx, e); err == nil {
		failpoint.Hit("api.retry_before_answer")
		a.acceptor.done(ctx, m.slot, claim)
		return nil
	}
	if err = appendError(err); events.CodeOf(err) != events.CodeUnavailable {
		place.GiveBack(ctx)
		a.acceptor.released(ctx, m.slot)
	}
	return err
}

// tellOriginal adds to the events of the first message which one was made of it. Who retried it and why is in the new one: nothing
// depends on this, and a repeat is the same event.
func (a *API) tellOriginal(ctx context.Context, m *retried, result RetryResult) {
	e := a.word(m, result.MessageID+".retry", &events.MessageRetryRequested{
		By: m.by.by, Reason: m.by.reason, Force: result.Risk, RetriedAs: result.MessageID,
	})
	if _, err := a.ports.Log.Append(ctx, e); err != nil {
		a.cfg.Log.Warn().Err(err).Str("message_id", m.id).Str("retried_as", result.MessageID).Msg("a retry is not told by the events of the first message")
	}
}
