// Package courtesy lets work in the background of a process wait a moment while a code is on its way to its gateway.
//
// Everything that a message causes after it has left (its events, receipts, views and webhooks) takes processor and disk from the next
// one. Nobody waits for that work as somebody waits for a code.
package courtesy

import (
	"context"
	"sync/atomic"
	"time"
)

// Courtesy says in one process whether a code is on its way. Its methods are safe for concurrent use; of a nil one nothing waits.
type Courtesy struct {
	patience time.Duration
	last     atomic.Pointer[code] // the code that came last; nil: none is on its way
}

// code is one that is on its way. Who takes it out of Courtesy.last closes left.
type code struct {
	id    string
	until time.Time
	left  chan struct{}
}

// longest is for how long a code is taken to be on its way that nobody says has left, in times of the patience: another process calls for
// it, or it has to wait.
const longest = 4

// New gives the courtesy of a process whose work in the background waits for patience at each step; 0: not at all.
func New(patience time.Duration) *Courtesy {
	if patience <= 0 {
		return nil
	}
	return &Courtesy{patience: patience}
}

// Comes says that a code is on its way: it is about to be accepted, or was read from the log. Said again it begins anew.
func (c *Courtesy) Comes(id string) {
	if c == nil {
		return
	}
	now := &code{id: id, until: time.Now().Add(longest * c.patience), left: make(chan struct{})}
	if before := c.last.Swap(now); before != nil {
		close(before.left)
	}
}

// Left says that a message has left, or will not leave now. Of one that is not the code that came last it changes nothing.
func (c *Courtesy) Left(id string) {
	if c == nil {
		return
	}
	if now := c.last.Load(); now != nil && now.id == id && c.last.CompareAndSwap(now, nil) {
		close(now.left)
	}
}

// Yield waits while a code is on its way, for the patience at most, or until ctx ends.
func (c *Courtesy) Yield(ctx context.Context) {
	if c == nil || c.last.Load() == nil {
		return
	}
	var over <-chan time.Time
	for at := time.Now(); ; at = time.Now() {
		now := c.last.Load()
		if now == nil || !at.Before(now.until) {
			return
		}
		if over == nil { // a code that is on its way outlasts the patience, or leaves; one that is forgotten costs no more than that
			t := time.NewTimer(min(c.patience, now.until.Sub(at)))
			defer t.Stop()
			over = t.C
		}
		select {
		case <-now.left: // another may have come
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}
