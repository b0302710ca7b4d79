package rebuild_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/rebuild"
	"pilotstatus.dev/projections/rebuild/streamtest"
)

// BenchmarkRebuild reads a log of four partitions into an empty schema, compares and switches. PILOT_BENCH_EVENTS sets its size.
func BenchmarkRebuild(b *testing.B) {
	n := 100_000
	if text := os.Getenv("PILOT_BENCH_EVENTS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	w, url := streamtest.Start(b, 4), pgtest.Database(b)
	for _, p := range w.Partitions {
		wr := w.Writer(p)
		wr.Story(b, n*10/(4*42))
		wr.Flush(b)
	}
	b.ResetTimer()
	for b.Loop() {
		cfg := config(w, url)
		cfg.Tick = time.Second
		res, err := rebuild.Run(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(res.Rate, "events/s")
		b.ReportMetric(res.Held.Seconds()*1000, "held-ms")
		b.ReportMetric(float64(res.Events), "events")
	}
}
