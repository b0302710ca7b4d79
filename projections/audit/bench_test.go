package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/projections/audit"
	"pilotstatus.dev/projections/rebuild/streamtest"
	"pilotstatus.dev/projections/schema"
)

// childEnv makes this test binary a process that only verifies: "<NATS URL> <Postgres URL>".
const childEnv = "PILOT_AUDIT_CHILD"

const partitions = 4

// BenchmarkVerify audits a log of four partitions with its views, in a process of its own: rss-MB is the most that the audit
// ever held, the servers not included. PILOT_BENCH_EVENTS sets the size of the log.
func BenchmarkVerify(b *testing.B) {
	n := 100_000
	if text := os.Getenv("PILOT_BENCH_EVENTS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	w := streamtest.Start(b, partitions)
	for _, p := range w.Partitions {
		wr := w.Writer(p)
		wr.Story(b, n*10/(partitions*42))
		wr.Flush(b)
	}
	url, _ := projectURL(b, w)
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), self)
		cmd.Env = append(os.Environ(), childEnv+"="+w.URL()+" "+url)
		cmd.Stderr = os.Stderr
		began := time.Now()
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		elapsed := time.Since(began)
		var report measured
		if err := json.Unmarshal(out, &report); err != nil || report.Findings > 0 {
			b.Fatalf("%s: %v", out, err)
		}
		b.ReportMetric(float64(report.Events)/elapsed.Seconds(), "events/s")
		b.ReportMetric(float64(report.Events), "events")
		b.ReportMetric(report.RSS, "rss-MB")
	}
}

// child verifies and prints the report.
func child() int {
	var natsURL, pgURL string
	_, err := fmt.Sscan(os.Getenv(childEnv), &natsURL, &pgURL)
	if err == nil {
		err = verifyAt(context.Background(), natsURL, pgURL)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func verifyAt(ctx context.Context, natsURL, pgURL string) error {
	nc, err := natsserver.Connect(ctx, natsURL, natsserver.Client{})
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	pool, err := schema.Open(ctx, pgURL, schema.Default, postgres.Settings{StatementTimeout: -1, IdleInTx: -1, MaxConns: 8})
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg := audit.Config{Log: eventlog.New(js, eventlog.Options{}), Pool: pool}
	for i := range partitions {
		cfg.Partitions = append(cfg.Partitions, events.Partition(i))
	}
	report, err := audit.Verify(ctx, cfg)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(measured{report, peak()})
}

// measured is a report, and the most that its process held, in MB.
type measured struct {
	audit.Report
	RSS float64 `json:"rss"`
}

// peak asks the process itself: what a parent is told of a child includes the parent's own size when it forked.
func peak() float64 {
	raw, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(raw), "VmHWM:")
	kb, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
	return float64(kb) / 1024
}
