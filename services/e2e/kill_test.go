package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres/pgtest"
)

// process is a real pilot, built from this tree.
type process struct {
	cmd  *exec.Cmd
	done chan error
}

func buildPilot(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "pilot")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "pilotstatus.dev/services/cmd/pilot").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// run starts a command and gives the first line of its standard output that contains want.
func run(t *testing.T, want string, env []string, bin string, args ...string) (*process, string) {
	t.Helper()
	p := &process{cmd: exec.CommandContext(context.Background(), bin, args...), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	lines := make(chan string, 100)
	go func() {
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			select {
			case lines <- scan.Text():
			default:
			}
		}
		close(lines)
		p.done <- p.cmd.Wait()
	}()
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("%s ended before it said %q", bin, want)
			}
			if strings.Contains(line, want) {
				return p, line
			}
		case <-deadline:
			t.Fatalf("%s did not say %q", bin, want)
		}
	}
}

// kill ends the process at once; it can be called twice.
func (p *process) kill() {
	if p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	err := <-p.done // for the next who waits
	p.done <- err
}

// Promise P1, P2 across a SIGKILL of the whole process while messages are on their way: every 202 leaves, none twice.
func TestKilledProcessLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	bin := buildPilot(t)
	sim, line := run(t, "simulated gateway at", nil, bin, "evolutionsim", "--addr", "127.0.0.1:0", "--send-time", "20ms",
		"--instances", "pilot-shared=5511900000001", "--instances", "acme=5511900000002")
	_ = sim
	simURL := strings.Fields(strings.TrimPrefix(line, "simulated gateway at "))[0]
	dir := t.TempDir()
	env := []string{"PILOT_LOG_LEVEL=error", "PILOT_POSTGRES_URL=" + pgtest.Database(t)}
	api, hook, ingest := fixedAddr(t), fixedAddr(t), fixedAddr(t)
	args := []string{
		"up", "--demo", "--data-dir", dir, "--nats-port", "0", "--http-addr", api, "--ingest-addr", ingest, "--hook-addr", hook,
		"--gateway-url", simURL, "--gateway-key", "sim-key", "--partitions", "2", "--successor-wait", "5s", "--send-limit", "4s",
		"--intent-budget", "3s", "--look-ups", "200ms,500ms", "--quiet", "100ms", "--presumed-after", "1s",
	}
	pilot, _ := run(t, "Send a message", env, bin, args...)
	key := readFile(t, filepath.Join(dir, "demo-own.key"))
	const n = 40
	accepted := map[string]bool{}
	until := time.Now().Add(50 * time.Second).UTC().Format(time.RFC3339)
	for i := range n {
		status, raw, err := call(t.Context(), http.MethodPost, "http://"+api+"/v1/messages/send", key, map[string]any{
			"text": fmt.Sprintf("kill %d.", i), "destinationNumber": "+5511988887777", "deliverUntil": until,
		})
		if err != nil || status != http.StatusAccepted {
			t.Fatalf("send: %d %s %v", status, raw, err)
		}
		var out struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		accepted[out.ID] = true
	}
	eventually(t, "some have left", func() bool { return len(killLedger(t, simURL)) >= 5 }, nil)
	pilot.kill()
	run(t, "Send a message", env, bin, args...)
	// The call that was under way at the kill may have left or not. If not, nobody may send it again: its end is presumed.
	presumed := 0
	for id := range accepted {
		eventually(t, "an end or a receipt of "+id, func() bool {
			status, raw, err := call(t.Context(), http.MethodGet, "http://"+api+"/v1/messages/"+id, key, nil)
			if err != nil || status != http.StatusOK {
				return false
			}
			if strings.Contains(string(raw), string(events.FailDeliveryTimeout)) {
				presumed++
				return true
			}
			return strings.Contains(string(raw), `"stage":"READ"`)
		}, nil)
	}
	if presumed > 1 {
		t.Errorf("%d ends are presumed, one call was under way", presumed)
	}
	seen := map[string]int{}
	for _, text := range killLedger(t, simURL) {
		seen[text]++
	}
	for text, times := range seen {
		if times != 1 {
			t.Errorf("%q left %d times", text, times)
		}
	}
	if len(seen) != n-presumed {
		t.Errorf("%d of %d left, %d presumed", len(seen), n, presumed)
	}
}

func killLedger(t *testing.T, sim string) []string {
	t.Helper()
	_, raw, err := call(t.Context(), http.MethodGet, sim+"/sim/ledger?text=kill", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		Entries []struct {
			Text string `json:"text"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, e := range l.Entries {
		texts = append(texts, e.Text)
	}
	return texts
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
