// Package groupcommit makes the writes of many callers durable with one sync of their file system.
//
// It promises that a wait ends without an error only after a sync that began after the wait's mark has succeeded, and
// that after a sync that failed none ever does. Why: docs/adr/0006-group-commit.md.
package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrClosed says that the syncer was closed before a sync could cover the wait.
var ErrClosed = errors.New("group commit is closed")

// Failed says that a sync failed once. What was written before it may be lost although the system no longer counts it
// as dirty, and no later sync can tell: nothing may be acknowledged until the disk was looked at and the process
// started anew.
type Failed struct{ Err error }

func (e *Failed) Error() string { return "sync of the log's file system: " + e.Err.Error() }

// Unwrap gives what the system said.
func (e *Failed) Unwrap() error { return e.Err }

// Options tune a Syncer; the zero value is usable.
type Options struct {
	// Patience is how long a patient wait (Syncer.Patient) lasts before it causes a sync of its own, while others are in a hurry. 0
	// makes all alike.
	Patience time.Duration
	// OnSync hears of each sync when it ended: how long it took, and how many waited for it. It must not block. May be nil.
	OnSync func(elapsed time.Duration, waiters int, err error)
}

// Mark is a moment in the life of a Syncer: the number of syncs that had begun.
type Mark uint64

// Syncer runs one sync at a time for all who wait. Make it with Start, end it with Close; its methods are safe for
// concurrent use.
type Syncer struct {
	sync func() error
	opts Options

	mu      sync.Mutex
	begun   Mark   // syncs begun
	done    Mark   // number of the last sync that succeeded
	running *round // number begun; nil between syncs
	next    *round // number begun+1
	failed  error
	closed  bool
	hurried time.Time // when somebody in a hurry last wanted a sync

	wake  chan struct{} // the next round is due, or the end was asked for
	ended chan struct{}
}

// round is one sync and those who wait for it; err is set before over is closed.
type round struct {
	waiters int
	due     bool // somebody is in a hurry, or has waited long enough
	over    chan struct{}
	err     error
}

func newRound() *round { return &round{over: make(chan struct{})} }

// Start runs a syncer over a function that makes everything durable that was written before it was called.
func Start(sync func() error, o Options) *Syncer {
	s := &Syncer{sync: sync, opts: o, next: newRound(), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go s.loop()
	return s
}

// Mark names this moment: what was written before it is durable once Wait(ctx, mark) returned nil.
func (s *Syncer) Mark() Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// Wait returns nil when a sync that began after the mark has succeeded, and causes one where it must. Errors: *Failed
// for ever after a failed sync, ErrClosed, or the cause of ctx's end, after which the writes may be durable or not.
func (s *Syncer) Wait(ctx context.Context, m Mark) error { return s.wait(ctx, m, 0) }

// crowd is how many waiters are enough for a sync of their own: a consumer of the log handles so many events at once, and where all of
// them wait nothing goes on.
const crowd = 8

// calm is how long nobody was in a hurry, in times of the patience, after which patience serves nobody.
const calm = 4

func (s *Syncer) wait(ctx context.Context, m Mark, patience time.Duration) error {
	s.mu.Lock()
	var r *round
	var enough <-chan time.Time
	switch {
	case s.done > m:
		s.mu.Unlock()
		return nil
	case s.failed != nil:
		defer s.mu.Unlock()
		return s.failed
	case s.running != nil && s.begun > m:
		r = s.running
	case s.closed:
		s.mu.Unlock()
		return ErrClosed
	default:
		r = s.next
		now := time.Now()
		switch {
		case patience <= 0:
			s.hurried = now
			s.demand(r)
		case r.waiters+1 >= crowd || now.Sub(s.hurried) > calm*patience:
			s.demand(r)
		case !r.due:
			t := time.NewTimer(patience)
			defer t.Stop()
			enough = t.C
		}
	}
	r.waiters++
	s.mu.Unlock()
	for {
		select {
		case <-r.over:
			return r.err
		case <-enough:
			s.mu.Lock()
			s.demand(r)
			s.mu.Unlock()
		case <-ctx.Done():
			return fmt.Errorf("wait for the sync: %w", context.Cause(ctx))
		}
	}
}

// demand has a round run as soon as it can; one that runs or is over is left alone. s.mu is held.
func (s *Syncer) demand(r *round) {
	if s.next == r && !r.due {
		r.due = true
		s.signal()
	}
}

// Sync is Wait for everything written until now.
func (s *Syncer) Sync(ctx context.Context) error { return s.Wait(ctx, s.Mark()) }

// Err gives the error of the sync that failed, nil when none did.
func (s *Syncer) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Close refuses further waits, serves those that are there, and returns when the last sync has ended, at most when ctx
// ends: a sync cannot be interrupted. A second call waits for the first.
func (s *Syncer) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.signal()
	s.mu.Unlock()
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close group commit: %w", context.Cause(ctx))
	}
}

func (s *Syncer) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Syncer) loop() {
	defer close(s.ended)
	for {
		<-s.wake
		r, last := s.begin()
		if r == nil {
			if last {
				return
			}
			continue
		}
		began := time.Now()
		err := s.sync()
		elapsed := time.Since(began)
		waiters := s.end(r, err)
		if s.opts.OnSync != nil {
			s.opts.OnSync(elapsed, waiters, err)
		}
	}
}

// begin gives the round to run, nil when none is due; then last says that none will be.
func (s *Syncer) begin() (r *round, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next.waiters == 0 || !s.next.due && !s.closed {
		return nil, s.closed
	}
	s.begun++
	s.running, s.next = s.next, newRound()
	return s.running, false
}

// end answers the round, and says how many waited for it.
func (s *Syncer) end(r *round, err error) (waiters int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
	if err == nil {
		s.done = s.begun
	} else {
		// Those who came meanwhile wrote to the same file system: their sync would say nothing.
		s.failed = &Failed{err}
		r.err, s.next.err = s.failed, s.failed
		close(s.next.over)
		s.next = newRound()
	}
	close(r.over)
	if s.closed {
		s.signal()
	}
	return r.waiters
}
