package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

const (
	keptLines = 20
	longLine  = 4 << 10
	quitWait  = 5 * time.Second
)

// process is one run of the server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the server has ended
	out  *journal
}

// spawn starts the server. One thread starts it, waits for it and does nothing else: the kernel's "parent died" signal
// follows the thread, not the process.
func spawn(path string, args []string, dir string, owner *user, log zerolog.Logger) (*process, error) {
	p := &process{done: make(chan struct{}), out: &journal{log: log}}
	p.cmd = exec.Command(path, args...) //nolint:gosec,noctx // an installed binary; stop ends it
	p.cmd.Dir, p.cmd.Env, p.cmd.SysProcAttr = dir, environment(), owner.attributes()
	dieWithParent(p.cmd.SysProcAttr)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.WaitDelay = time.Second // an orphaned backend may hold the pipe

	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in its log
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run postgres: %w", err)
	}
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks for a fast shutdown until ctx ends, then for an immediate one, then kills.
func (p *process) stop(ctx context.Context) error {
	if p.ended() {
		return nil
	}
	if err := p.signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	if err := p.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	timer := time.NewTimer(quitWait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
	return nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it has ended, or it will now
	<-p.done
}

func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal postgres: %w", err)
	}
	return nil
}

func (p *process) tail() string { return p.out.tail() }

// journal passes the server's lines to the log and keeps the last ones for errors.
type journal struct {
	log zerolog.Logger

	mu    sync.Mutex
	rest  string
	lines []string
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.rest + string(b)
	for {
		line, rest, found := strings.Cut(text, "\n")
		if !found {
			break
		}
		j.take(line)
		text = rest
	}
	if len(text) > longLine {
		j.take(text[:longLine])
		text = ""
	}
	j.rest = text
	return len(b), nil
}

func (j *journal) take(line string) {
	level := zerolog.DebugLevel
	switch {
	case strings.Contains(line, "PANIC:"):
		level = zerolog.ErrorLevel
	case strings.Contains(line, "FATAL:"), strings.Contains(line, "WARNING:"):
		level = zerolog.WarnLevel
	}
	j.log.WithLevel(level).Str("source", "postgres").Msg(line)
	j.lines = append(j.lines, line)
	if len(j.lines) > keptLines {
		j.lines = j.lines[1:]
	}
}

func (j *journal) tail() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "; ")
}
