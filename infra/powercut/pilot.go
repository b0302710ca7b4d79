//go:build linux

package powercut

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/loopback"
)

const (
	startLimit = 90 * time.Second
	ready      = "Send a message" // what `pilot up --demo` prints when it takes messages
)

// pilot is a real `pilot up --demo` with everything it keeps on the volume, its managed Postgres too.
type pilot struct {
	bin, data, mount string
	log              string // file for what it logs, not on the volume
	sync             string
	gateway, key     string
	api, ingest      netip.AddrPort
	hooks, nats      netip.AddrPort

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	end  error         // how; set before
}

// newPilot makes the data directory, so that the user Postgres runs as can reach it and has its files on the volume too,
// and chooses free addresses, the same for each life of the process.
func newPilot(ctx context.Context, bin, mount, log, sync, gateway, key string) (*pilot, error) {
	p := &pilot{bin: bin, data: filepath.Join(mount, "pilot"), mount: mount, log: log, sync: sync, gateway: gateway, key: key}
	if err := os.MkdirAll(p.data, 0o711); err != nil { //nolint:gosec // Postgres runs as another user
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	at, err := loopback.Addresses(ctx, 4)
	if err != nil {
		return nil, fmt.Errorf("choose addresses: %w", err)
	}
	p.api, p.ingest, p.hooks, p.nats = at[0], at[1], at[2], at[3]
	return p, nil
}

// store is where the embedded server keeps its files.
func (p *pilot) store() string { return filepath.Join(p.data, "nats") }

func (p *pilot) natsURL() string { return "nats://" + p.nats.String() }

// start runs the process and returns when it takes messages. Limits are short, so that a message whose call was cut ends
// in seconds.
func (p *pilot) start(ctx context.Context) error {
	logs, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of pilot: %w", err)
	}
	defer func() { _ = logs.Close() }() // the process has its own
	//nolint:gosec // the binary under test
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), p.bin, "up", "--demo", "--burst-rate=-1", "--data-dir", p.data, "--nats-sync", p.sync,
		"--nats-port", strconv.Itoa(int(p.nats.Port())), "--http-addr", p.api.String(), "--ingest-addr", p.ingest.String(), "--hook-addr", p.hooks.String(),
		"--gateway-url", p.gateway, "--gateway-key", p.key, "--log-level", "warn",
		"--successor-wait", "2s", "--send-limit", "1500ms", "--intent-budget", "1s", "--look-ups", "200ms,500ms", "--quiet", "100ms", "--presumed-after", "1s")
	said := &sayer{word: ready, said: make(chan struct{})}
	// A child that keeps the output open after the process has ended is not waited for longer than the delay.
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = said, logs, 5*time.Second
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start pilot: %w", err)
	}
	cmd := p.cmd
	p.done = make(chan struct{})
	go func() {
		p.end = cmd.Wait()
		close(p.done)
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case <-said.said:
		return nil
	case <-p.done:
		p.cmd = nil
		return fmt.Errorf("start pilot: it ended: %w (see %s)", errors.Join(p.end, errors.New("not ready")), p.log)
	case <-limit.C:
		return fmt.Errorf("start pilot: not ready after %s (see %s)", startLimit, p.log)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sayer closes said once the word has been written to it.
type sayer struct {
	word string
	said chan struct{}
	seen []byte // the end of what was written: it may be the beginning of the word
	over bool
}

func (s *sayer) Write(b []byte) (int, error) {
	if s.over {
		return len(b), nil
	}
	s.seen = append(s.seen, b...)
	if bytes.Contains(s.seen, []byte(s.word)) {
		s.over, s.seen = true, nil
		close(s.said)
		return len(b), nil
	}
	s.seen = s.seen[max(0, len(s.seen)-len(s.word)):]
	return len(b), nil
}

// kill ends the process and everything that runs on the volume at once, without waiting: under a failing disk nobody can end.
func (p *pilot) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
	}
	for _, pid := range usersOf(p.mount) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// gone waits until all that kill ended is gone; it may have to kill again what was just being born.
func (p *pilot) gone(ctx context.Context) error {
	if p.cmd != nil {
		select {
		case <-p.done:
			p.cmd = nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !await.Until(ctx, detachLimit, pollEvery, func() bool {
		pids := usersOf(p.mount)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(pids) == 0
	}) {
		return errors.New("end pilot: something still runs on the volume")
	}
	return nil
}

// stop ends the process in order.
func (p *pilot) stop(ctx context.Context) error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop pilot: %w", err)
	}
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case <-p.done:
		p.cmd = nil
		return p.end
	case <-limit.C:
		p.kill()
		return errors.Join(fmt.Errorf("stop pilot: still there after %s", startLimit), p.gone(ctx))
	}
}

// usersOf lists the processes whose directory lies on a mount, as that of every process of Postgres does.
func usersOf(mount string) []int {
	dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return nil
	}
	var pids []int
	for _, d := range dirs {
		at, err := os.Readlink(d)
		if err != nil || (at != mount && !strings.HasPrefix(at, mount+"/")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(d))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
