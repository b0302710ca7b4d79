package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/projector"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// checkpoints reads how far the view is, and the digests that were kept, where a walk has not passed them yet.
func (v *verifier) checkpoints(ctx context.Context, q querier) (map[events.Partition]mark, error) {
	out := map[events.Partition]mark{}
	var part int16
	var seq, digested int64
	var id string
	var digest []byte
	rows, err := q.Query(ctx, `SELECT partition, seq, event_id, digest, digested FROM checkpoints WHERE view = $1`, projector.View)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&part, &seq, &id, &digest, &digested}, func() error {
			m := mark{seq: uint64(seq), id: id}
			if digested == seq {
				copy(m.digest[:], digest)
			}
			out[events.Partition(part)] = m
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	for _, w := range v.walks {
		rows, err := q.Query(ctx, `SELECT up_to, digest FROM digests WHERE partition = $1 AND up_to >= $2`, int16(w.part), int64(w.next))
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&seq, &digest}, func() error {
				var d events.Digest
				copy(d[:], digest)
				w.kept[uint64(seq)] = d
				return nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("read digests: %w", err)
		}
	}
	return out, nil
}

// strange finds rows that belong to no event that the view has read, and counts nothing twice: rows of an event that
// was read are compared with it.
var strange = []struct{ table, sql string }{
	{"timeline", `SELECT t.partition, t.seq, t.message_id FROM timeline t LEFT JOIN checkpoints c ON c.view = $1 AND c.partition = t.partition
		WHERE c.seq IS NULL OR t.seq > c.seq OR t.seq < 1`},
	{"messages", `SELECT m.partition, m.queued_seq, m.id FROM messages m WHERE $1 <> '' AND NOT EXISTS (
		SELECT FROM timeline t WHERE t.message_id = m.id AND t.partition = m.partition AND t.event = 'message.queued')`},
	{"attempts", `SELECT a.partition, 0::bigint, a.message_id FROM attempts a WHERE $1 <> '' AND NOT EXISTS (
		SELECT FROM timeline t WHERE t.message_id = a.message_id AND t.partition = a.partition)`},
}

// strangers reports them. It is a statement a table, planned over whole tables.
func (v *verifier) strangers(ctx context.Context, tx pgx.Tx) error {
	for _, s := range strange {
		var part int16
		var seq int64
		var id string
		rows, err := tx.Query(ctx, s.sql, projector.View)
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&part, &seq, &id}, func() error {
				v.found.add(Finding{
					Kind: KindRow, Partition: events.Partition(part), From: uint64(max(seq, 0)), To: uint64(max(seq, 0)),
					Table: s.table, MessageID: id, Detail: projector.Unexpected,
				})
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("look for rows of no event in %s: %w", s.table, err)
		}
	}
	var n int64
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM messages`).Scan(&n); err != nil {
		return fmt.Errorf("count messages: %w", err)
	}
	v.found.report.Messages = uint64(n)
	return nil
}

// quota compares what is counted of plans' windows with the messages, which the rest of the audit holds against the log.
func (v *verifier) quota(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT coalesce(q.partition, m.partition), concat_ws(' ', coalesce(q.tenant_id, m.tenant_id), coalesce(q.quota_window, m.w))
		FROM quota_usage q FULL JOIN (SELECT partition, tenant_id, w, count(*) AS accepted, count(*) FILTER (WHERE refunded) AS refunded
			FROM messages, unnest(string_to_array(quota_windows, ',')) AS w GROUP BY 1, 2, 3) m
		ON q.partition = m.partition AND q.tenant_id = m.tenant_id AND q.quota_window = m.w
		WHERE (q.accepted, q.refunded) IS DISTINCT FROM (m.accepted, m.refunded)`)
	if err == nil {
		var part int16
		var detail string
		_, err = pgx.ForEachRow(rows, []any{&part, &detail}, func() error {
			v.found.add(Finding{Kind: KindRow, Partition: events.Partition(part), Table: "quota_usage", Detail: detail})
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("compare quota_usage: %w", err)
	}
	return nil
}

// folds compares every message that the timeline knows with its fold, page by page.
func (v *verifier) folds(ctx context.Context, tx pgx.Tx) error {
	var id string
	part := int16(-1)
	for {
		ids := map[events.Partition][]string{}
		n := 0
		rows, err := tx.Query(ctx, `SELECT DISTINCT message_id, partition FROM timeline WHERE (message_id, partition) > ($1, $2)
			ORDER BY message_id, partition LIMIT $3`, id, part, pageMax)
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&id, &part}, func() error {
				ids[events.Partition(part)] = append(ids[events.Partition(part)], id)
				n++
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("page through messages: %w", err)
		}
		for p, page := range ids {
			found, err := projector.DiffMessages(ctx, tx, p, page)
			if err != nil {
				return err
			}
			v.differences(p, found)
		}
		if n < pageMax {
			return nil
		}
	}
}
