//go:build unix

// Package filelock keeps a directory to one process at a time. The kernel releases the lock when the process ends, however it ends.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Lock is held until Release or the end of the process.
type Lock struct{ file *os.File }

// ErrHeld says that a running process holds the lock.
var ErrHeld = errors.New("lock is held by a running process")

// Take takes the lock of a file, which it makes. It does not wait: ErrHeld while another process has it.
func Take(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrHeld
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &Lock{file: f}, nil
}

// Release unlocks before it closes: a child that was just forked, and has not reached its exec, holds the same lock.
func (l *Lock) Release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
