package projector_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
)

// differences compares the tables with a log that the view has read whole, in words.
func differences(t testing.TB, pool *pgxpool.Pool, part events.Partition, all []events.Recorded) []string {
	t.Helper()
	tx, err := pool.BeginTx(context.Background(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	found, err := projector.DiffEvents(context.Background(), tx, part, all, 1, uint64(len(all)))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, rec := range all {
		for _, m := range message.Subjects(rec) {
			if !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	more, err := projector.DiffMessages(context.Background(), tx, part, ids)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, 0, len(found)+len(more))
	for _, d := range append(found, more...) {
		out = append(out, fmt.Sprintf("%s %d %d: %s", d.Table, d.Sequence, d.Attempt, d.What))
	}
	slices.Sort(out)
	return out
}

// Whatever the log says, a view that a projector made of it has no difference.
func TestAProjectedViewHasNoDifference(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	rapid.Check(t, func(rt *rapid.T) {
		truncate(t, pool)
		log := logtest.New(3)
		logtest.Draw(rt, t, log, rapid.IntRange(1, 60).Draw(rt, "events"))
		all := log.All()
		p := projector.New(pool, projector.Config{Gapless: true})
		for at := 0; at < len(all); {
			to := min(len(all), at+rapid.IntRange(1, 20).Draw(rt, "batch"))
			if err := p.Apply(t.Context(), 3, all[at:to], uint64(to)); err != nil {
				rt.Fatal(err)
			}
			at = to
		}
		if got := differences(t, pool, 3, all); len(got) > 0 {
			rt.Fatalf("differences: %s", strings.Join(got, "\n"))
		}
	})
}

// Every way to edit a row is named, with its column.
func TestEveryEditIsADifference(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	all := story(t, 1, 4).All()
	for _, tc := range []struct{ edit, want string }{
		{`UPDATE messages SET stage = 'FAILED' WHERE queued_seq = 1`, "messages 0 0: stage"},
		{`UPDATE messages SET tenant_id = 'x', labels = '[]' WHERE queued_seq = 1`, "messages 0 0: tenant_id, labels"},
		{`UPDATE messages SET sealed_blob = 'x' WHERE queued_seq = 1`, "messages 0 0: sealed_blob"},
		{`UPDATE messages SET queued_seq = 0 WHERE queued_seq = 1`, "messages 0 0: queued_seq"},
		{`UPDATE messages SET last_seq = last_seq + 1 WHERE queued_seq = 1`, "messages 0 0: last_seq"},
		{`DELETE FROM messages WHERE queued_seq = 1`, "messages 0 0: missing"},
		{`UPDATE timeline SET at = at + interval '1 microsecond' WHERE seq = 1`, "timeline 1 0: at"},
		{`UPDATE timeline SET seq = 1000 WHERE seq = 1`, "timeline 1 0: missing"},
		{`INSERT INTO timeline SELECT partition, 2, message_id || 'x', event, at, stored_at, attempt, false, called, presumed FROM timeline WHERE seq = 1`, "timeline 2 0: unexpected"},
		{`UPDATE attempts SET elapsed_ms = 1 WHERE message_id = (SELECT id FROM messages WHERE queued_seq = 1)`, "attempts 0 1: elapsed_ms"},
		{`DELETE FROM attempts WHERE message_id = (SELECT id FROM messages WHERE queued_seq = 1)`, "attempts 0 1: missing"},
		{`INSERT INTO attempts (message_id, attempt, partition, state, called, absent) SELECT id, 9, partition, 'open', true, false FROM messages WHERE queued_seq = 1`, "attempts 0 9: unexpected"},
	} {
		truncate(t, pool)
		if err := projector.New(pool, projector.Config{Gapless: true}).Apply(t.Context(), 1, all, uint64(len(all))); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), tc.edit, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		got := differences(t, pool, 1, all)
		if !slices.Contains(got, tc.want) {
			t.Errorf("%s\ngives %q, want %q", tc.edit, got, tc.want)
		}
	}
}

// digested gives the log with a digest for each event, as a tail would.
func digested(all []events.Recorded) []events.Recorded {
	out := slices.Clone(all)
	for i := range out {
		out[i].Digest = events.Wire{Subject: out[i].ID + out[i].Type + out[i].Position.String()}.Digest()
	}
	return out
}

func ask(t testing.TB, pool *pgxpool.Pool, sql string) string {
	t.Helper()
	var s string
	if err := pool.QueryRow(t.Context(), sql).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The digests of a partition do not depend on its batches, and a run that lost its thread begins anew at the next
// multiple, once.
func TestDigestsDoNotDependOnBatches(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	one, many, late := open(t, url, "one", postgres.Settings{}), open(t, url, "many", postgres.Settings{}), open(t, url, "late", postgres.Settings{})
	plain := story(t, 0, 560).All()
	all := digested(plain)
	apply := func(pool *pgxpool.Pool, recs []events.Recorded) {
		t.Helper()
		p := projector.New(pool, projector.Config{Gapless: true})
		if err := p.Apply(t.Context(), 0, recs, recs[len(recs)-1].Position.Sequence); err != nil {
			t.Fatal(err)
		}
	}
	apply(one, all)
	for at := 0; at < len(all); at += 331 {
		apply(many, all[at:min(len(all), at+331)])
	}
	apply(late, plain[:700])
	apply(late, all[700:])

	const rows = `SELECT coalesce(string_agg(up_to || ' ' || digest::text, E'\n' ORDER BY up_to), '') FROM digests`
	const end = `SELECT digested || ' ' || digest::text FROM checkpoints`
	if diff := cmp.Diff(ask(t, one, rows)+ask(t, one, end), ask(t, many, rows)+ask(t, many, end)); diff != "" {
		t.Errorf("digests depend on batches:\n%s", diff)
	}
	var want events.Digest
	for _, rec := range all {
		want = want.Then(rec.Digest)
	}
	if got := ask(t, one, end); got != fmt.Sprintf("%d \\x%x", len(all), want) {
		t.Errorf("digest at the checkpoint: %s, want %x", got, want)
	}
	want = events.Digest{}
	for _, rec := range all[1000:2000] {
		want = want.Then(rec.Digest)
	}
	if got := ask(t, late, rows); got != fmt.Sprintf("2000 \\x%x", want) {
		t.Errorf("a late run gives %s, want 2000 %x", got, want)
	}
}
