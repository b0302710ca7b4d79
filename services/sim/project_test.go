package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/schema"
)

// step is how many events one transaction of the projector takes; odd, so that batches end anywhere in a message's story.
const step = 337

// patience is how long Postgres may take for a step.
const patience = 2 * time.Minute

// project writes the log into a real Postgres and compares every row with the fold (I7).
func project(t *testing.T, h *history) []violation {
	url := pgtest.Database(t)
	const name = "sim"
	ctx := t.Context()
	fail := func(err error) []violation { return []violation{{"I7", "", fmt.Sprintf("project: %v", err)}} }
	if err := schema.Migrate(ctx, url, name); err != nil {
		return fail(err)
	}
	// Rows are judged here, not how fast a busy machine writes them: what the projector would try again must not look like a wrong row.
	pool, err := schema.Open(ctx, url, name, postgres.Settings{StatementTimeout: patience, LockTimeout: patience, IdleInTx: patience})
	if err != nil {
		return fail(err)
	}
	defer pool.Close()
	view := projector.New(pool, projector.Config{Gapless: true, Cache: 500, Timeout: patience}) // small: facts are read back from their rows, too
	for p, log := range h.logs {
		for at := 0; at < len(log); at += step {
			batch := log[at:min(len(log), at+step)]
			if err := view.Apply(ctx, events.Partition(p), batch, batch[len(batch)-1].Position.Sequence); err != nil {
				return fail(err)
			}
		}
	}
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return fail(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing was written
	found, err := h.compare(ctx, tx)
	if err != nil {
		return fail(err)
	}
	return found
}

// compare reports the rows that are not what the log says, and those that are not what the fold of each message says.
func (h *history) compare(ctx context.Context, tx pgx.Tx) ([]violation, error) {
	var found []violation
	for p, log := range h.logs {
		part, ids := events.Partition(p), []string{}
		for _, m := range h.order {
			if m.state.Queued != nil && m.state.Queued.Position.Partition == part {
				ids = append(ids, m.ID)
			}
		}
		diffs, err := projector.DiffEvents(ctx, tx, part, log, 1, uint64(len(log)))
		if err != nil {
			return nil, err
		}
		more, err := projector.DiffMessages(ctx, tx, part, ids)
		if err != nil {
			return nil, err
		}
		for _, d := range append(diffs, more...) {
			found = append(found, violation{"I7", d.MessageID, fmt.Sprintf("%s %d/%d: %s", d.Table, d.Sequence, d.Attempt, d.What)})
		}
	}
	rows, err := tx.Query(ctx, `SELECT id, stage, status, coalesce(gateway_id, ''), coalesce(error_code, ''), attempts, presumed, corrected FROM messages`)
	if err != nil {
		return nil, err
	}
	seen := 0
	var id, stage, status, gatewayID, code string
	var attempts int
	var presumed, corrected bool
	_, err = pgx.ForEachRow(rows, []any{&id, &stage, &status, &gatewayID, &code, &attempts, &presumed, &corrected}, func() error {
		seen++
		m := h.messages[id]
		if m == nil {
			found = append(found, violation{"I7", id, "a row of a message that nobody accepted"})
			return nil
		}
		is := fmt.Sprint(stage, status, gatewayID, code, attempts, presumed, corrected)
		v := m.view
		if want := fmt.Sprint(v.Stage, v.Status(), v.GatewayID, v.ErrorCode, v.Attempts, v.Presumed, v.Corrected); is != want {
			found = append(found, violation{"I7", id, "the row says " + is + ", the fold " + want})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if seen != len(h.order) {
		found = append(found, violation{"I7", "", fmt.Sprintf("%d rows of %d messages", seen, len(h.order))})
	}
	return found, nil
}
