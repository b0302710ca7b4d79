package audit_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/audit"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/rebuild"
	"pilotstatus.dev/projections/rebuild/streamtest"
	"pilotstatus.dev/projections/schema"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// project makes the views of a world, as a running projector would.
func project(t testing.TB, w *streamtest.World) *pgxpool.Pool {
	t.Helper()
	_, pool := projectURL(t, w)
	return pool
}

func projectURL(t testing.TB, w *streamtest.World) (string, *pgxpool.Pool) {
	t.Helper()
	url := pgtest.Database(t)
	cfg := rebuild.Config{URL: url, Schema: schema.Default, Partitions: w.Partitions, Source: rebuild.Streams{Log: w.Log}, Near: 1, NoVerify: true, Tick: 5 * time.Millisecond}
	if _, err := rebuild.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	pool, err := schema.Open(t.Context(), url, schema.Default, postgres.Settings{StatementTimeout: -1, MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	p := projector.New(pool, projector.Config{Gapless: true})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	for _, part := range w.Partitions {
		running.Go(func() {
			if err := p.Run(ctx, part, rebuild.Streams{Log: w.Log}); err != nil {
				t.Error(err)
			}
		})
	}
	for _, part := range w.Partitions {
		last, err := w.Log.LastSequence(ctx, events.EventsStream(part))
		if err != nil {
			t.Fatal(err)
		}
		for at := uint64(0); at < last && ctx.Err() == nil; {
			if at, err = p.Checkpoint(ctx, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	running.Wait()
	return url, pool
}

func verify(t testing.TB, w *streamtest.World, pool *pgxpool.Pool) (audit.Report, []audit.Finding) {
	t.Helper()
	var found []audit.Finding
	report, err := audit.Verify(t.Context(), audit.Config{
		Log: w.Log, Pool: pool, Partitions: w.Partitions, Silence: time.Second,
		OnFinding: func(f audit.Finding) { found = append(found, f) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Findings != uint64(len(found)) {
		t.Errorf("%d findings reported, %d counted", len(found), report.Findings)
	}
	return report, found
}

func kinds(found []audit.Finding) []audit.Kind {
	var out []audit.Kind
	for _, f := range found {
		if !slices.Contains(out, f.Kind) {
			out = append(out, f.Kind)
		}
	}
	slices.Sort(out)
	return out
}

// world writes 600 messages into one partition: 2,520 events.
func world(t testing.TB) (*streamtest.World, *streamtest.Writer) {
	t.Helper()
	w := streamtest.Start(t, 1)
	wr := w.Writer(0)
	wr.Story(t, 600)
	wr.Flush(t)
	return w, wr
}

// A whole log has no finding, also while it grows and is projected; each edited row is one.
func TestVerifyFindsEditedRows(t *testing.T) {
	t.Parallel()
	w, wr := world(t)
	pool := project(t, w)
	report, found := verify(t, w, pool)
	if diff := cmp.Diff(audit.Report{Partitions: 1, Events: 2520, Messages: 600}, report); diff != "" || len(found) > 0 {
		t.Fatalf("a whole log: %s%v", diff, found)
	}
	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	p := projector.New(pool, projector.Config{Gapless: true})
	traffic.Go(func() {
		for ctx.Err() == nil {
			wr.Story(t, 10)
			wr.Flush(t)
		}
	})
	traffic.Go(func() { _ = p.Run(ctx, 0, rebuild.Streams{Log: w.Log}) })
	if _, found := verify(t, w, pool); len(found) > 0 {
		t.Errorf("under traffic: %v", found)
	}
	stop()
	traffic.Wait()

	want := []string{}
	for i, edit := range []struct{ sql, table, detail string }{
		{`UPDATE messages SET stage = 'READ' WHERE id = $1`, "messages", "stage"},
		{`UPDATE messages SET recipient_hash = 'x' WHERE id = $1`, "messages", "recipient_hash"},
		{`UPDATE messages SET quota_windows = 'm-2026-11', refunded = id = $1 WHERE id = $1`, "messages", "refunded"},
		{`UPDATE attempts SET state = 'unknown' WHERE message_id = $1`, "attempts", "attempt 1: state"},
		{`UPDATE timeline SET cause = 'x' WHERE message_id = $1 AND event = 'message.queued'`, "timeline", "cause"},
		{`INSERT INTO attempts (message_id, attempt, partition, state, called, absent) VALUES ($1, 9, 0, 'open', true, false)`, "attempts", "attempt 9: unexpected"},
		{`DELETE FROM messages WHERE id = $1`, "messages", "missing"},
		{`DELETE FROM timeline WHERE message_id = $1 AND event = 'receipt.delivered'`, "timeline", "missing"},
		{`INSERT INTO timeline SELECT 0, 999999, message_id, event, at, stored_at, 1, false, false, false FROM timeline WHERE message_id = $1 LIMIT 1`, "timeline", "unexpected"},
	} {
		id := wr.ID(uint32(i + 1))
		if _, err := pool.Exec(t.Context(), edit.sql, id); err != nil {
			t.Fatal(err)
		}
		want = append(want, edit.table+" "+id+" "+edit.detail)
	}
	want = append(want, "quota_usage  acme d-2026-11-29")
	_, found = verify(t, w, pool)
	for _, f := range found {
		got := f.Table + " " + f.MessageID + " " + f.Detail
		if f.Kind != audit.KindRow {
			t.Errorf("also found %v", f)
		}
		want = slices.DeleteFunc(want, func(w string) bool { return w == got })
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// A flipped bit in a block file, with and without the server's index, is a gap; the log around it is still verified.
func TestVerifyFindsAFlippedBit(t *testing.T) {
	t.Parallel()
	for _, index := range []bool{true, false} {
		t.Run(map[bool]string{true: "with index", false: "without index"}[index], func(t *testing.T) {
			t.Parallel()
			w, _ := world(t)
			pool := project(t, w)
			w.Down(t)
			block := w.Blocks(t, 0)[0]
			raw, err := os.ReadFile(block)
			if err != nil {
				t.Fatal(err)
			}
			raw[len(raw)/2] ^= 1
			if err := os.WriteFile(block, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if !index {
				if err := os.Remove(strings.TrimSuffix(block, "1.blk") + "index.db"); err != nil {
					t.Fatal(err)
				}
			}
			w.Up(t)
			_, found := verify(t, w, pool)
			if !slices.ContainsFunc(found, func(f audit.Finding) bool {
				return (f.Kind == audit.KindGap || f.Kind == audit.KindShort) && f.From > 0 && f.To >= f.From
			}) {
				t.Errorf("found %v", found)
			}
			t.Logf("found %v", found)
		})
	}
}

// slowToEnd is a log whose tails have not ended yet when the audit takes the log for silent.
type slowToEnd struct{ *eventlog.Log }

func (l slowToEnd) Tail(ctx context.Context, cfg eventlog.TailConfig, handle func(context.Context, eventlog.Batch) error) error {
	err := l.Log.Tail(ctx, cfg, handle)
	select {
	case <-ctx.Done(): // this is then what a tail gives
		return ctx.Err()
	case <-time.After(20 * time.Second):
		return err
	}
}

// A tail that takes its time to end is no gap behind the end of the log.
func TestVerifyFindsNothingBehindTheEnd(t *testing.T) {
	t.Parallel()
	w := streamtest.Start(t, 1)
	wr := w.Writer(0)
	wr.Story(t, 10)
	wr.Flush(t)
	var found []audit.Finding
	report, err := audit.Verify(t.Context(), audit.Config{
		Log: slowToEnd{w.Log}, Partitions: w.Partitions, Silence: 500 * time.Millisecond, OnFinding: func(f audit.Finding) { found = append(found, f) },
	})
	if err != nil || len(found) > 0 || report.Events != wr.Seq() {
		t.Errorf("%+v, found %v, %v", report, found, err)
	}
}

// hardOfHearing is a log that does not answer each second question about its end.
type hardOfHearing struct {
	*eventlog.Log
	asked int
}

func (l *hardOfHearing) LastSequence(ctx context.Context, stream string) (uint64, error) {
	if l.asked++; l.asked%2 == 1 {
		return 0, events.Errorf(events.CodeUnavailable, "the log did not answer")
	}
	return l.Log.LastSequence(ctx, stream)
}

// What takes hours is not given up over one question that got no answer.
func TestVerifyInsistsOnAnAnswer(t *testing.T) {
	t.Parallel()
	w := streamtest.Start(t, 1)
	wr := w.Writer(0)
	wr.Story(t, 10)
	wr.Flush(t)
	log := &hardOfHearing{Log: w.Log}
	report, err := audit.Verify(t.Context(), audit.Config{Log: log, Partitions: w.Partitions})
	if err != nil || report.Findings > 0 || report.Events != wr.Seq() || log.asked < 2 {
		t.Errorf("%+v, %v after %d questions", report, err, log.asked)
	}
}

// deletable is a log whose stream allows what ours refuses.
func deletable(t testing.TB) (*streamtest.World, *streamtest.Writer) {
	t.Helper()
	w := streamtest.Start(t, 0)
	if _, err := w.JS.CreateStream(t.Context(), jetstream.StreamConfig{Name: events.EventsStream(0), Subjects: []string{events.EventsFilter(0)}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	w.Partitions = []events.Partition{0}
	return w, w.Writer(0)
}

// Missing events are named exactly, also the first and the last; the chain and the digests around them still hold.
func TestVerifyFindsMissingEvents(t *testing.T) {
	t.Parallel()
	w, wr := deletable(t)
	wr.Story(t, 600)
	wr.Flush(t)
	pool := project(t, w)
	s, err := w.JS.Stream(t.Context(), events.EventsStream(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 500, 501, 1500, wr.Seq()} {
		if err := s.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	_, found := verify(t, w, pool)
	var gaps []string
	for _, f := range found {
		if f.Kind == audit.KindGap {
			gaps = append(gaps, f.Place())
		}
	}
	if diff := cmp.Diff([]string{"0:1", "0:500-501", "0:1500", "0:2520"}, gaps); diff != "" {
		t.Errorf("gaps:\n%s\nall: %v", diff, found)
	}
	for _, k := range kinds(found) {
		if k != audit.KindGap && k != audit.KindChain {
			t.Errorf("also found %s: %v", k, found)
		}
	}
}

// An event that was put in another's place, whole and with the same id, is seen by its digest in its block only; the
// same log has none.
func TestVerifyFindsAnotherEventByItsDigest(t *testing.T) {
	t.Parallel()
	write := func(budget int64) (*streamtest.World, *streamtest.Writer) {
		w := streamtest.Start(t, 1)
		wr := w.Writer(0)
		wr.Story(t, 300)
		e := logtest.About(events.TypeDispatchStarted, wr.Queued(t), 1, &events.DispatchStarted{Call: "sendText", BudgetMS: budget})
		wr.Append(t, e)
		wr.Story(t, 300)
		wr.Flush(t)
		return w, wr
	}
	first, _ := write(2000)
	pool := project(t, first)
	for budget, want := range map[int64][]string{2000: nil, 9000: {"0:1001-2000"}} {
		other, _ := write(budget)
		_, found := verify(t, other, pool)
		var digests []string
		for _, f := range found {
			if f.Kind == audit.KindDigest {
				digests = append(digests, f.Place())
			} else if f.Detail != "stored_at" { // the other server stored it at another time
				t.Errorf("also found %v", f)
			}
		}
		if diff := cmp.Diff(want, digests); diff != "" {
			t.Errorf("digests of a log with budget %d:\n%s", budget, diff)
		}
	}
	// An edited digest is a fault too, and so is one that is gone.
	for sql, kind := range map[string]audit.Kind{
		`UPDATE digests SET digest = 'x' WHERE up_to = 2000`: audit.KindDigest, `DELETE FROM digests`: audit.KindUndigest,
	} {
		if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		if _, found := verify(t, first, pool); !slices.Contains(kinds(found), kind) {
			t.Errorf("%s: found %v", sql, found)
		}
	}
}

// A fenced event that does not name the one before it is found; the log alone is enough for that.
func TestVerifyFindsABrokenChain(t *testing.T) {
	t.Parallel()
	w, wr := world(t)
	e := logtest.About(events.TypeDispatchAccepted, wr.ID(1), 1, &events.DispatchAccepted{HTTPStatus: 201})
	e.ID, e.Source, e.Prev = "other", "pilot/test", 17
	e.Address = events.EventSubject(0, streamtest.Instance, events.GroupDispatch, "accepted")
	wire, err := events.Standard.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.JS.Publish(t.Context(), wire.Subject, wire.Data); err != nil { // no headers at all
		t.Fatal(err)
	}
	_, found := verify(t, w, nil)
	if diff := cmp.Diff([]audit.Kind{audit.KindChain, audit.KindMalformed}, kinds(found)); diff != "" {
		t.Errorf("%s%v", diff, found)
	}
}

// The log of an older copy ends before what the view has read.
func TestVerifyFindsAShortLog(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	pool := project(t, w)
	short := streamtest.Start(t, 1)
	wr := short.Writer(0)
	wr.Story(t, 100)
	wr.Flush(t)
	_, found := verify(t, short, pool)
	if !slices.Contains(kinds(found), audit.KindShort) {
		t.Errorf("found %v", kinds(found))
	}
}
