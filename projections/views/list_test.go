package views_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/views"
)

// accept appends an accepted message that change has changed.
func accept(t testing.TB, log *logtest.Log, n int, change func(*events.Event, *events.MessageQueued)) string {
	t.Helper()
	id := log.ID(n)
	e := logtest.Queued(log.Partition, id, "acme", "inst-a")
	body, _ := e.Body.(*events.MessageQueued)
	change(&e, body)
	log.Append(t, "inst-a", e)
	return id
}

func ids(ms []views.Message) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.ID
	}
	return out
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := logtest.New(3)
	plain := accept(t, log, 1, func(*events.Event, *events.MessageQueued) {})
	otp := accept(t, log, 2, func(_ *events.Event, b *events.MessageQueued) { b.Category, b.RecipientHash = events.OTP, "h2" })
	free := accept(t, log, 3, func(_ *events.Event, b *events.MessageQueued) { b.TemplateID, b.Labels = "", []string{"x"} })
	other := accept(t, log, 4, func(e *events.Event, _ *events.MessageQueued) {
		e.Address = events.QueuedSubject(3, events.Lane{Instance: "inst-b", Class: events.ClassOTP, Tenant: "acme"})
	})
	log.Append(t, "inst-a", logtest.About(events.TypeDispatchStarted, otp, 1, &events.DispatchStarted{}))
	log.Append(t, "inst-a", logtest.About(events.TypeReceiptRead, free, 0, &events.Receipt{At: logtest.Start, ReceivedAt: logtest.Start}))
	project(t, pool, log)
	v := views.New(pool)
	at := func(seq int) time.Time { return logtest.Start.Add(time.Duration(seq) * 10 * time.Millisecond) }
	all := []string{other, free, otp, plain}
	for name, c := range map[string]struct {
		f    views.Filter
		want []string
	}{
		"none":              {views.Filter{}, all},
		"status":            {views.Filter{Status: events.StatusRead}, []string{free}},
		"status queued":     {views.Filter{Status: events.StatusQueued}, []string{other, otp, plain}},
		"stage":             {views.Filter{Stage: events.StageSending}, []string{otp}},
		"stage of another":  {views.Filter{Stage: events.StageSending, Status: events.StatusRead}, nil},
		"category":          {views.Filter{Category: events.OTP}, []string{otp}},
		"instance":          {views.Filter{Instance: "inst-b"}, []string{other}},
		"template":          {views.Filter{Template: "tpl-1"}, []string{other, otp, plain}},
		"recipient":         {views.Filter{RecipientHash: "h2"}, []string{otp}},
		"label":             {views.Filter{Label: "x"}, []string{free}},
		"label with quotes": {views.Filter{Label: `b"c`}, []string{other, otp, plain}},
		"part of a label":   {views.Filter{Label: "b"}, nil},
		"from":              {views.Filter{From: at(3)}, []string{other, free}},
		"to":                {views.Filter{To: at(3)}, []string{otp, plain}},
		"all at once": {views.Filter{
			Status: events.StatusQueued, Stage: events.StageQueued, Category: events.Utility, Instance: "inst-a", Template: "tpl-1",
			RecipientHash: "h1", Label: "a", From: at(1), To: at(2),
		}, []string{plain}},
		"a text that Postgres does not take": {views.Filter{Label: "a\x00"}, nil},
	} {
		got, err := v.List(t.Context(), scope("acme"), c.f, views.Place{}, 10)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := gocmp.Diff(c.want, ids(got), gocmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if one, err := v.Message(t.Context(), scope("acme"), plain); err != nil {
		t.Error(err)
	} else if list, err := v.List(t.Context(), scope("acme"), views.Filter{To: at(2)}, views.Place{}, 10); err != nil || len(list) != 1 {
		t.Errorf("%d messages, %v", len(list), err)
	} else if diff := gocmp.Diff(one, list[0]); diff != "" {
		t.Errorf("a listed message is not the one that is read by its id:\n%s", diff)
	}
	// Promise P12.
	for name, s := range map[string]views.Scope{
		"other tenant":      {Tenant: "globex", Project: "project-acme", Environment: events.Live},
		"other project":     {Tenant: "acme", Project: "project-globex", Environment: events.Live},
		"other environment": {Tenant: "acme", Project: "project-acme", Environment: events.Test},
		"empty":             {},
	} {
		for _, f := range []views.Filter{{}, {RecipientHash: "h1"}, {Template: "tpl-1"}, {Label: "a"}, {Instance: "inst-a"}} {
			if got, err := v.List(t.Context(), s, f, views.Place{}, 10); err != nil || len(got) > 0 {
				t.Errorf("%s sees %v with %+v: %v", name, ids(got), f, err)
			}
		}
	}
}

// While messages are accepted, at times of clocks that disagree, pages of any size tell each message that was there when the
// walk began once, in order, and none twice.
func TestPagesNeitherRepeatNorMiss(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	v := views.New(pool)
	var checks events.Partition
	rapid.Check(t, func(rt *rapid.T) {
		if checks++; checks == 200 { // each in a partition and a tenant of its own, also while a failure is made smaller
			checks = 1
			if _, err := pool.Exec(t.Context(), `TRUNCATE messages, timeline, attempts, checkpoints, digests`); err != nil {
				rt.Fatal(err)
			}
		}
		tenant := fmt.Sprintf("tenant-%d", checks)
		log, p := logtest.New(checks), projector.New(pool, projector.Config{Gapless: true})
		n := 0
		more := func(count int) {
			for range count {
				n++
				at := logtest.Start.Add(time.Duration(rapid.IntRange(0, 6).Draw(rt, "second")) * time.Second)
				accept(t, log, n, func(e *events.Event, b *events.MessageQueued) {
					e.Time, e.TenantID, b.Project = at, tenant, "project-"+tenant
					b.Category = rapid.SampledFrom([]events.Category{events.OTP, events.Utility}).Draw(rt, "category")
				})
			}
			all := log.All()
			if err := p.Apply(t.Context(), checks, all, uint64(len(all))); err != nil {
				rt.Fatal(err)
			}
		}
		more(rapid.IntRange(0, 25).Draw(rt, "before"))
		f := rapid.SampledFrom([]views.Filter{{}, {Category: events.OTP}}).Draw(rt, "filter")
		whole, err := v.List(t.Context(), scope(tenant), f, views.Place{}, 1000)
		if err != nil {
			rt.Fatal(err)
		}
		var got []views.Message
		for after := (views.Place{}); ; after = got[len(got)-1].Place() {
			page, err := v.List(t.Context(), scope(tenant), f, after, rapid.IntRange(1, 7).Draw(rt, "limit"))
			if err != nil {
				rt.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			more(rapid.IntRange(0, 3).Draw(rt, "meanwhile"))
		}
		newest := func(a, b views.Message) int {
			return -cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
		}
		if !slices.IsSortedFunc(got, newest) {
			rt.Errorf("out of order: %v", ids(got))
		}
		seen := map[string]int{}
		for _, m := range got {
			seen[m.ID]++
			if seen[m.ID] > 1 {
				rt.Errorf("%s comes twice", m.ID)
			}
		}
		for _, m := range whole {
			if seen[m.ID] != 1 {
				rt.Errorf("%s is passed over", m.ID)
			}
		}
	})
}

// The same with a projector that really runs beside the reader.
func TestPagesWhileProjecting(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	v := views.New(pool)
	log := logtest.New(2)
	for n := range 200 {
		log.Queued(t, log.ID(n+1), "acme", "inst-a")
	}
	project(t, pool, log)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		p := projector.New(pool, projector.Config{Gapless: true})
		for n := 201; ctx.Err() == nil; n++ {
			log.Queued(t, log.ID(n), "acme", "inst-a")
			all := log.All()
			if err := p.Apply(context.Background(), 2, all, uint64(len(all))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	seen := map[string]bool{}
	for after := (views.Place{}); ; {
		page, err := v.List(t.Context(), scope("acme"), views.Filter{}, after, 9)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			if seen[m.ID] {
				t.Errorf("%s comes twice", m.ID)
			}
			seen[m.ID] = true
		}
		after = page[len(page)-1].Place()
	}
	stop()
	running.Wait()
	for n := range 200 {
		if !seen[log.ID(n+1)] {
			t.Errorf("message %d is passed over", n+1)
		}
	}
}

// fill adds n messages of acme beside the one that is there: spread over 90 days, one in 10,000 FAILED, OTP or with a label of
// its own, each hundredth with the label "usual", to n/10 recipients.
func fill(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	values := map[string]string{
		"id": "'msg_' || md5(g::text)", "queued_seq": "1000000 + g", "created_at": "m.created_at - g * interval '90 days' / $1::float8",
		"recipient_hash": "md5((g % ($1::int / 10))::text)", "correlation_id": "'cor_' || md5(g::text)", "gateway_id": "'3EB0' || md5(g::text)",
		"status":      "CASE WHEN g % 10000 = 5 THEN 'FAILED' WHEN g % 3 = 0 THEN 'READ' ELSE 'DELIVERED' END",
		"stage":       "CASE WHEN g % 10000 = 5 THEN 'FAILED' WHEN g % 3 = 0 THEN 'READ' ELSE 'DELIVERED' END",
		"category":    "CASE WHEN g % 10000 = 6 THEN 'OTP' ELSE 'UTILITY' END",
		"template_id": "CASE WHEN g % 10000 = 7 THEN 'tpl-rare' ELSE 'tpl-1' END",
		"instance_id": "CASE WHEN g % 10000 = 8 THEN 'inst-rare' ELSE 'inst-a' END",
		"labels":      `CASE WHEN g % 10000 = 9 THEN '["rare"]' WHEN g % 100 = 0 THEN '["usual"]' WHEN g % 3 = 1 THEN '["common"]' ELSE '[]' END::jsonb`,
	}
	rows, err := pool.Query(t.Context(), `SELECT column_name FROM information_schema.columns WHERE table_schema = 'pilot' AND table_name = 'messages'`)
	if err != nil {
		t.Fatal(err)
	}
	var names, from []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
		from = append(from, cmp.Or(values[name], "m."+name))
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	insert := fmt.Sprintf(`INSERT INTO messages (%s) SELECT %s FROM (SELECT * FROM messages LIMIT 1) m, generate_series(1, $1::int) g`,
		strings.Join(names, ", "), strings.Join(from, ", "))
	_, err = conn.Exec(t.Context(), `SET statement_timeout = 0`)
	if err == nil {
		_, err = conn.Exec(t.Context(), insert, n)
	}
	if err == nil {
		_, err = conn.Exec(t.Context(), `VACUUM (ANALYZE) messages`)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// filters are one of each kind, as rare as fill makes them.
func filters() map[string]views.Filter {
	return map[string]views.Filter{
		"none": {}, "status": {Status: events.StatusFailed}, "category": {Category: events.OTP}, "instance": {Instance: "inst-rare"},
		"template": {Template: "tpl-rare"}, "recipient": {RecipientHash: "d3d9446802a44259755d38e6d163e820"}, // md5 of 10
		"rare label": {Label: "rare"}, "usual label": {Label: "usual"}, "common label": {Label: "common"}, "no such label": {Label: "none"}, "common status": {Status: events.StatusRead},
		"stage": {Stage: events.StageSending}, "range": {From: logtest.Start.AddDate(0, 0, -50), To: logtest.Start.AddDate(0, 0, -49)},
	}
}

// Every list is found along an index, whatever its filter: Postgres touches few pages, the first page and one in the middle alike.
func TestListsWalkAlongAnIndex(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := logtest.New(3)
	log.Queued(t, log.ID(1), "acme", "inst-a")
	project(t, pool, log)
	fill(t, pool, 20_000)
	middle := views.Place{CreatedAt: logtest.Start.AddDate(0, 0, -49), ID: "msg_7"}
	for name, f := range filters() {
		for _, after := range []views.Place{{}, middle} {
			sql, args := views.Query(f, scope("acme"), after, 51)
			pages, plan := explain(t, pool, sql, args)
			if pages > 700 || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s after %q: %d pages\n%s", name, after.ID, pages, plan)
			}
		}
	}
}

// explain runs a statement and gives the pages it touched, with its plan.
func explain(t testing.TB, pool *pgxpool.Pool, sql string, args []any) (pages int, plan string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
		if pages == 0 && strings.Contains(line, "Buffers: shared") {
			for _, word := range strings.Fields(line) {
				var n int
				if _, err := fmt.Sscanf(word[strings.IndexByte(word, '=')+1:], "%d", &n); err == nil && strings.ContainsAny(word, "=") {
					pages += n
				}
			}
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return pages, strings.Join(lines, "\n")
}
