//go:build linux

package powercut

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/infra/await"
)

// fakePilot is a program that starts a child on the volume and says what pilot says.
func fakePilot(t *testing.T, script string) *pilot {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "pilot")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := newPilot(t.Context(), bin, t.TempDir(), filepath.Join(t.TempDir(), "log"), "group", "http://gateway", "key")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestKillEndsWhateverRunsOnTheVolume(t *testing.T) {
	t.Parallel()
	p := fakePilot(t, `(cd "$MOUNT" && exec sleep 600 >/dev/null) & echo "Send a message:"; exec sleep 600`)
	p.bin = wrapped(t, p.bin, p.mount)
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !await.Until(t.Context(), 10*time.Second, pollEvery, func() bool { return len(usersOf(p.mount)) == 1 }) {
		t.Fatalf("users of the volume: %v", usersOf(p.mount))
	}
	p.kill()
	if err := p.gone(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := usersOf(p.mount); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if err := p.stop(t.Context()); err != nil {
		t.Errorf("stop of what is gone: %v", err)
	}
}

// wrapped tells the script where the volume is.
func wrapped(t *testing.T, bin, mount string) string {
	t.Helper()
	outer := filepath.Join(t.TempDir(), "outer")
	if err := os.WriteFile(outer, fmt.Appendf(nil, "#!/bin/sh\nMOUNT=%s exec %s \"$@\"\n", mount, bin), 0o700); err != nil {
		t.Fatal(err)
	}
	return outer
}

func TestStartSeesAnEndAndStopIsOrderly(t *testing.T) {
	t.Parallel()
	p := fakePilot(t, `echo "no port" >&2; exit 3`)
	if err := p.start(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("start = %v", err)
	}
	if raw, err := os.ReadFile(p.log); err != nil || string(raw) != "no port\n" {
		t.Errorf("log = %q, %v", raw, err)
	}
	p = fakePilot(t, `sleep 600 & trap "kill $!; exit 0" TERM; echo "Send a message:"; wait`)
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(t.Context()); err != nil {
		t.Errorf("stop = %v", err)
	}
}

// A child that outlives the process and holds its output cannot hold up who waits for the end.
func TestAChildThatHoldsTheOutputDelaysNoEnd(t *testing.T) {
	t.Parallel()
	p := fakePilot(t, `(cd "$MOUNT" && exec sleep 600) & trap 'exit 0' TERM; echo "Send a message:"; wait`)
	p.bin = wrapped(t, p.bin, p.mount)
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !await.Until(t.Context(), 10*time.Second, pollEvery, func() bool { return len(usersOf(p.mount)) == 1 }) {
		t.Fatalf("users of the volume: %v", usersOf(p.mount))
	}
	if err := p.stop(t.Context()); !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("stop = %v, want exec.ErrWaitDelay", err)
	}
	p.kill()
	if err := p.gone(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSayerFindsAWordInPieces(t *testing.T) {
	t.Parallel()
	s := &sayer{word: ready, said: make(chan struct{})}
	for _, piece := range []string{"Send a", " note. Send a mes", "sage:", " and again: " + ready} {
		if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("write = %d, %v", n, err)
		}
	}
	select {
	case <-s.said:
	default:
		t.Error("not said")
	}
}

func TestPublishKeepsEvery202(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	power := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch i := n.Add(1); {
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{"stage":"SENT"}`))
		case i == 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case i > 40:
			if i == 41 {
				close(power)
			}
			panic(http.ErrAbortHandler) // the power is off
		default:
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write(fmt.Appendf(nil, `{"id":"m%d"}`, i))
		}
	}))
	defer srv.Close()
	data := t.TempDir()
	for _, name := range []string{"demo-own.key", "demo-live.key"} {
		if _, err := newCustomer("", data, 1); err == nil {
			t.Error("a customer without keys")
		}
		if err := os.WriteFile(filepath.Join(data, name), []byte("key\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := newCustomer(strings.TrimPrefix(srv.URL, "http://"), data, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.http.CloseIdleConnections()
	a := c.publish(t.Context(), 4, power)
	if len(a.acked) != 39 || a.refused != 1 || !strings.Contains(a.first, "503") {
		t.Errorf("acked %d, refused %d (%s)", len(a.acked), a.refused, a.first)
	}
	if stage, err := c.stage(t.Context(), "m1"); stage != "SENT" || err != nil {
		t.Errorf("stage = %s, %v", stage, err)
	}
}

func TestRunOfATool(t *testing.T) {
	t.Parallel()
	if out, err := run(t.Context(), "echo", "yes"); out != "yes\n" || err != nil {
		t.Errorf("run = %q, %v", out, err)
	}
	_, err := run(t.Context(), "sh", "-c", "echo why; exit 4")
	if err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("run = %v, want the tool's own words", err)
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if await.Until(ctx, time.Minute, pollEvery, func() bool { return false }) {
		t.Error("poll of nothing")
	}
}
