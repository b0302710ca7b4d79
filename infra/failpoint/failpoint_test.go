package failpoint

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("FAILPOINT_TEST_HIT"); name != "" { // a process of TestActions
		for range 3 {
			Hit(name)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, fault := range map[string]string{
		"dispatcher.before_intent:kill":                      "",
		"dispatcher.before_intent:stop:7":                    "",
		"projector.mid_batch:error:2":                        "",
		"api.before_answer:sleep:200ms:2":                    "",
		"api.before_answer:kill, correlator.before_ack:stop": "",
		"nowhere:kill":                                       "no place",
		"api.before_answer":                                  "unknown action",
		"api.before_answer:explode":                          "unknown action",
		"api.before_answer:error":                            "cannot fail",
		"api.before_answer:kill:0":                           "from 1",
		"api.before_answer:kill:x":                           "from 1",
		"api.before_answer:sleep":                            "duration",
		"api.before_answer:kill,api.before_answer:stop":      "twice",
	} {
		_, err := parse(text)
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("parse(%q) = %v, want %q", text, err, fault)
		}
	}
}

func TestOnlyTheNamedPassIsHit(t *testing.T) {
	t.Parallel()
	a, err := parse("projector.mid_batch:error:2")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []bool{false, true, false} {
		if got := a.hit("projector.mid_batch"); errors.Is(got, ErrArmed) != want {
			t.Errorf("pass %d gave %v, want an error: %v", n+1, got, want)
		}
	}
	if err := a.hit("dispatcher.before_ack"); err != nil {
		t.Errorf("another place gave %v", err)
	}
}

func TestEveryPassWithoutNumber(t *testing.T) {
	t.Parallel()
	a, err := parse("projector.mid_batch:error")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.hit("projector.mid_batch"); !errors.Is(err, ErrArmed) {
			t.Errorf("gave %v", err)
		}
	}
}

func TestNothingArmedDoesNothing(t *testing.T) {
	t.Parallel()
	Hit("dispatcher.before_intent")
	if err := Fail("projector.mid_batch"); err != nil {
		t.Error(err)
	}
	if ctx := Wrote(t.Context(), "dispatcher.during_post"); ctx != t.Context() {
		t.Error("the context was wrapped")
	}
}

// The real thing: a process that arms itself from its environment.
func TestActions(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(spec string) (*exec.Cmd, *strings.Builder) {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), Variable+"="+spec, "FAILPOINT_TEST_HIT=api.before_answer")
		out := &strings.Builder{}
		cmd.Stderr = out
		return cmd, out
	}
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		cmd, out := run("api.before_answer:kill:2")
		_ = cmd.Run()
		if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGKILL {
			t.Errorf("ended with %v\n%s", cmd.ProcessState, out)
		}
		if !strings.Contains(out.String(), "failpoint api.before_answer: kill at pass 2") {
			t.Errorf("said %q", out)
		}
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		cmd, out := run("api.before_answer:stop:2")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var s syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &s, syscall.WUNTRACED, nil); err != nil || !s.Stopped() {
			t.Errorf("waited: %v, %v", s, err)
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("after going on: %v\n%s", err, out)
		}
	})
	t.Run("wrong", func(t *testing.T) {
		t.Parallel()
		cmd, out := run("nowhere:kill")
		if err := cmd.Run(); err == nil || !strings.Contains(out.String(), "PILOT_FAILPOINT: there is no place") {
			t.Errorf("a wrong value: %v, %s", err, out)
		}
	})
	t.Run("sleep", func(t *testing.T) {
		t.Parallel()
		cmd, out := run("api.before_answer:sleep:1ms")
		if err := cmd.Run(); err != nil || strings.Count(out.String(), "sleep at pass") != 3 {
			t.Errorf("%v, %s", err, out)
		}
	})
}

func TestWroteHitsAfterTheRequest(t *testing.T) { // not parallel: it arms this process
	a, err := parse("dispatcher.during_post:sleep:1ms")
	if err != nil {
		t.Fatal(err)
	}
	armed.Store(&a)
	defer armed.Store(nil)
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	req, err := http.NewRequestWithContext(Wrote(context.Background(), "dispatcher.during_post"), http.MethodPost, srv.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if n := a["dispatcher.during_post"].passes.Load(); n != 1 {
		t.Errorf("%d passes", n)
	}
}

func BenchmarkHit(b *testing.B) {
	for b.Loop() {
		Hit("dispatcher.before_intent")
	}
}
