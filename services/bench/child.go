package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pilotstatus.dev/infra/loopback"
)

// commandLimit bounds one command, stopLimit the orderly end of a process.
const (
	commandLimit = 20 * time.Minute
	stopLimit    = 30 * time.Second
)

// Memory says what a process holds at present and the most it ever held, in MiB, as the system counts it: "self" or a process id.
// Zero where the system does not say.
func Memory(process string) (resident, peak float64) {
	raw, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0, 0
	}
	field := func(name string) float64 {
		_, after, _ := strings.Cut(string(raw), name)
		words := strings.Fields(after)
		if len(words) == 0 {
			return 0
		}
		kib, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return 0
		}
		return kib / 1024
	}
	return field("VmRSS:"), field("VmHWM:")
}

// command runs this program with other arguments, as an operator would, and reads the line of JSON that its output ends with. The
// command says itself what it held: what a parent is told of a child includes the parent's own size when it forked.
func command[T any](ctx context.Context, binary string, args ...string) (said T, elapsed time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := child(ctx, binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err = cmd.Run()
	elapsed = time.Since(began)
	if err != nil {
		return said, elapsed, fmt.Errorf("pilot %s: %w: %s", strings.Join(args[:2], " "), err, tail(out.String()+errs.String()))
	}
	text := strings.TrimSpace(out.String())
	if err := json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), &said); err != nil {
		return said, elapsed, fmt.Errorf("pilot %s: read its last line: %w", strings.Join(args[:2], " "), err)
	}
	return said, elapsed, nil
}

// child makes a process that is asked to stop when ctx ends, and killed when it does not.
func child(ctx context.Context, binary string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // our own program
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	return cmd
}

// tail gives the end of what a process said.
func tail(text string) string {
	const most = 1000
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-most):]
}

// running is a process of a role.
type running struct {
	cmd    *exec.Cmd
	addr   string // of its probes
	began  time.Time
	errs   bytes.Buffer
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	ended  error
}

// run starts a role in a process of its own.
func run(ctx context.Context, binary string, args ...string) (*running, error) {
	at, err := loopback.Addresses(ctx, 1)
	if err != nil {
		return nil, fmt.Errorf("choose an address: %w", err)
	}
	r := &running{addr: at[0].String(), done: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(ctx)
	r.cmd = child(ctx, binary, append(args, "--metrics-addr", r.addr)...)
	r.cmd.Stdout, r.cmd.Stderr = io.Discard, &r.errs
	r.began = time.Now()
	if err := r.cmd.Start(); err != nil {
		r.cancel()
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	go func() {
		defer close(r.done)
		r.ended = r.cmd.Wait()
	}()
	return r, nil
}

// ready waits until every check of the process holds, and says how long that took from its start.
func (r *running) ready(ctx context.Context, within time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		if isReady(ctx, client, "http://"+r.addr+"/readyz") {
			return time.Since(r.began), nil
		}
		select {
		case <-tick.C:
		case <-r.done:
			return 0, fmt.Errorf("the process ended before it was ready: %w: %s", r.ended, tail(r.errs.String()))
		case <-ctx.Done():
			return 0, fmt.Errorf("the process is not ready: %w", context.Cause(ctx))
		}
	}
}

func isReady(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

func (r *running) pid() string { return strconv.Itoa(r.cmd.Process.Pid) }

// stop asks the process to end and waits for it.
func (r *running) stop() error {
	r.cancel()
	<-r.done
	if r.ended != nil && !errors.Is(r.ended, context.Canceled) {
		return fmt.Errorf("stop the process: %w: %s", r.ended, tail(r.errs.String()))
	}
	return nil
}
