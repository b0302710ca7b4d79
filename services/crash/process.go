package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"pilotstatus.dev/infra/failpoint"
)

// process is one real process of Pilot.
type process struct {
	name string
	cmd  *exec.Cmd
	said *transcript
	done chan struct{} // closed when it has ended
}

// spawn starts a process; arm is the value of its failpoint variable, empty for none.
func spawn(binary, dir, name, arm string, args ...string) (*process, error) {
	said, err := newTranscript(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.Command(binary, args...), said: said, done: make(chan struct{})} //nolint:gosec,noctx // our own binary; stopped by signals, whose kind matters
	p.cmd.Env = append(os.Environ(), failpoint.Variable+"="+arm)
	p.cmd.Stdout, p.cmd.Stderr = said, said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(p.cmd.SysProcAttr)
	if err := p.cmd.Start(); err != nil {
		said.close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in ProcessState
		said.close()
	}()
	return p, nil
}

// await waits until the process has said text, and gives the line.
func (p *process) await(ctx context.Context, text string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		line, more, ok := p.said.find(text)
		if ok {
			return line, nil
		}
		select {
		case <-more:
		case <-p.done:
			if line, _, ok := p.said.find(text); ok {
				return line, nil
			}
			return "", fmt.Errorf("%s ended (%s) before it said %q", p.name, p.cmd.ProcessState, text)
		case <-ctx.Done():
			return "", fmt.Errorf("%s did not say %q: %w", p.name, text, context.Cause(ctx))
		}
	}
}

// ended waits for the end of the process.
func (p *process) ended(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", p.name, context.Cause(ctx))
	}
}

// killed reports that SIGKILL ended the process.
func (p *process) killed() bool {
	s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && s.Signal() == syscall.SIGKILL
}

// signal sends a signal; a process that has ended is no error.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(s); err != nil && p.ended(context.Background(), time.Second) != nil {
		return fmt.Errorf("signal %s to %s: %w", s, p.name, err)
	}
	return nil
}

// stop ends the process in order, and the hard way when it does not end in time: then it gives an error.
func (p *process) stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := p.ended(ctx, 25*time.Second)
	if err == nil {
		return nil
	}
	_ = p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

// transcript keeps what a process says, in a file and for who waits for a word.
type transcript struct {
	mu   sync.Mutex
	file *os.File
	buf  bytes.Buffer
	more chan struct{} // closed and made anew when there is more
}

func newTranscript(path string) (*transcript, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of a process: %w", err)
	}
	return &transcript{file: f, more: make(chan struct{})}, nil
}

// Write takes what was said.
func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	close(t.more)
	t.more = make(chan struct{})
	return t.file.Write(b)
}

// find gives the first whole line with a text, else a channel that is closed when there is more.
func (t *transcript) find(text string) (string, <-chan struct{}, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.Lines(t.buf.String()) {
		if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
			return strings.TrimSpace(line), nil, true
		}
	}
	return "", t.more, false
}

// count counts the lines with a text.
func (t *transcript) count(text string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Count(t.buf.String(), text)
}

func (t *transcript) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.file.Close() // it is for people
}
