// Package failpoint lets an operator of a test make a process die, stop, wait or fail at a named place of its work. It promises
// that nothing happens unless the environment variable PILOT_FAILPOINT said so when the process began, and that a place which is
// not armed costs one atomic load. docs/crash.md tells how the crash test uses it.
package failpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Variable names the environment variable that arms places: `name:action[:nth]`, several separated by commas. Actions are kill
// (SIGKILL to this process), stop (SIGSTOP to it), sleep:<duration> and error. With nth only that pass of the place is hit, from
// 1; without it every pass is.
const Variable = "PILOT_FAILPOINT"

// ErrArmed is what a place gives that is armed with the action error.
var ErrArmed = errors.New("failpoint")

// armed holds what the environment said; nil in every process that nobody tests.
var armed atomic.Pointer[arms]

func init() {
	text := os.Getenv(Variable)
	if text == "" {
		return
	}
	a, err := parse(text)
	if err != nil { // a test that arms nothing would pass for the wrong reason
		panic(Variable + ": " + err.Error())
	}
	fmt.Fprintf(os.Stderr, "failpoints are armed: %s\n", text)
	armed.Store(&a)
}

// Hit does what the place is armed with: it may not return, or return late.
func Hit(name string) {
	if a := armed.Load(); a != nil {
		_ = a.hit(name) // only places that can fail are armed with an error
	}
}

// Fail is Hit for a place that can fail: it gives an error that wraps ErrArmed when the place is armed with one.
func Fail(name string) error {
	if a := armed.Load(); a != nil {
		return a.hit(name)
	}
	return nil
}

// Wrote gives a context under which an HTTP request hits the place once it is written, while its answer is outstanding.
func Wrote(ctx context.Context, name string) context.Context {
	if armed.Load() == nil {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			Hit(name)
		}
	}})
}

func (a arms) hit(name string) error {
	arm := a[name]
	if arm == nil {
		return nil
	}
	n := arm.passes.Add(1)
	if arm.nth != 0 && n != arm.nth {
		return nil
	}
	fmt.Fprintf(os.Stderr, "failpoint %s: %s at pass %d\n", name, arm.action, n)
	switch arm.action {
	case actionKill:
		signal(syscall.SIGKILL)
		select {} // until the signal arrives
	case actionStop:
		signal(syscall.SIGSTOP)
		time.Sleep(settle) // the signal may take effect after the call returns
	case actionSleep:
		time.Sleep(arm.pause)
	case actionError:
		return fmt.Errorf("%w %s", ErrArmed, name)
	}
	return nil
}

// settle is more than a signal to the own process takes.
const settle = 20 * time.Millisecond

// signal sends a signal to this process.
var signal = func(s syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		panic("failpoint: signal to the own process: " + err.Error())
	}
}
