package views

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
)

// Entry is one event in the life of a message.
type Entry struct {
	Event    string          `json:"event"` // wire name without its version, e.g. "dispatch.started"
	Time     time.Time       `json:"time"`  // when it happened; of a receipt, as far as the gateway says
	Position events.Position `json:"position"`
	Attempt  int             `json:"attempt"` // 0 when the event is about no attempt
}

// Timeline gives the events of the message that key names (as in Message), in the order of the log.
func (v *Views) Timeline(ctx context.Context, s Scope, key string) ([]Entry, error) {
	m, err := v.Message(ctx, s, key)
	if err != nil {
		return nil, err
	}
	rows, err := v.pool.Query(ctx, `SELECT t.event, t.at, t.partition, t.seq, t.attempt
		FROM timeline t JOIN messages m ON m.id = t.message_id AND m.partition = t.partition
		WHERE m.tenant_id = $1 AND m.project_id = $2 AND m.environment = $3 AND t.message_id = $4
		ORDER BY t.seq`, planned, s.Tenant, s.Project, string(s.Environment), m.ID)
	if err != nil {
		return nil, coded("read timeline", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Entry, err error) {
		var partition int16
		var seq int64
		err = row.Scan(&e.Event, moment{&e.Time}, &partition, &seq, &e.Attempt)
		e.Position = events.Position{Partition: events.Partition(partition), Sequence: uint64(seq)}
		return e, err
	})
	if err != nil {
		return nil, coded("read timeline", err)
	}
	return out, nil
}

// moment scans a time as UTC, NULL as the zero time.
type moment struct{ to *time.Time }

// Scan reads what pgx gives for a timestamptz.
func (m moment) Scan(src any) error {
	switch t := src.(type) {
	case nil:
		*m.to = time.Time{}
	case time.Time:
		*m.to = t.UTC()
	default:
		return fmt.Errorf("a timestamp came as %T", src)
	}
	return nil
}

// askable reports whether Postgres takes s as text. What it does not take names nothing.
func askable(s string) bool { return s != "" && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
