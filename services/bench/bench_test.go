package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pilotstatus.dev/services/bench"
	"pilotstatus.dev/services/cli"
)

// asPilot makes this test binary a pilot: what works on a large log runs in processes that are started from it.
const asPilot = "BENCH_TEST_AS_PILOT"

func TestMain(m *testing.M) {
	if os.Getenv(asPilot) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := cli.Run(ctx, os.Args[1:], "test", os.Stdout, os.Stderr)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// The figures of a large log, on a small one: real commands work on it, the audit finds nothing in what was made up, and the second
// start of the dispatcher goes on at snapshots.
func TestFiguresOfALog(t *testing.T) { // not parallel: it sets the environment
	if testing.Short() {
		t.Skip("real processes take seconds")
	}
	t.Setenv(asPilot, "1")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	if err := cli.Run(ctx, []string{"bench", "--figures", "start,rebuild,audit", "--events", "10000"}, "test", &out, &errs); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	figures := map[string]bench.Figure{}
	for line := range strings.Lines(out.String()) {
		var f bench.Figure
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Value < 0 || f.Unit == "" {
			t.Errorf("line %q: %v", line, err)
		}
		figures[f.Name] = f
	}
	for _, want := range []string{
		"start_pending", "start_cold", "start_cold_rss", "start_cold_peak_rss", "start_snapshot", "start_snapshot_rss", "start_snapshot_peak_rss",
		"log_made_tenth", "rebuild_tenth", "rebuild_peak_rss_tenth", "audit_tenth", "audit_peak_rss_tenth",
		"log_made", "rebuild", "rebuild_peak_rss", "audit", "audit_peak_rss",
		"rebuild_live", "rebuild_live_whole", "rebuild_live_held", "rebuild_live_peak_rss",
	} {
		// A rebuild of a log this short is over before it has read: it is near the end of the log from the start.
		if f, ok := figures[want]; !ok || f.Value == 0 && want != "rebuild_tenth" {
			t.Errorf("figure %s: %+v", want, f)
		}
	}
}

func TestFiguresOfTheCatalog(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := cli.Run(ctx, []string{"bench", "--figures", "catalog", "--tenants", "200"}, "test", &out, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{`"catalog_start"`, `"catalog_start_cpu"`, `"catalog_memory"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

// Two dispatchers in processes of their own: at rest they use next to nothing, after a kill the other one goes on in time, and an
// orderly stop makes nobody wait for a lease to run out.
func TestFiguresOfTwoDispatchers(t *testing.T) { // not parallel: it sets the environment
	if testing.Short() {
		t.Skip("real processes take seconds")
	}
	t.Setenv(asPilot, "1")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	args := []string{"bench", "--figures", "resting,failover", "--resting", "20", "--instances", "10", "--clients", "4"}
	if err := cli.Run(ctx, args, "test", &out, &errs); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	figures := map[string]float64{}
	for line := range strings.Lines(out.String()) {
		var f bench.Figure
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Value < 0 || f.Unit == "" {
			t.Errorf("line %q: %v", line, err)
		}
		figures[f.Name] = f.Value
	}
	for _, name := range []string{"resting_rss", "resting_cpu", "resting_goroutines", "failover_p50", "failover_max", "restart_p50", "restart_max"} {
		if v, ok := figures[name]; !ok { // how fast is for a quiet machine to say
			t.Errorf("figure %s: %v", name, v)
		}
	}
}

func TestMemoryOfThisProcess(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system does not say")
	}
	if resident, peak := bench.Memory("self"); resident <= 1 || peak < resident {
		t.Errorf("resident %v, peak %v", resident, peak)
	}
	if resident, peak := bench.Memory("none"); resident != 0 || peak != 0 {
		t.Errorf("of no process: %v, %v", resident, peak)
	}
}
