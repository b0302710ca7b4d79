package audit_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/projections/audit"
	"pilotstatus.dev/projections/rebuild/streamtest"
)

// BenchmarkVerify audits a log of four partitions with its views. rss-MB is the largest seen while it ran, the embedded
// server included; rss-before-MB what the process held when it began. PILOT_BENCH_EVENTS sets the size.
func BenchmarkVerify(b *testing.B) {
	n := 100_000
	if text := os.Getenv("PILOT_BENCH_EVENTS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	w := streamtest.Start(b, 4)
	for _, p := range w.Partitions {
		wr := w.Writer(p)
		wr.Story(b, n*10/(4*42))
		wr.Flush(b)
	}
	pool := project(b, w)
	runtime.GC()
	before := rss(b)
	b.ResetTimer()
	for b.Loop() {
		began, most := time.Now(), before
		report, err := audit.Verify(b.Context(), audit.Config{
			Log: w.Log, Pool: pool, Partitions: w.Partitions, OnProgress: func(uint64, uint64) { most = max(most, rss(b)) },
		})
		if err != nil || report.Findings > 0 {
			b.Fatalf("%+v, %v", report, err)
		}
		b.ReportMetric(float64(report.Events)/time.Since(began).Seconds(), "events/s")
		b.ReportMetric(float64(report.Events), "events")
		b.ReportMetric(before, "rss-before-MB")
		b.ReportMetric(most, "rss-MB")
	}
}

// rss is the resident size of the process in MB, 0 where /proc is not there.
func rss(b *testing.B) float64 {
	b.Helper()
	raw, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(raw), "VmRSS:")
	kb, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
	return float64(kb) / 1024
}
