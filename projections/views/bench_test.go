package views_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/views"
)

// BenchmarkList reads pages of 50 of one customer's messages; PILOT_BENCH_ROWS sets how many there are. pages is what Postgres
// touched for one.
func BenchmarkList(b *testing.B) {
	n := 20_000
	if text := os.Getenv("PILOT_BENCH_ROWS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	pool := open(b, pgtest.Database(b))
	log := logtest.New(3)
	log.Queued(b, log.ID(1), "acme", "inst-a")
	project(b, pool, log)
	fill(b, pool, n)
	v := views.New(pool)
	middle := views.Place{CreatedAt: logtest.Start.AddDate(0, 0, -49), ID: "msg_7"}
	for name, f := range filters() {
		for at, after := range map[string]views.Place{"first": {}, "middle": middle} {
			b.Run(name+"/"+at, func(b *testing.B) {
				for b.Loop() {
					if _, err := v.List(b.Context(), scope("acme"), f, after, 51); err != nil {
						b.Fatal(err)
					}
				}
				sql, args := views.Query(f, scope("acme"), after, 51)
				pages, _ := explain(b, pool, sql, args)
				b.ReportMetric(float64(pages), "pages")
			})
		}
	}
}

// BenchmarkCounts reads the figures of 30 days and the 30 before; PILOT_BENCH_ROWS sets how many messages there are in 90 days.
func BenchmarkCounts(b *testing.B) {
	n := 20_000
	if text := os.Getenv("PILOT_BENCH_ROWS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	pool := open(b, pgtest.Database(b))
	log := logtest.New(3)
	log.Queued(b, log.ID(1), "acme", "inst-a")
	project(b, pool, log)
	fill(b, pool, n)
	bounds := []time.Time{logtest.Start.AddDate(0, 0, -60)}
	for i := range 31 {
		bounds = append(bounds, logtest.Start.AddDate(0, 0, i-30))
	}
	v := views.New(pool)
	for b.Loop() {
		if _, err := v.Counts(b.Context(), scope("acme"), bounds); err != nil {
			b.Fatal(err)
		}
	}
}
