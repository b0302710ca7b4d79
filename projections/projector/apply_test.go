package projector_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
)

func TestAHoleStopsTheProjector(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	all := story(t, 0, 5).All()
	strict := projector.New(pool, projector.Config{Gapless: true})
	for name, c := range map[string]struct {
		recs []events.Recorded
		last uint64
	}{
		"before the first event": {all[1:4], 4},
		"inside":                 {slices.Concat(all[:2], all[3:5]), 5},
		"after the last event":   {all[:3], 4},
		"instead of all events":  {nil, 2},
	} {
		err := strict.Apply(t.Context(), 0, c.recs, c.last)
		if events.CodeOf(err) != events.CodeLogGap {
			t.Errorf("hole %s: %v", name, err)
		}
		if at, err := strict.Checkpoint(t.Context(), 0); at != 0 || err != nil {
			t.Errorf("hole %s: checkpoint %d, %v", name, at, err)
		}
	}
	filtered := projector.New(pool, projector.Config{})
	if err := filtered.Apply(t.Context(), 0, all[1:4], 9); err != nil {
		t.Fatal(err)
	}
	if at, err := filtered.Checkpoint(t.Context(), 0); at != 9 || err != nil {
		t.Errorf("a filtered log left the checkpoint at %d, %v", at, err)
	}
}

func TestCheckpointNeverMovesBack(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	log := story(t, 4, 5)
	all := log.All()
	p := projector.New(pool, projector.Config{Gapless: true})
	if err := p.Apply(t.Context(), 4, all, 20); err != nil {
		t.Fatal(err)
	}
	before := dump(t, pool)
	for _, b := range []struct{ from, to int }{{0, 20}, {3, 7}, {0, 0}} {
		if err := p.Apply(t.Context(), 4, all[b.from:b.to], uint64(b.to)); err != nil {
			t.Fatal(err)
		}
	}
	if after := dump(t, pool); after != before {
		t.Error("old batches changed rows")
	}
}

func TestAnotherLogIsNoticed(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	all := story(t, 0, 5).All()
	p := projector.New(pool, projector.Config{Gapless: true})
	if err := p.Apply(t.Context(), 0, all[:6], 6); err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(all)
	other[5].ID = "another"
	err := p.Apply(t.Context(), 0, other[5:], 20)
	if diverged, ok := errors.AsType[*projector.DivergedError](err); !ok || diverged.Sequence != 6 {
		t.Errorf("another event at the checkpoint: %v", err)
	}
	if err := p.Apply(t.Context(), 0, all[5:], 20); err != nil {
		t.Error(err)
	}
}

func TestOnlyWholeEventsOfThePartitionAreTaken(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	all := story(t, 0, 1).All()
	p := projector.New(pool, projector.Config{Gapless: true})
	partial := slices.Clone(all)
	partial[1].Partial, partial[1].Body = true, nil
	if err := p.Apply(t.Context(), 0, partial, 4); events.CodeOf(err) != events.CodeMalformed {
		t.Errorf("headers only: %v", err)
	}
	if err := p.Apply(t.Context(), 1, all, 4); events.CodeOf(err) != events.CodeMalformed {
		t.Errorf("another partition: %v", err)
	}
	if err := p.Apply(t.Context(), 0, all, 3); events.CodeOf(err) != events.CodeMalformed {
		t.Errorf("an end before the newest event: %v", err)
	}
}

// What customers and gateways write must not be able to stop the view of a partition.
func TestUnstorableTextStopsNothing(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	log := logtest.New(0)
	e := logtest.Queued(0, log.ID(1), "acme", "inst-a")
	body, _ := e.Body.(*events.MessageQueued)
	body.Labels, body.Origin, body.CorrelationID = []string{"a\x00b"}, "x\x00", "\xff"
	body.TemplateVersion, body.RetentionDays = 1<<40, -1<<40
	log.Append(t, "inst-a", e)
	done := logtest.About(events.TypeDispatchAccepted, log.ID(1), 1, &events.DispatchAccepted{HTTPStatus: 1 << 50, Anomaly: "\x00"})
	done.GatewayID = "3EB0\x00"
	log.Append(t, "inst-a", done)
	log.Append(t, "inst-a", logtest.About(events.TypeReceiptSent, "msg\x00", 0, &events.Receipt{}))
	recs := slices.Clone(log.All())
	recs[2].Time, recs[2].Stored = time.Time{}, time.Time{}
	p := projector.New(pool, projector.Config{Gapless: true})
	if err := p.Apply(t.Context(), 0, recs, 3); err != nil {
		t.Fatal(err)
	}
	var labels []string
	var gatewayID string
	if err := pool.QueryRow(t.Context(), `SELECT labels, gateway_id FROM messages`).Scan(&labels, &gatewayID); err != nil {
		t.Fatal(err)
	}
	if labels[0] != "a\uFFFDb" || gatewayID != "3EB0\uFFFD" {
		t.Errorf("labels %q, gateway id %q", labels, gatewayID)
	}
}

func TestAttemptsTellHowEachCallEnded(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	log := logtest.New(0)
	id := log.ID(1)
	log.Queued(t, id, "acme", "inst-a")
	start := func(n int) {
		log.Append(t, "inst-a", logtest.About(events.TypeDispatchStarted, id, n, &events.DispatchStarted{}))
	}
	start(1)
	deferred := logtest.About(events.TypeDispatchDeferred, id, 1, &events.DispatchDeferred{Cause: "not_ready", HTTPStatus: 500, ElapsedMS: 7})
	deferred.Called = true
	log.Append(t, "inst-a", deferred)
	start(2)
	log.Append(t, "inst-a", logtest.About(events.TypeDispatchUnknown, id, 2, &events.DispatchUnknown{Cause: "limit", ElapsedMS: 15000}))
	proved := logtest.About(events.TypeDispatchProved, id, 2, &events.DispatchProved{By: events.ProofLookUp})
	proved.GatewayID = "3EB0FF"
	log.Append(t, "inst-a", proved)
	p := projector.New(pool, projector.Config{Gapless: true})
	if err := p.Apply(t.Context(), 0, log.All(), 6); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(format('%s %s %s %s %s %s %s %s', attempt, state, outcome, cause, http_status,
		elapsed_ms, gateway_id, ended_at > started_at), E'\n' ORDER BY attempt) FROM attempts`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := "1 deferred deferred not_ready 500 7  t\n2 proved unknown limit  15000 3EB0FF t"; got != want {
		t.Errorf("attempts:\n%s\nwant:\n%s", got, want)
	}
}

func TestABatchIsReportedWithoutPersonalData(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t), "pilot", postgres.Settings{})
	log := story(t, 3, 2)
	var lines bytes.Buffer
	var commits []uint64
	var batches []projector.Batch
	p := projector.New(pool, projector.Config{
		Logger: zerolog.New(&lines), OnBatch: func(b projector.Batch) { batches = append(batches, b) },
		OnCommit: func(_ events.Partition, seq uint64) { commits = append(commits, seq) },
	})
	for range 2 { // the second time nothing is new, and nothing is reported
		if err := p.Apply(t.Context(), 3, log.All(), 8); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(commits, []uint64{8}) || len(batches) != 1 {
		t.Fatalf("commits %v, batches %v", commits, batches)
	}
	if b := batches[0]; b.Partition != 3 || b.Events != 8 || b.Messages != 2 || b.From != 0 || b.To != 8 || b.Elapsed <= 0 {
		t.Errorf("batch %+v", b)
	}
	line := lines.String()
	if strings.Count(line, "\n") != 1 || !strings.Contains(line, `"events":8,"messages":2,"from":0,"to":8`) {
		t.Errorf("log: %s", line)
	}
	if strings.Contains(line, "msg_") || strings.Contains(line, "550000") {
		t.Errorf("the log names a message or a number: %s", line)
	}
}

// What a projector remembers is worth nothing once another one has moved the checkpoint.
func TestAProjectorNoticesAnother(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	pool := open(t, url, "pilot", postgres.Settings{})
	log := story(t, 0, 3)
	pair := []*projector.Projector{projector.New(pool, projector.Config{Gapless: true}), projector.New(pool, projector.Config{Gapless: true})}
	for i := range log.All() {
		if err := pair[i%2].Apply(t.Context(), 0, log.All()[:i+1], uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(rebuild(t, url, log), dump(t, pool)); diff != "" {
		t.Errorf("rows differ from a rebuild (-rebuilt +live):\n%s", diff)
	}
}
