package views

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/projections/projector"
)

// Record is what the views know of a message at their checkpoint, as facts: who reads the log behind it knows the message.
type Record struct {
	ID         string
	Position   events.Position // of its queued event
	InstanceID string
	CreatedAt  time.Time
	DeliverAt  time.Time // zero: at once
	Checkpoint uint64    // of its partition: Facts are complete up to here
	Facts      message.Record
	Unreadable bool // an event of the fenced group about it was of a kind unknown to the projector
}

// One statement, so that facts and checkpoint are of one moment and of one build of the tables.
const selectRecords = `SELECT m.id, m.partition, m.queued_seq, m.instance_id, m.created_at, m.deliver_at, c.seq,
		coalesce(t.seq, 0), coalesce(t.event, ''), t.at, coalesce(t.attempt, 0), coalesce(t.folded, false), coalesce(t.called, false),
		coalesce(t.presumed, false), t.due_at, coalesce(t.nonce, ''), coalesce(t.gateway_id, ''), coalesce(t.code, ''), coalesce(t.reason, '')
	FROM messages m
	JOIN checkpoints c ON c.view = $5 AND c.partition = m.partition
	LEFT JOIN LATERAL (SELECT * FROM timeline x WHERE x.message_id = m.id AND x.partition = m.partition
		AND (x.folded OR x.event LIKE 'dispatch.%') ORDER BY x.seq OFFSET 0) t ON true
	WHERE m.tenant_id = $1 AND m.project_id = $2 AND m.environment = $3 AND m.id = ANY($4)
	ORDER BY m.partition, m.queued_seq, m.id, t.seq`

// Records gives the messages with these ids that lie inside the scope; the others are left out.
func (v *Views) Records(ctx context.Context, s Scope, ids []string) ([]Record, error) {
	var keys []string
	for _, id := range ids {
		if askable(id) {
			keys = append(keys, id)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := v.pool.Query(ctx, selectRecords, planned, s.Tenant, s.Project, string(s.Environment), keys, projector.View)
	if err != nil {
		return nil, coded("read records", err)
	}
	defer rows.Close()
	var out []Record
	for rows.Next() {
		r, f, folded, event, err := scanRecord(rows)
		if err != nil {
			return nil, coded("read records", err)
		}
		if n := len(out); n == 0 || out[n-1].ID != r.ID {
			out = append(out, r)
		}
		last := &out[len(out)-1]
		if kind, ok := projector.KindOf(event); ok && folded {
			f.Kind = kind
			last.Facts = last.Facts.With(f)
		} else if event != "" {
			last.Unreadable = true
		}
	}
	if err := rows.Err(); err != nil {
		return nil, coded("read records", err)
	}
	return out, nil
}

func scanRecord(rows pgx.Rows) (r Record, f message.Fact, folded bool, event string, err error) {
	var partition int16
	var queued, checkpoint, seq int64
	err = rows.Scan(&r.ID, &partition, &queued, &r.InstanceID, moment{&r.CreatedAt}, moment{&r.DeliverAt}, &checkpoint,
		&seq, &event, moment{&f.At}, &f.Attempt, &folded, &f.Called, &f.Presumed, moment{&f.DueAt}, &f.Nonce, &f.GatewayID, &f.Code, &f.Reason)
	r.Position = events.Position{Partition: events.Partition(partition), Sequence: uint64(queued)}
	r.Checkpoint, f.Seq = uint64(checkpoint), uint64(seq)
	return r, f, folded, event, err
}
