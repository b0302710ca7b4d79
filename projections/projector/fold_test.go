package projector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
)

// folded is what the fold says of a message, in the words of table messages.
type folded struct {
	Stage, Status, GatewayID, ErrorCode                 string
	Attempts                                            int
	Presumed, Corrected, Erased, Refunded               bool
	Dispatched, Sent, Delivered, Read, Failed, Canceled string
	QueuedSeq                                           int64
	Blob                                                int
	AttemptStates                                       string
	Timeline                                            string
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

func expect(s message.State, timeline string) folded {
	v := s.View()
	f := folded{
		Stage: string(v.Stage), Status: string(v.Status()), GatewayID: v.GatewayID, ErrorCode: string(v.ErrorCode),
		Attempts: v.Attempts, Presumed: v.Presumed, Corrected: v.Corrected, Erased: v.Erased, Refunded: v.Refunded,
		Dispatched: stamp(v.DispatchedAt), Sent: stamp(v.SentAt), Delivered: stamp(v.DeliveredAt), Read: stamp(v.ReadAt),
		Failed: stamp(v.FailedAt), Canceled: stamp(v.CanceledAt), QueuedSeq: int64(s.Queued.Position.Sequence), Timeline: timeline,
	}
	if !v.Erased {
		f.Blob = len(s.Queued.Body.Sealed.Blob)
	}
	names := []string{"none", "open", "accepted", "refused", "deferred", "unknown", "proved", "disproved"}
	for i, a := range s.Record.Summarize().Attempts {
		if a.State != message.AttemptNone || a.Absent {
			f.AttemptStates += fmt.Sprintf("%d:%s:%t:%t ", i+1, names[a.State], a.Called, a.Absent)
		}
	}
	return f
}

func stored(t *rapid.T, tb testing.TB, pool *pgxpool.Pool) map[string]folded {
	rows, err := pool.Query(tb.Context(), `SELECT id, stage, status, coalesce(gateway_id, ''), coalesce(error_code, ''), attempts,
		presumed, corrected, erased, refunded, dispatched_at, sent_at, delivered_at, read_at, failed_at, canceled_at, queued_seq,
		coalesce(length(sealed_blob), 0),
		coalesce((SELECT string_agg(format('%s:%s:%s:%s ', attempt, state, called::text, absent::text), '' ORDER BY attempt) FROM attempts a WHERE a.message_id = m.id), ''),
		(SELECT string_agg(format('%s:%s:%s ', seq, event, attempt), '' ORDER BY seq) FROM timeline l WHERE l.message_id = m.id)
		FROM messages m`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]folded{}
	for rows.Next() {
		var f folded
		var id string
		var at [6]*time.Time
		if err := rows.Scan(&id, &f.Stage, &f.Status, &f.GatewayID, &f.ErrorCode, &f.Attempts, &f.Presumed, &f.Corrected, &f.Erased, &f.Refunded,
			&at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &f.QueuedSeq, &f.Blob, &f.AttemptStates, &f.Timeline); err != nil {
			t.Fatal(err)
		}
		for i, to := range []*string{&f.Dispatched, &f.Sent, &f.Delivered, &f.Read, &f.Failed, &f.Canceled} {
			if at[i] != nil {
				*to = stamp(*at[i])
			}
		}
		out[id] = f
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// counted gives what is counted of each tenant's windows.
func counted(t *rapid.T, tb testing.TB, pool *pgxpool.Pool) map[string]quota.Record {
	rows, err := pool.Query(tb.Context(), `SELECT tenant_id || ' ' || quota_window, accepted, refunded FROM quota_usage`)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]quota.Record{}
	var name string
	var r quota.Record
	if _, err := pgx.ForEachRow(rows, []any{&name, &r.Accepted, &r.Refunded}, func() error { out[name] = r; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever the batches, repeats, restarts and size of the cache: the rows are the fold of the log, and the same as of
// one batch into empty tables.
func TestRowsAreTheFoldOfTheLog(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	live, rebuilt := open(t, url, "live", postgres.Settings{}), open(t, url, "rebuilt", postgres.Settings{})
	rapid.Check(t, func(rt *rapid.T) {
		truncate(t, live)
		truncate(t, rebuilt)
		log := logtest.New(3)
		logtest.Draw(rt, t, log, rapid.IntRange(1, 60).Draw(rt, "events"))
		all := log.All()

		fresh := func() *projector.Projector {
			return projector.New(live, projector.Config{Gapless: true, Cache: rapid.IntRange(1, 4).Draw(rt, "cache")})
		}
		p := fresh()
		for at := 0; at < len(all); {
			from := max(0, at-rapid.IntRange(0, 5).Draw(rt, "repeat"))
			to := min(len(all), at+rapid.IntRange(1, 15).Draw(rt, "batch"))
			if err := p.Apply(t.Context(), 3, all[from:to], uint64(to)); err != nil {
				rt.Fatal(err)
			}
			if at = to; rapid.IntRange(0, 4).Draw(rt, "restart") == 0 {
				p = fresh()
			}
		}

		states, timelines := map[string]message.State{}, map[string]string{}
		for _, rec := range all {
			seen := map[string]bool{}
			for _, m := range message.Subjects(rec) {
				if !seen[m.ID] {
					seen[m.ID] = true
					states[m.ID] = message.State{ID: m.ID, Queued: states[m.ID].Queued, Record: states[m.ID].Record}.Apply(rec)
					timelines[m.ID] += fmt.Sprintf("%d:%s:%d ", rec.Position.Sequence, rec.Type[:len(rec.Type)-len(".v1")], rec.Attempt)
				}
			}
		}
		want := map[string]folded{}
		for id, s := range states {
			if s.Queued != nil {
				want[id] = expect(s, timelines[id])
			}
		}
		if diff := cmp.Diff(want, stored(rt, t, live)); diff != "" {
			rt.Fatalf("rows are not the fold (-fold +rows):\n%s", diff)
		}
		windows := map[string]quota.Record{}
		for _, s := range states {
			if s.Queued == nil {
				continue
			}
			for _, name := range s.Queued.Body.QuotaWindows {
				w := windows[s.Queued.Tenant+" "+name]
				w.Accepted++
				if s.View().Refunded {
					w.Refunded++
				}
				windows[s.Queued.Tenant+" "+name] = w
			}
		}
		if diff := cmp.Diff(windows, counted(rt, t, live)); diff != "" {
			rt.Fatalf("windows are not the fold (-fold +rows):\n%s", diff)
		}

		if err := projector.New(rebuilt, projector.Config{Gapless: true}).Apply(t.Context(), 3, all, uint64(len(all))); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(dump(t, rebuilt), dump(t, live)); diff != "" {
			rt.Fatalf("a rebuild differs (-rebuilt +live):\n%s", diff)
		}
	})
}

// A row must be read back as the fact that was folded when it was written.
func TestEveryFactIsKnownByItsName(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	pool := open(t, url, "pilot", postgres.Settings{})
	log := logtest.New(0)
	id := log.ID(1)
	log.Queued(t, id, "acme", "inst-a")
	facts := 0
	for _, spec := range events.Standard.Specs() {
		rec := events.Recorded{Event: events.Event{Envelope: events.Envelope{Type: spec.WireType()}, Body: spec.New()}, Known: true}
		if _, ok := message.FactOf(rec); ok {
			if b, ok := rec.Body.(*events.DispatchClosed); ok {
				b.Messages = []events.ClosedMessage{{ID: id, QueuedSeq: 1}}
			}
			log.Append(t, "inst-a", logtest.About(spec.WireType(), id, 1, rec.Body))
			facts++
		}
	}
	// Each batch loads all facts before it from the table.
	for i := range log.All() {
		p := projector.New(pool, projector.Config{})
		if err := p.Apply(t.Context(), 0, log.All()[i:i+1], uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	var s message.State
	for _, rec := range log.All() {
		s = s.Apply(rec)
	}
	var stage string
	var rows int
	if err := pool.QueryRow(t.Context(), `SELECT stage, (SELECT count(*) FROM timeline WHERE folded) FROM messages`).Scan(&stage, &rows); err != nil {
		t.Fatal(err)
	}
	if stage != string(s.View().Stage) || rows != facts || facts < 15 {
		t.Errorf("stage %s of %d folded rows, want %s of %d", stage, rows, s.View().Stage, facts)
	}
}
