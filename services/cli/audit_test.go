package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"pilotstatus.dev/projections/audit"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
)

var messageID = regexp.MustCompile(`msg_[0-9a-f]{32}`)

// lastLine reads the JSON that a command ends with.
func lastLine[T any](t *testing.T, out string) (v T) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return v
}

// A running Pilot is rebuilt under its feet and goes on; the audit has no finding, then one for an edited row. With everything
// stopped a message is told from the files of the log.
func TestRebuildAndAuditOfARunningPilot(t *testing.T) {
	dir, err := scratch("pilot-audit-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg, err := app.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(dir)
	a, err := app.Start(t.Context(), cfg, app.Roles(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	defer stop()
	sim, err := demo.StartSim(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	stage, err := demo.SetUp(t.Context(), a.Control(), demo.Outside{GatewayURL: sim.URL(), GatewayKey: sim.APIKey(), HookAddr: "127.0.0.1:0"}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stage.Close(t.Context()) }()
	play := func(out io.Writer) error {
		player := demo.Player{API: a.URLs().API, Ledger: stage.Gateway + "/sim/ledger", Stage: stage, Out: out, Within: 3 * time.Minute}
		_, err := player.Play(t.Context())
		return err
	}
	var told bytes.Buffer
	if err := play(&told); err != nil {
		t.Fatal(err)
	}
	id := messageID.FindString(told.String())
	server, err := url.Parse(a.URLs().NATS)
	if err != nil {
		t.Fatal(err)
	}
	where := []string{"--data-dir", dir, "--nats-port", server.Port()}

	// The managed Postgres is found by its files.
	out, err := run(t, append([]string{"projections", "rebuild"}, where...)...)
	if err != nil {
		t.Fatal(err)
	}
	if res := lastLine[struct {
		Events   int
		Verified bool
	}](t, out); res.Events == 0 || !res.Verified {
		t.Errorf("rebuild: %s", out)
	}
	told.Reset()
	if err := play(&told); err != nil {
		t.Errorf("after the switch: %v\n%s", err, told.String())
	}
	out, err = run(t, append([]string{"audit", "verify"}, where...)...)
	if report := lastLine[audit.Report](t, out); err != nil || report.Findings > 0 || report.Messages < 6 || report.Partitions != 4 {
		t.Errorf("audit: %v\n%s", err, out)
	}

	conn, err := pgx.Connect(t.Context(), a.URLs().Postgres)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `UPDATE pilot.messages SET origin = 'x' WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err = run(t, append([]string{"audit", "verify", "--postgres-url", a.URLs().Postgres}, where...)...)
	if report := lastLine[audit.Report](t, out); !errors.Is(err, errFindings) || report.Findings != 1 || !strings.Contains(out, id) {
		t.Errorf("audit of an edited row: %v\n%s", err, out)
	}

	if err := stage.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	out, err = run(t, "audit", "message", id, "--data-dir", dir, "--json")
	if story := asStory(t, out); err != nil || story.Stage != "READ" || len(story.Events) < 5 {
		t.Errorf("audit message: %v\n%s", err, out)
	}
	out, err = run(t, "audit", "message", id, "--data-dir", dir)
	if err != nil || !strings.Contains(out, "dispatch.accepted") || !strings.Contains(out, "DELIVERED") {
		t.Errorf("audit message: %v\n%s", err, out)
	}
}

func asStory(t *testing.T, out string) (s audit.Story) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	return s
}
