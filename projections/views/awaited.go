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
	Corrected    bool // it was told as FAILED or CANCELED, and a receipt has corrected that
	DispatchedAt time.Time
	DeliverUntil time.Time
	Since        time.Time // when it left, or should have ended: the order of the list
	More         bool      // of its instance there may be others behind those listed
	Checkpoint   uint64    // of its partition: the row is as of here
}

// Reached is how far the candidates of an instance were looked at: the list goes on behind it, so that those which cannot be decided
// hide none.
type Reached struct {
	InstanceID string
	Since      time.Time
	ID         string
}

// awaitedPage bounds what one question gives. Many instances get a smaller share each, none gets nothing.
const awaitedPage = 20_000

// awaited makes the question for the messages that meet a condition, which an index of their own holds by (partition, instance_id,
// column, id). It goes from instance to instance, and reads a few of each: one of which everything waits does not hide the others.
func awaited(column, condition, late string) string {
	first := `SELECT instance_id, ` + column + ` AS since FROM messages WHERE partition = $1 AND ` + condition
	return `WITH RECURSIVE first AS (
			(` + first + ` ORDER BY instance_id, ` + column + `, id LIMIT 1)
			UNION ALL
			SELECT n.instance_id, n.since FROM first f CROSS JOIN LATERAL (
				` + first + ` AND instance_id > f.instance_id ORDER BY instance_id, ` + column + `, id LIMIT 1) n
		), due AS MATERIALIZED (
			SELECT instance_id FROM first WHERE since < $2
		), page AS MATERIALIZED (
			SELECT greatest(1, least($3::bigint, $4::bigint / greatest(count(*), 1))) AS size FROM due
		)
		SELECT m.id, m.tenant_id, d.instance_id, m.gateway_id, m.queued_seq, m.stage, m.corrected, m.dispatched_at, m.deliver_until, m.since,
			count(*) OVER (PARTITION BY d.instance_id) >= page.size, c.seq
		FROM due d CROSS JOIN page
		JOIN checkpoints c ON c.view = $5 AND c.partition = $1
		LEFT JOIN unnest($6::text[], $7::timestamptz[], $8::text[]) r (instance_id, since, id) ON r.instance_id = d.instance_id
		CROSS JOIN LATERAL (
			SELECT id, tenant_id, coalesce(gateway_id, '') AS gateway_id, queued_seq, stage, corrected, dispatched_at, deliver_until, ` + column + ` AS since
			FROM messages WHERE partition = $1 AND instance_id = d.instance_id AND ` + condition + ` AND ` + column + ` < $2` + late + `
				AND (` + column + `, id) > (coalesce(r.since, '-infinity'), coalesce(r.id, ''))
			ORDER BY ` + column + `, id LIMIT (SELECT size FROM page)) m
		ORDER BY d.instance_id, m.since, m.id`
}

var (
	selectUnacknowledged = awaited("dispatched_at", "status = 'QUEUED' AND dispatched_at IS NOT NULL AND NOT ack_overdue", "")

	// What was corrected is not failed again (docs/events.md, the order of the fold): it waits for nothing.
	selectUndelivered = awaited("dispatched_at", "status IN ('QUEUED', 'SENT') AND dispatched_at IS NOT NULL AND NOT corrected", "")

	selectUnended = awaited("deliver_until", "status = 'QUEUED' AND dispatched_at IS NULL",
		" AND (stage <> 'UNCONFIRMED' OR deliver_until < $9::timestamptz)")
)

const countOverdue = `SELECT count(*) FROM (SELECT 1 FROM messages
	WHERE partition = $1 AND status = 'QUEUED' AND dispatched_at IS NOT NULL AND NOT corrected AND ack_overdue LIMIT $2) x`

// Unacknowledged lists messages of a partition that left before a time, have no receipt, and were not yet said to be overdue: by
// instance, of each at most perInstance, the oldest first behind what was reached of it.
func (v *Views) Unacknowledged(ctx context.Context, p events.Partition, before time.Time, perInstance int, reached []Reached) ([]Awaited, error) {
	return v.awaited(ctx, p, selectUnacknowledged, before, perInstance, reached)
}

// Undelivered lists, in the same way, messages that left before a time, have no receipt of their delivery, and were never corrected.
func (v *Views) Undelivered(ctx context.Context, p events.Partition, before time.Time, perInstance int, reached []Reached) ([]Awaited, error) {
	return v.awaited(ctx, p, selectUndelivered, before, perInstance, reached)
}

// Unended lists, in the same way, messages that did not leave, and whose deliverUntil lies before a time; before unknownBefore where
// an attempt may have had an effect.
func (v *Views) Unended(ctx context.Context, p events.Partition, before, unknownBefore time.Time, perInstance int, reached []Reached) ([]Awaited, error) {
	return v.awaited(ctx, p, selectUnended, before, perInstance, reached, unknownBefore)
}

// Overdue counts the messages of a partition of which a receipt is overdue, up to limit.
func (v *Views) Overdue(ctx context.Context, p events.Partition, limit int) (n int, err error) {
	if err := v.pool.QueryRow(ctx, countOverdue, planned, int16(p), limit).Scan(&n); err != nil {
		return 0, coded("count overdue messages", err)
	}
	return n, nil
}

func (v *Views) awaited(ctx context.Context, p events.Partition, query string, before time.Time, perInstance int, reached []Reached, more ...any) ([]Awaited, error) {
	instances, times, ids := make([]string, len(reached)), make([]time.Time, len(reached)), make([]string, len(reached))
	for i, r := range reached {
		instances[i], times[i], ids[i] = r.InstanceID, r.Since, r.ID
	}
	args := append([]any{planned, int16(p), before, perInstance, awaitedPage, projector.View, instances, times, ids}, more...)
	rows, err := v.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, coded("list messages that wait", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Awaited, err error) {
		var queued, checkpoint int64
		err = row.Scan(&a.ID, &a.TenantID, &a.InstanceID, &a.GatewayID, &queued, &a.Stage, &a.Corrected, moment{&a.DispatchedAt}, moment{&a.DeliverUntil},
			moment{&a.Since}, &a.More, &checkpoint)
		a.Queued = events.Position{Partition: p, Sequence: uint64(queued)}
		a.Checkpoint = uint64(checkpoint)
		return a, err
	})
	if err != nil {
		return nil, coded("list messages that wait", err)
	}
	return out, nil
}
