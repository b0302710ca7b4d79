package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = Run(t.Context(), args, "v1.2.3", &out, &errs)
	return out.String(), err
}

func TestVersion(t *testing.T) {
	if out, err := run(t, "version"); err != nil || out != "v1.2.3\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// Every flag of a role can be given by the environment, and says how.
func TestHelpNamesTheEnvironment(t *testing.T) {
	out, err := run(t, "up", "--help")
	if err != nil {
		t.Fatal(err)
	}
	flags, named := 0, 0
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "--") && !strings.Contains(line, "--help") && !strings.HasPrefix(line, "Usage") {
			flags++
		}
		named += strings.Count(line, "($PILOT_")
	}
	if named < 35 || !strings.Contains(out, "PILOT_MASTER_KEY_FILE") {
		t.Errorf("%d lines with flags, %d environment variables:\n%s", flags, named, out)
	}
}

func TestUnknownCommandIsAnError(t *testing.T) {
	if _, err := run(t, "nonsense"); err == nil {
		t.Error("no error")
	}
}

func TestGatewayJudge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	row := `{"case":"x","gateway":"2.3.6","method":"POST","path":"/message/sendText/acme","request":"{}","status":400,"answer":"{\"status\":400,\"error\":\"Bad Request\",\"response\":{\"message\":[\"Error: Connection Closed\"]}}"}`
	if err := os.WriteFile(file, []byte(row+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "gateway", "judge", file)
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Case, Call, Verdict, Scope, Code string }
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Verdict != "unknown" || v.Call != "sendText" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := run(t, "gateway", "judge", file+".missing"); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestReceiptsJudge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	row := `{"gateway":"2.3.6","event":"messages.update","body":"{\"event\":\"messages.update\",\"instance\":\"acme\",\"data\":{\"keyId\":\"3EB0C1BD045B881CD1266D\",\"fromMe\":true,\"status\":\"READ\"}}"}`
	if err := os.WriteFile(file, []byte(row+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "receipts", "judge", file); err != nil || !strings.Contains(strings.ToLower(out), "read") {
		t.Errorf("%q, %v", out, err)
	}
}

// The demonstration is what a stranger runs first: it must end well, on a machine of its own.
func TestDemo(t *testing.T) {
	out, err := run(t, "demo", "--within", "3m")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var last struct{ Accepted, Read, Ledger, Duplicates, WebhooksVerified int }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Accepted != 3 || last.Read != 3 ||
		last.Ledger != 3 || last.Duplicates != 0 || last.WebhooksVerified != 9 {
		t.Errorf("%+v, %v", last, err)
	}
}

func TestBenchPrintsFigures(t *testing.T) {
	out, err := run(t, "bench", "--accept", "200ms", "--idle", "3", "--messages", "30", "--instances", "3", "--clients", "4", "--backlog", "400", "--otps", "50", "--tenants", "100")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var f struct {
			Name  string
			Value float64
			Unit  string
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Value <= 0 || f.Unit == "" {
			t.Errorf("line %q: %v", line, err)
		}
		names[f.Name] = true
	}
	for _, want := range []string{
		"accepted", "accept_p50", "accept_p99", "accept_to_gateway_idle_p50", "accept_to_gateway_idle_p99", "delivered",
		"otp_accept_to_gateway_idle_p99", "otp_accept_to_gateway_backlog_p50", "otp_accept_to_gateway_backlog_p99", "fairness_50_tenants",
	} {
		if !names[want] {
			t.Errorf("no figure %s", want)
		}
	}
}
