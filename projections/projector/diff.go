package projector

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
)

// Difference is a stored row that is not what the log says.
type Difference struct {
	Table     string
	MessageID string
	Sequence  uint64 // of a timeline row
	Attempt   int    // of a row of attempts
	// What is "missing", "unexpected", or the names of the columns that differ.
	What string
}

// Words of Difference.What beside names of columns.
const (
	Missing    = "missing"
	Unexpected = "unexpected"
)

// DiffEvents compares what is stored of events with the events themselves: every timeline row with a sequence in
// from..to, and what a row of messages repeats of the accepted message. recs are all whole events of the partition in
// that range, and the view has read them. tx sees the tables; its planner settings are changed.
func DiffEvents(ctx context.Context, tx pgx.Tx, partition events.Partition, recs []events.Recorded, from, to uint64) ([]Difference, error) {
	b := gather(partition, recs)
	d := differ{tx: tx, part: int16(partition)}
	d.plan(ctx)
	var accepted []messageRow
	for _, id := range b.touched {
		row := messageRow{id: id}
		if rec, ok := b.accepted[id]; ok && row.describe(rec) {
			accepted = append(accepted, row)
		}
	}
	compare(ctx, &d, diffTimeline, b.timeline)
	compare(ctx, &d, diffMessages, accepted)
	known := make(map[rowKey]bool, len(b.timeline))
	for _, r := range b.timeline {
		known[rowKey{r.messageID, int64(r.seq)}] = true
	}
	if d.count(ctx, countTimeline, d.part, int64(from), int64(to)) > len(known) {
		d.unexpected(ctx, "timeline", known, keysOfTimeline, d.part, int64(from), int64(to))
	}
	return d.out, d.err
}

// DiffMessages compares rows that follow from the fold with the fold of the timeline, for messages of one partition: every
// column of messages that changes, and all attempts. Where DiffEvents found the timeline to be the log, they are compared with
// the log. tx sees one moment of the tables; its planner settings are changed.
func DiffMessages(ctx context.Context, tx pgx.Tx, partition events.Partition, ids []string) ([]Difference, error) {
	s := &shard{partition: partition, cache: newLRU(0)}
	d := differ{tx: tx, part: int16(partition)}
	d.plan(ctx)
	if d.err != nil {
		return nil, d.err
	}
	known, err := s.known(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	last, err := d.lastSeqs(ctx, ids)
	if err != nil {
		return nil, err
	}
	var rows []messageRow
	var attempts []attemptRow
	keys := map[rowKey]bool{}
	for _, id := range ids {
		e := known[id]
		rows = append(rows, messageRow{id: id, view: e.view(), lastSeq: last[id]})
		numbers := map[int]struct{}{}
		for _, f := range e.record {
			if f.Attempt > 0 {
				numbers[f.Attempt] = struct{}{}
			}
		}
		for _, a := range e.attemptsOf(id, numbers) {
			attempts = append(attempts, a)
			keys[rowKey{id, int64(a.attempt)}] = true
		}
	}
	compare(ctx, &d, diffFolds, rows)
	compare(ctx, &d, diffAttempts, attempts)
	if d.count(ctx, countAttempts, d.part, ids) > len(keys) {
		d.unexpected(ctx, "attempts", keys, keysOfAttempts, d.part, ids)
	}
	return d.out, d.err
}

// rowKey is the key of a row of timeline or attempts.
type rowKey struct {
	id string
	n  int64 // sequence or attempt
}

// differ gathers differences, until the first error.
type differ struct {
	tx   pgx.Tx
	part int16
	out  []Difference
	err  error
}

func (d *differ) plan(ctx context.Context) {
	if _, err := d.tx.Exec(ctx, planByKey); err != nil {
		d.err = fmt.Errorf("plan: %w", err)
	}
}

func compare[R any](ctx context.Context, d *differ, s diffStatement[R], rows []R) {
	if len(rows) == 0 || d.err != nil {
		return
	}
	found, err := d.tx.Query(ctx, s.text, s.args(d.part, rows)...)
	if err == nil {
		var id, what string
		var n int64
		_, err = pgx.ForEachRow(found, []any{&id, &n, &what}, func() error {
			d.out = append(d.out, difference(s.table, rowKey{id, n}, what))
			return nil
		})
	}
	if err != nil {
		d.err = fmt.Errorf("compare %s: %w", s.table, err)
	}
}

func difference(table string, k rowKey, what string) Difference {
	out := Difference{Table: table, MessageID: k.id, What: what}
	switch table {
	case "timeline":
		out.Sequence = uint64(k.n)
	case "attempts":
		out.Attempt = int(k.n)
	}
	return out
}

func (d *differ) count(ctx context.Context, sql string, args ...any) (n int) {
	if d.err != nil {
		return 0
	}
	if err := d.tx.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		d.err = fmt.Errorf("count rows: %w", err)
	}
	return n
}

// unexpected reports the rows whose keys are not known.
func (d *differ) unexpected(ctx context.Context, table string, known map[rowKey]bool, sql string, args ...any) {
	if d.err != nil {
		return
	}
	rows, err := d.tx.Query(ctx, sql, args...)
	if err == nil {
		var k rowKey
		_, err = pgx.ForEachRow(rows, []any{&k.id, &k.n}, func() error {
			if !known[k] {
				d.out = append(d.out, difference(table, k, Unexpected))
			}
			return nil
		})
	}
	if err != nil {
		d.err = fmt.Errorf("list rows of %s: %w", table, err)
	}
}

func (d *differ) lastSeqs(ctx context.Context, ids []string) (map[string]uint64, error) {
	out := make(map[string]uint64, len(ids))
	rows, err := d.tx.Query(ctx, lastSeqs, d.part, ids)
	if err == nil {
		var id string
		var seq int64
		_, err = pgx.ForEachRow(rows, []any{&id, &seq}, func() error { out[id] = uint64(seq); return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("read last sequences: %w", err)
	}
	return out, nil
}

// diffStatement asks which rows are not as they should be: (message id, sequence or attempt or 0, what is wrong).
type diffStatement[R any] struct {
	statement[R]
	table string
}

// comparison says how rows of a table are compared with what they should be. In its conditions t is the row and u what it
// should be.
type comparison[R any] struct {
	table   string
	number  string      // expression beside the message id that says which row it is
	where   string      // a row it does not hold for is not compared
	keys    []column[R] // find the row; the first is the message id
	columns []column[R] // are equal
	given   []column[R] // are there for fault
	fault   string      // condition of a further fault
	named   string      // and the column it is of
}

func (c comparison[R]) statement() diffStatement[R] {
	on := []string{"t.partition = $1"}
	for _, k := range c.keys {
		on = append(on, "t."+k.name+" = u."+k.name)
	}
	var is, should, named []string
	for _, col := range c.columns {
		value := "u." + col.name
		if col.cast != "" {
			value += "::" + col.cast
		}
		is, should = append(is, "t."+col.name), append(should, value)
		named = append(named, "CASE WHEN t."+col.name+" IS DISTINCT FROM "+value+" THEN '"+col.name+"' END")
	}
	test := "ROW(" + strings.Join(is, ", ") + ") IS DISTINCT FROM ROW(" + strings.Join(should, ", ") + ")"
	if c.fault != "" {
		named = append(named, "CASE WHEN "+c.fault+" THEN '"+c.named+"' END")
		test += " OR " + c.fault
	}
	columns := slices.Concat(c.keys, c.columns, c.given)
	return diffStatement[R]{table: c.table, statement: statement[R]{
		text: "SELECT u." + columns[0].name + ", (" + c.number + ")::bigint, CASE WHEN t.partition IS NULL THEN '" + Missing +
			"' ELSE array_to_string(ARRAY[" + strings.Join(named, ", ") + "], ', ') END FROM " + unnest(columns) +
			" LEFT JOIN " + c.table + " t ON " + strings.Join(on, " AND ") + " WHERE (" + test + ") AND (" + c.where + ")",
		columns: columns,
	}}
}

var (
	diffTimeline = comparison[timelineRow]{
		table: "timeline", number: "u.seq", where: "true",
		keys:    []column[timelineRow]{insertTimeline.columns[1], insertTimeline.columns[0]}, // message_id, seq
		columns: insertTimeline.columns[2:],
	}.statement()

	// What the accepted message says: its first queued event counts, a later one of the same id does not.
	diffMessages = comparison[messageRow]{
		table: "messages", number: "0", keys: []column[messageRow]{messageKey},
		where: `t.partition IS NULL OR t.queued_seq >= u.queued_seq OR NOT EXISTS (
			SELECT FROM timeline q WHERE q.partition = $1 AND q.seq = t.queued_seq AND q.message_id = t.id AND q.event = 'message.queued')`,
		columns: slices.DeleteFunc(slices.Clone(lasting), isBlob), given: slices.DeleteFunc(slices.Clone(lasting), isNoBlob),
		fault: "NOT t.erased AND t.sealed_blob IS DISTINCT FROM u.sealed_blob", named: "sealed_blob",
	}.statement()

	diffFolds = comparison[messageRow]{
		table: "messages", number: "0", where: "t.partition IS NOT NULL",
		keys: []column[messageRow]{messageKey}, columns: changing,
		fault: "t.erased AND t.sealed_blob IS NOT NULL", named: "sealed_blob",
	}.statement()

	diffAttempts = comparison[attemptRow]{
		table: "attempts", number: "u.attempt", where: "true",
		keys: upsertAttempts.columns[:2], columns: upsertAttempts.columns[2:],
	}.statement()
)

func isBlob(c column[messageRow]) bool   { return c.name == "sealed_blob" }
func isNoBlob(c column[messageRow]) bool { return c.name != "sealed_blob" }

const (
	countTimeline  = `SELECT count(*) FROM timeline WHERE partition = $1 AND seq BETWEEN $2 AND $3`
	keysOfTimeline = `SELECT message_id, seq FROM timeline WHERE partition = $1 AND seq BETWEEN $2 AND $3`
	countAttempts  = `SELECT count(*) FROM attempts WHERE partition = $1 AND message_id = ANY($2)`
	keysOfAttempts = `SELECT message_id, attempt FROM attempts WHERE partition = $1 AND message_id = ANY($2)`
	lastSeqs       = `SELECT message_id, max(seq) FROM timeline WHERE partition = $1 AND message_id = ANY($2) GROUP BY message_id`
)
