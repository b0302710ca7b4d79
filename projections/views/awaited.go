package views

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/projector"
)

// Awaited is a message that something should have become of by now. It is a candidate only: the log may say more.
type Awaited struct {
	ID           string
	TenantID     string
	InstanceID   string
	GatewayID    string          // the WhatsApp id; empty while none is known
	Queued       events.Position // of its queued event
	Stage        events.Stage
	DispatchedAt time.Time
	DeliverUntil time.Time
	Checkpoint   uint64 // of its partition: the row is as of here
}

// Of each instance a few, so that one of which everything waits does not hide the others. The bound inside keeps one question small.
const selectAwaited = `SELECT m.id, m.tenant_id, m.instance_id, m.gateway_id, m.queued_seq, m.stage, m.dispatched_at, m.deliver_until, c.seq
	FROM (SELECT x.*, row_number() OVER (PARTITION BY instance_id ORDER BY waits_since, id) AS nth FROM (
			SELECT id, tenant_id, instance_id, coalesce(gateway_id, '') AS gateway_id, queued_seq, stage, dispatched_at, deliver_until, `

const endAwaited = `
			ORDER BY waits_since LIMIT $4) x) m
		JOIN checkpoints c ON c.view = $5 AND c.partition = $1
		WHERE m.nth <= $3 ORDER BY m.instance_id, m.nth`

const (
	awaitedScan = 20_000

	selectUnacknowledged = selectAwaited + `dispatched_at AS waits_since FROM messages
			WHERE partition = $1 AND status = 'QUEUED' AND dispatched_at IS NOT NULL AND NOT ack_overdue AND dispatched_at < $2` + endAwaited

	selectUndelivered = selectAwaited + `dispatched_at AS waits_since FROM messages
			WHERE partition = $1 AND status IN ('QUEUED', 'SENT') AND dispatched_at IS NOT NULL AND dispatched_at < $2` + endAwaited

	selectUnended = selectAwaited + `deliver_until AS waits_since FROM messages
			WHERE partition = $1 AND status = 'QUEUED' AND dispatched_at IS NULL
				AND deliver_until < CASE WHEN stage = 'UNCONFIRMED' THEN $6::timestamptz ELSE $2::timestamptz END AND deliver_until < $2` + endAwaited

	countOverdue = `SELECT count(*) FROM (SELECT 1 FROM messages
		WHERE partition = $1 AND status = 'QUEUED' AND dispatched_at IS NOT NULL AND ack_overdue LIMIT $2) x`
)

// Unacknowledged lists messages of a partition that left before a time, have no receipt, and were not yet said to be overdue: by
// instance, of each at most perInstance, the oldest first.
func (v *Views) Unacknowledged(ctx context.Context, p events.Partition, before time.Time, perInstance int) ([]Awaited, error) {
	return v.awaited(ctx, p, selectUnacknowledged, before, perInstance)
}

// Undelivered lists, in the same way, messages that left before a time and have no receipt of their delivery.
func (v *Views) Undelivered(ctx context.Context, p events.Partition, before time.Time, perInstance int) ([]Awaited, error) {
	return v.awaited(ctx, p, selectUndelivered, before, perInstance)
}

// Unended lists, in the same way, messages that did not leave, and whose deliverUntil lies before a time; before unknownBefore where
// an attempt may have had an effect.
func (v *Views) Unended(ctx context.Context, p events.Partition, before, unknownBefore time.Time, perInstance int) ([]Awaited, error) {
	return v.awaited(ctx, p, selectUnended, before, perInstance, unknownBefore)
}

// Overdue counts the messages of a partition of which a receipt is overdue, up to limit.
func (v *Views) Overdue(ctx context.Context, p events.Partition, limit int) (n int, err error) {
	if err := v.pool.QueryRow(ctx, countOverdue, planned, int16(p), limit).Scan(&n); err != nil {
		return 0, coded("count overdue messages", err)
	}
	return n, nil
}

func (v *Views) awaited(ctx context.Context, p events.Partition, query string, before time.Time, perInstance int, more ...any) ([]Awaited, error) {
	args := append([]any{planned, int16(p), before, perInstance, awaitedScan, projector.View}, more...)
	rows, err := v.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, coded("list messages that wait", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Awaited, err error) {
		var queued, checkpoint int64
		err = row.Scan(&a.ID, &a.TenantID, &a.InstanceID, &a.GatewayID, &queued, &a.Stage, moment{&a.DispatchedAt}, moment{&a.DeliverUntil}, &checkpoint)
		a.Queued = events.Position{Partition: p, Sequence: uint64(queued)}
		a.Checkpoint = uint64(checkpoint)
		return a, err
	})
	if err != nil {
		return nil, coded("list messages that wait", err)
	}
	return out, nil
}
