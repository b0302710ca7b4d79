package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/courtesy"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/projections/views"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/receipts"
)

// This file fits what exists to the ports that api and dispatcher declare. It decides nothing.

// apiCatalog serves the API from the feed.
type apiCatalog struct{ *control.Feed }

// Behind is 0 while the feed is current, else more than any limit.
func (c apiCatalog) Behind() time.Duration {
	if c.Current() != nil {
		return math.MaxInt64
	}
	return 0
}

// apiLog appends what the API accepts.
type apiLog struct {
	log      *eventlog.Log
	health   *appendHealth
	courtesy *courtesy.Courtesy
}

func (l apiLog) Append(ctx context.Context, e events.Event) (uint64, error) {
	if at, err := events.ParseEventSubject(e.Address); err == nil && at.Lane.Class.Category() == events.OTP {
		l.courtesy.Comes(e.Subject)
	}
	ack, err := l.log.Append(ctx, e)
	l.health.heard(e.Address, err)
	if err != nil {
		l.courtesy.Left(e.Subject)
	}
	return ack.Sequence, err
}

// Last makes apiLog the API's view of where partitions end.
func (l apiLog) Last(ctx context.Context, p events.Partition) (uint64, error) {
	return l.log.LastSequence(ctx, events.EventsStream(p))
}

// apiKeys tells a destroyed key apart from one that cannot be reached.
type apiKeys struct{ *keyring.Keyring }

func (k apiKeys) Open(ctx context.Context, tenant string, s events.Sealed, aad []byte) ([]byte, error) {
	text, err := k.Keyring.Open(ctx, tenant, s, aad)
	if errors.Is(err, keyring.ErrKeyMissing) {
		return nil, fmt.Errorf("%w: %w", api.ErrKeyMissing, err)
	}
	return text, err
}

// apiViews answers the API from Postgres.
type apiViews struct{ views *views.Views }

func (v apiViews) Message(ctx context.Context, s api.Scope, id string) (api.MessageView, error) {
	m, err := v.views.Message(ctx, views.Scope(s), id)
	if err != nil {
		return api.MessageView{}, err
	}
	return messageView(m), nil
}

func messageView(m views.Message) api.MessageView {
	return api.MessageView{
		ID: m.ID, Tenant: m.TenantID, Environment: m.Environment, CorrelationID: m.CorrelationID, Category: m.Category,
		TemplateID: m.TemplateID, Origin: m.Origin, SourceNumber: m.SourceNumber, GatewayID: m.GatewayID, Stage: m.Stage, AckOverdue: m.AckOverdue,
		Attempts: m.Attempts, ErrorCode: m.ErrorCode, Sealed: m.Sealed, CreatedAt: m.CreatedAt, DeliverAt: m.DeliverAt,
		DeliverUntil: m.DeliverUntil, SentAt: m.SentAt, DeliveredAt: m.DeliveredAt, ReadAt: m.ReadAt, FailedAt: m.FailedAt,
		CanceledAt: m.CanceledAt,
	}
}

func (v apiViews) Timeline(ctx context.Context, s api.Scope, id string) ([]api.TimelineEntry, error) {
	rows, err := v.views.Timeline(ctx, views.Scope(s), id)
	if err != nil {
		return nil, err
	}
	out := make([]api.TimelineEntry, len(rows))
	for i, r := range rows {
		out[i] = api.TimelineEntry{Event: r.Event, Time: r.Time, Position: r.Position, Attempt: r.Attempt}
	}
	return out, nil
}

func (v apiViews) Records(ctx context.Context, s api.Scope, ids []string) ([]api.MessageRecord, error) {
	rows, err := v.views.Records(ctx, views.Scope(s), ids)
	if err != nil {
		return nil, err
	}
	out := make([]api.MessageRecord, len(rows))
	for i, r := range rows {
		out[i] = api.MessageRecord{
			ID: r.ID, Position: r.Position, Instance: r.InstanceID, CreatedAt: r.CreatedAt, DeliverAt: r.DeliverAt, Checkpoint: r.Checkpoint,
			Facts: r.Facts, Unreadable: r.Unreadable,
		}
	}
	return out, nil
}

func (v apiViews) WaitFor(ctx context.Context, p events.Partition, seq uint64) error {
	return v.views.WaitFor(ctx, p, seq)
}

// dispatchKeys unseals for the dispatcher.
type dispatchKeys struct {
	keys    *keyring.Keyring
	secrets control.Secrets
}

func (k dispatchKeys) OpenPayload(ctx context.Context, tenant, messageID string, s events.Sealed) ([]byte, error) {
	return k.keys.Open(ctx, tenant, s, keyring.AAD(tenant, messageID, events.FieldPayload))
}

func (k dispatchKeys) OpenSecret(ctx context.Context, entity string, s events.Sealed) ([]byte, error) {
	return k.secrets.Open(ctx, entity, s)
}

func (k dispatchKeys) HashJID(ctx context.Context, tenant, jid string) (string, error) {
	return k.keys.Hash(ctx, tenant, receipts.PurposeJID, []byte(jid))
}

// purposeText keeps hashes of what is said apart from those of addresses.
const purposeText = "last-message"

func (k dispatchKeys) HashText(ctx context.Context, tenant, text string) (string, error) {
	return k.keys.Hash(ctx, tenant, purposeText, []byte(text))
}

// source feeds the projector from the log.
type source struct{ log *eventlog.Log }

func (s source) Last(ctx context.Context, p events.Partition) (uint64, error) {
	return s.log.LastSequence(ctx, events.EventsStream(p))
}

func (s source) Tail(ctx context.Context, p events.Partition, from uint64,
	handle func(ctx context.Context, recs []events.Recorded, last uint64) error,
) error {
	return s.log.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(p), From: from, Gapless: true, OnDisk: true},
		func(ctx context.Context, b eventlog.Batch) error { return handle(ctx, b.Events, b.Last) })
}
