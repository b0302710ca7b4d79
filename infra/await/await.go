// Package await waits for time or for a signal, and no longer than a context lives.
package await

import (
	"context"
	"math/rand/v2"
	"time"
)

// Elapsed waits for d; false when ctx ended first.
func Elapsed(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Closed waits until c is closed or gives a value; false when ctx ended first.
func Closed(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// Backoff waits before try n (from 0) is repeated: a random part, at least half, of a bound that begins at least, doubles with
// each try and ends at most. False when ctx ended first.
func Backoff(ctx context.Context, least, most time.Duration, n int) bool {
	bound := min(least<<min(n, doublings), most)
	return Elapsed(ctx, bound/2+rand.N(bound/2+1)) //nolint:gosec // spreads load, keeps no secret
}

// doublings keep the bound of a pause of up to an hour from running over.
const doublings = 20

// Until asks every so often until holds does, at most for d, and once more at the end.
func Until(ctx context.Context, d, every time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return holds()
		}
	}
	return true
}
