package rebuild

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
)

// look says which rows a comparison is about.
type look int

const (
	early look = iota // rows that neither schema has changed since the common sequence
	late              // rows that one has changed since; the projectors are held off
)

// shownRows is how many rows that differ an error names.
const shownRows = 10

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// compare looks at every table, for the partitions and their common sequences in upTo.
func (r *rebuild) compare(ctx context.Context, q querier, upTo map[events.Partition]uint64, l look) error {
	if len(upTo) == 0 {
		return nil
	}
	parts := slices.Sorted(maps.Keys(upTo))
	ids, seqs := make([]int16, len(parts)), make([]int64, len(parts))
	for i, p := range parts {
		ids[i], seqs[i] = int16(p), int64(upTo[p])
	}
	var out []Row
	for _, t := range tables {
		columns, err := r.columns(ctx, q, t.name)
		if err != nil {
			return err
		}
		rows, err := q.Query(ctx, t.differ(r.cfg.Schema, r.fresh, columns, l), ids, seqs, shownRows+1)
		if err == nil {
			var key string
			_, err = pgx.ForEachRow(rows, []any{&key}, func() error { out = append(out, Row{t.name, key}); return nil })
		}
		if err != nil {
			return fmt.Errorf("compare %s: %w", t.name, err)
		}
	}
	if len(out) > 0 {
		return &DiffersError{Schema: r.fresh, Rows: out[:min(len(out), shownRows)], More: len(out) > shownRows}
	}
	return nil
}

// columns lists the columns that a table has in both schemas.
func (r *rebuild) columns(ctx context.Context, q querier, table string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT a.column_name::text FROM information_schema.columns a JOIN information_schema.columns b
		USING (table_name, column_name) WHERE a.table_schema = $1 AND b.table_schema = $2 AND table_name = $3 ORDER BY 1`,
		r.cfg.Schema, r.fresh, table)
	if err != nil {
		return nil, fmt.Errorf("list columns of %s: %w", table, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("table %s is not in both schemas", table)
	}
	if err != nil {
		return nil, fmt.Errorf("list columns of %s: %w", table, err)
	}
	return names, nil
}

// table says how rows of a table are paired and when they last changed.
type table struct {
	name string
	keys []string
	// from is what rows are read from, over %s for the schema; it gives the columns, and in "changed" the sequence of the last event
	// that changed the row.
	from string
}

var tables = []table{
	{"messages", []string{"id"}, `SELECT x.*, x.last_seq AS changed FROM %s.messages x`},
	{"timeline", []string{"partition", "seq", "message_id"}, `SELECT x.*, x.seq AS changed FROM %s.timeline x`},
	// An attempt changes with its message. Without an accepted one it has no place in time and is compared at the end.
	{"attempts", []string{"message_id", "attempt"}, `SELECT x.*, coalesce(m.last_seq, 9223372036854775807) AS changed
		FROM %[1]s.attempts x LEFT JOIN %[1]s.messages m ON m.id = x.message_id`},
	{"quota_usage", []string{"tenant_id", "quota_window", "partition"}, `SELECT x.*, x.last_seq AS changed FROM %s.quota_usage x`},
	// Only digests of a run that begins with the log are the same in both.
	{"digests", []string{"partition", "up_to"}, `SELECT x.*, x.up_to AS changed FROM (
		SELECT d.*, row_number() OVER (PARTITION BY d.partition ORDER BY d.up_to) AS n FROM %s.digests d) x WHERE x.n * 1000 = x.up_to`},
}

// differ makes the statement: keys of rows that differ, of the partitions $1 with their common sequences $2, at most $3.
func (t table) differ(live, fresh string, columns []string, l look) string {
	source := func(schema string) string {
		from := fmt.Sprintf(t.from, pgx.Identifier{schema}.Sanitize())
		sql := `SELECT y.*, s.up_to AS common FROM (` + from + `) y JOIN unnest($1::smallint[], $2::bigint[]) AS s(part, up_to) ON s.part = y.partition`
		if l == late {
			sql += ` WHERE y.changed > s.up_to`
		}
		return "(" + sql + ")"
	}
	on, key := make([]string, len(t.keys)), make([]string, len(t.keys))
	for i, k := range t.keys {
		on[i] = "l." + k + " = f." + k
		key[i] = "coalesce(l." + k + ", f." + k + ")::text"
	}
	left, right := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		name := pgx.Identifier{c}.Sanitize()
		left[i], right[i] = "l."+name, "f."+name
	}
	sql := `SELECT concat_ws(' ', ` + strings.Join(key, ", ") + `) FROM ` + source(live) + ` l FULL JOIN ` + source(fresh) + ` f ON ` +
		strings.Join(on, " AND ") + ` WHERE ROW(` + strings.Join(left, ", ") + `) IS DISTINCT FROM ROW(` + strings.Join(right, ", ") + `)`
	if l == early {
		sql += ` AND greatest(l.changed, f.changed) <= coalesce(l.common, f.common)`
	}
	if t.name == "digests" { // a live view made before digests were kept, or whose run began late, has fewer
		sql += ` AND l.up_to IS NOT NULL AND f.up_to IS NOT NULL`
	}
	return sql + ` LIMIT $3`
}
