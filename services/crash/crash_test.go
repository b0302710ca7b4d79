package crash_test

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

	"pilotstatus.dev/services/cli"
	"pilotstatus.dev/services/crash"
)

// asPilot makes this test binary a pilot: the processes of a run are started from it.
const asPilot = "CRASH_TEST_AS_PILOT"

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

// One point of `make crash`: a message whose 202 was lost with the process that had accepted it goes its way all the same (P1).
func TestKilledAndStoppedAPI(t *testing.T) { // not parallel: it sets the environment
	if testing.Short() {
		t.Skip("real processes take seconds")
	}
	t.Setenv(asPilot, "1")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for at := dir; at != os.TempDir() && len(at) > 1; at = at[:strings.LastIndexByte(at, '/')] {
		if err := os.Chmod(at, 0o711); err != nil { // the user of Postgres comes through
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var out bytes.Buffer
	err = crash.Run(ctx, crash.Settings{
		Binary: binary, Dir: dir, Seeds: 1, First: 3, Points: []string{"api.before_answer"}, Messages: 12,
	}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var r crash.Result
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || !r.Good() || r.Runs != 2 {
		t.Errorf("the last line says %+v, %v\n%s", r, err, &out)
	}
	if !strings.Contains(out.String(), "api.before_answer") {
		t.Errorf("it does not say what it did:\n%s", &out)
	}
}

func TestUnknownPointIsRefused(t *testing.T) {
	t.Parallel()
	err := crash.Run(t.Context(), crash.Settings{Dir: t.TempDir(), Seeds: 1, Points: []string{"nowhere"}}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "api.before_answer") {
		t.Errorf("it says %v", err)
	}
}
