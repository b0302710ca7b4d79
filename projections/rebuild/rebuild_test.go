package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/rebuild"
	"pilotstatus.dev/projections/rebuild/streamtest"
	"pilotstatus.dev/projections/schema"
	"pilotstatus.dev/projections/views"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// live is a running read side.
type live struct {
	url  string
	pool *pgxpool.Pool
	stop func()
}

func open(t testing.TB, url, name string) *pgxpool.Pool {
	t.Helper()
	if err := schema.Migrate(t.Context(), url, name); err != nil {
		t.Fatal(err)
	}
	// Reads go on during the switch, also where the machine stands still just then.
	pool, err := schema.Open(t.Context(), url, name, postgres.Settings{StatementTimeout: 20 * time.Second, LockTimeout: 20 * time.Second, IdleInTx: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// run projects the partitions into the live schema until stop.
func run(t testing.TB, w *streamtest.World, url string) *live {
	t.Helper()
	l := &live{url: url, pool: open(t, url, schema.Default)}
	p := projector.New(l.pool, projector.Config{Gapless: true, RetryMin: 5 * time.Millisecond, RetryMax: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, part := range w.Partitions {
		running.Go(func() {
			if err := p.Run(ctx, part, rebuild.Streams{Log: w.Log}); err != nil {
				t.Errorf("live projector: %v", err)
			}
		})
	}
	l.stop = func() { cancel(); running.Wait() }
	t.Cleanup(l.stop)
	return l
}

func (l *live) wait(t testing.TB, p events.Partition, seq uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := views.New(l.pool).WaitFor(ctx, p, seq); err != nil {
		t.Fatal(err)
	}
}

// dump gives every row of every table; build and updated_at say who wrote, not what.
func dump(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	var out strings.Builder
	for _, table := range []string{"messages", "timeline", "attempts", "quota_usage", "digests", "checkpoints"} {
		var rows string
		err := pool.QueryRow(context.Background(), fmt.Sprintf(
			`SELECT coalesce(string_agg(r, E'\n' ORDER BY r), '') FROM (SELECT (to_jsonb(x) - 'updated_at' - 'build')::text AS r FROM %s x) y`, table)).Scan(&rows)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(table + "\n" + rows + "\n")
	}
	return out.String()
}

func config(w *streamtest.World, url string) rebuild.Config {
	return rebuild.Config{
		URL: url, Schema: schema.Default, Partitions: w.Partitions, Source: rebuild.Streams{Log: w.Log},
		Near: 100, Tick: 10 * time.Millisecond,
	}
}

// While messages are accepted, projected and read: the rebuilt rows are the same, the same pools go on on the new
// tables, no answer is wrong in between, and the log has no consumer more than before.
func TestRebuildUnderTraffic(t *testing.T) {
	t.Parallel()
	w, url := streamtest.Start(t, 2), pgtest.Database(t)
	writers := []*streamtest.Writer{w.Writer(0), w.Writer(1)}
	for _, wr := range writers {
		wr.Story(t, 300)
		wr.Flush(t)
	}
	l := run(t, w, url)
	l.wait(t, 0, writers[0].Seq())

	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	traffic.Go(func() {
		for ctx.Err() == nil {
			for _, wr := range writers {
				wr.Story(t, 5)
			}
			writers[0].Flush(t)
		}
	})
	v := views.New(l.pool)
	first := writers[0].ID(1)
	var reads atomic.Int64
	traffic.Go(func() {
		for ctx.Err() == nil {
			m, err := v.Message(context.Background(), views.Scope{Tenant: "acme", Project: "project-acme", Environment: events.Live}, first)
			if err != nil || m.Stage != events.StageDelivered {
				t.Errorf("a read during the rebuild: %s, %v", m.Stage, err)
				return
			}
			reads.Add(1)
		}
	})
	heard := 0
	cfg := config(w, url)
	cfg.Logger = zerolog.New(zerolog.NewTestWriter(t))
	cfg.OnProgress = func(p rebuild.Progress) {
		if heard++; p.Of == 0 || p.Percent() < 0 || p.Percent() > 100 || len(p.Partitions) != 2 {
			t.Errorf("progress: %+v", p)
		}
	}
	res, err := rebuild.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	before := reads.Load()
	stop()
	traffic.Wait()
	if !res.Verified || res.Old != "" || res.Events < 2400 || res.Rate <= 0 || heard == 0 || before == 0 {
		t.Errorf("result %+v after %d reports and %d reads", res, heard, before)
	}
	for _, wr := range writers {
		wr.Story(t, 1)
		wr.Flush(t)
	}
	l.wait(t, 0, writers[0].Seq())
	l.wait(t, 1, writers[1].Seq())
	l.stop()

	var build string
	if err := l.pool.QueryRow(t.Context(), `SELECT min(build) FROM checkpoints`).Scan(&build); err != nil || build == "" {
		t.Errorf("the live tables are not the rebuilt ones: %q, %v", build, err)
	}
	other := pgtest.Database(t)
	o := run(t, w, other)
	o.wait(t, 0, writers[0].Seq())
	o.wait(t, 1, writers[1].Seq())
	o.stop()
	if diff := cmp.Diff(dump(t, o.pool), dump(t, l.pool)); diff != "" {
		t.Errorf("rows after the switch (-of the log +live):\n%s", diff)
	}
	found, err := rebuild.Leftovers(t.Context(), url, schema.Default)
	if err != nil || len(found.Unfinished)+len(found.Old) > 0 {
		t.Errorf("left behind: %+v, %v", found, err)
	}
	for _, p := range w.Partitions {
		awaittest.Eventually(t, 20*time.Second, 50*time.Millisecond, "no consumer remains", func() bool { // sooner than they go by themselves
			s, err := w.JS.Stream(t.Context(), events.EventsStream(p))
			return err == nil && s.CachedInfo().State.Consumers == 0
		}, nil)
	}
}

// Edited live rows stop the switch and are named; without the comparison the log wins.
func TestEditedRowsStopTheSwitch(t *testing.T) {
	t.Parallel()
	w, url := streamtest.Start(t, 1), pgtest.Database(t)
	wr := w.Writer(0)
	wr.Story(t, 300)
	wr.Flush(t)
	l := run(t, w, url)
	l.wait(t, 0, wr.Seq())
	var want []rebuild.Row
	for i, edit := range []struct{ sql, table, key string }{
		{`UPDATE messages SET stage = 'READ' WHERE id = $1`, "messages", "%s"},
		{`UPDATE messages SET last_seq = 1000000 WHERE id = $1`, "messages", "%s"}, // looked at last only
		{`DELETE FROM messages WHERE id = $1`, "messages", "%s"},
		{`UPDATE timeline SET attempt = 5 WHERE message_id = $1 AND event = 'message.queued'`, "timeline", "0 13 %s"},
		{`DELETE FROM attempts WHERE message_id = $1`, "attempts", "%s 1"},
		{`UPDATE digests SET digest = 'x' WHERE up_to = 1000 AND $1 <> ''`, "digests", "0 1000"},
	} {
		id := wr.ID(uint32(i + 1))
		if _, err := l.pool.Exec(t.Context(), edit.sql, id); err != nil {
			t.Fatal(err)
		}
		want = append(want, rebuild.Row{Table: edit.table, Key: strings.Replace(edit.key, "%s", id, 1)})
	}
	before := dump(t, l.pool)
	_, err := rebuild.Run(t.Context(), config(w, url))
	differs, ok := errors.AsType[*rebuild.DiffersError](err)
	if !ok {
		t.Fatalf("error = %v, want *DiffersError", err)
	}
	for _, row := range want {
		if !slices.Contains(differs.Rows, row) && row != want[1] {
			t.Errorf("%v is not among %v", row, differs.Rows)
		}
	}
	if diff := cmp.Diff(before, dump(t, l.pool)); diff != "" {
		t.Errorf("a stopped switch changed live rows:\n%s", diff)
	}
	if _, err := rebuild.Run(t.Context(), config(w, url)); !errors.Is(err, rebuild.ErrLeftover) {
		t.Errorf("error = %v, want ErrLeftover", err)
	}
	if gone, err := rebuild.Clean(t.Context(), url, schema.Default); err != nil || len(gone) != 1 || gone[0] != differs.Schema {
		t.Fatalf("clean: %v, %v", gone, err)
	}

	cfg := config(w, url)
	cfg.NoVerify, cfg.KeepOld = true, true
	res, err := rebuild.Run(t.Context(), cfg)
	if err != nil || res.Verified {
		t.Fatalf("result %+v, %v", res, err)
	}
	if found, err := rebuild.Leftovers(t.Context(), url, schema.Default); err != nil || !slices.Equal(found.Old, []string{res.Old}) {
		t.Errorf("kept: %+v, %v; want %s", found, err, res.Old)
	}
	// What the early look passes over, because it seems to have changed since, the late one finds.
	if _, err := l.pool.Exec(t.Context(), `UPDATE messages SET last_seq = 1000000 WHERE id = $1`, wr.ID(2)); err != nil {
		t.Fatal(err)
	}
	_, err = rebuild.Run(t.Context(), config(w, url))
	if differs, ok := errors.AsType[*rebuild.DiffersError](err); !ok || !slices.Contains(differs.Rows, want[1]) {
		t.Errorf("after the rebuild: %v, want a difference in the edited row", err)
	}
}

// What a running projector remembers of replaced rows does not come back.
func TestNothingRemembersReplacedRows(t *testing.T) {
	t.Parallel()
	w, url := streamtest.Start(t, 1), pgtest.Database(t)
	wr := w.Writer(0)
	id := wr.Queued(t)
	wr.Flush(t)
	pool := open(t, url, schema.Default)
	p := projector.New(pool, projector.Config{Gapless: true})
	src := rebuild.Streams{Log: w.Log}
	done := errors.New("done")
	apply := func(mislead bool) {
		t.Helper()
		at, err := p.Checkpoint(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		err = src.Tail(t.Context(), 0, at+1, func(ctx context.Context, recs []events.Recorded, last uint64) error {
			if mislead { // as a fold with a fault would
				e := recs[0]
				e.Type, e.Body, e.Attempt = events.TypeDispatchStarted, &events.DispatchStarted{}, 3
				recs[0] = e
			}
			if err := p.Apply(ctx, 0, recs, last); err != nil {
				return err
			}
			if last == wr.Seq() { // the events may come in several batches
				return done
			}
			return nil
		})
		if !errors.Is(err, done) {
			t.Fatal(err)
		}
	}
	apply(true)
	cfg := config(w, url)
	cfg.NoVerify = true
	if _, err := rebuild.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	wr.Story(t, 1)
	e := events.Event{Envelope: events.Envelope{Type: events.TypeDispatchStarted, Subject: id, Attempt: 1, Nonce: "n"}, Body: &events.DispatchStarted{}}
	wr.Append(t, e)
	wr.Flush(t)
	apply(false)
	var attempts int
	if err := pool.QueryRow(t.Context(), `SELECT attempts FROM messages WHERE id = $1`, id).Scan(&attempts); err != nil || attempts != 1 {
		t.Errorf("attempts = %d, %v; want 1", attempts, err)
	}
}

// A rebuild that dies at any time leaves the live tables as they were and a schema that the next one reports; two at
// once are refused.
func TestInterruptedRebuild(t *testing.T) {
	t.Parallel()
	w, url := streamtest.Start(t, 1), pgtest.Database(t)
	wr := w.Writer(0)
	wr.Story(t, 300)
	wr.Flush(t)
	l := run(t, w, url)
	l.wait(t, 0, wr.Seq())
	before := dump(t, l.pool)

	ctx, die := context.WithCancel(t.Context())
	cfg := config(w, url)
	cfg.Near, cfg.Source = 1, endless{rebuild.Streams{Log: w.Log}}
	var second error
	var once sync.Once
	cfg.OnProgress = func(p rebuild.Progress) {
		if p.Events > 0 {
			once.Do(func() {
				_, second = rebuild.Run(t.Context(), config(w, url))
				die()
			})
		}
	}
	if _, err := rebuild.Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v, want that of the context", err)
	}
	if !errors.Is(second, rebuild.ErrRunning) {
		t.Errorf("a second rebuild: %v, want ErrRunning", second)
	}
	if diff := cmp.Diff(before, dump(t, l.pool)); diff != "" {
		t.Errorf("an interrupted rebuild changed live rows:\n%s", diff)
	}
	if _, err := rebuild.Run(t.Context(), config(w, url)); !errors.Is(err, rebuild.ErrLeftover) {
		t.Fatalf("error = %v, want ErrLeftover", err)
	}
	if gone, err := rebuild.Clean(t.Context(), url, schema.Default); err != nil || len(gone) != 1 {
		t.Fatalf("clean: %v, %v", gone, err)
	}
	if _, err := rebuild.Run(t.Context(), config(w, url)); err != nil {
		t.Fatal(err)
	}
}

// endless is a log whose end is never near.
type endless struct{ rebuild.Streams }

func (e endless) Last(ctx context.Context, p events.Partition) (uint64, error) {
	n, err := e.Streams.Last(ctx, p)
	return n + 1000, err
}

// Everything in Postgres dropped: the views come back without a projector.
func TestRebuildOfNothing(t *testing.T) {
	t.Parallel()
	w, url := streamtest.Start(t, 1), pgtest.Database(t)
	wr := w.Writer(0)
	wr.Story(t, 300)
	wr.Flush(t)
	if _, err := rebuild.Run(t.Context(), config(w, url)); err != nil {
		t.Fatal(err)
	}
	pool := open(t, url, schema.Default)
	var messages int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM messages WHERE stage = 'DELIVERED'`).Scan(&messages); err != nil || messages != 300 {
		t.Errorf("%d messages, %v; want 300", messages, err)
	}
}
