package awaittest

import (
	"sync"
	"testing"
	"time"
)

// Stillness measures for how long the process of a test stands still: the machine is stopped, or so busy with others that nothing of the
// process runs. What was promised of a machine that runs is held against the time without that. A process that is slow by itself, since
// it waits or sleeps, is not still.
type Stillness struct {
	mu   sync.Mutex
	last time.Time
	lost time.Duration
}

const (
	beat     = 10 * time.Millisecond  // between two signs of life
	unnoted  = 100 * time.Millisecond // a gap that long is no stillness
	stopWait = time.Minute
)

// Watch begins to measure; it ends with the test.
func Watch(t testing.TB) *Stillness {
	t.Helper()
	s := &Stillness{last: time.Now()}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				s.alive(time.Now())
			}
		}
	}()
	t.Cleanup(func() {
		close(over)
		select {
		case <-done:
		case <-time.After(stopWait):
			t.Error("the measuring of stillness does not end")
		}
	})
	return s
}

// Lost is for how long the process has stood still since Watch, in all. Gaps of less than a tenth of a second do not count.
func (s *Stillness) Lost() time.Duration {
	s.alive(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

func (s *Stillness) alive(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gap := now.Sub(s.last); gap >= unnoted {
		s.lost += gap
	}
	if now.After(s.last) {
		s.last = now
	}
}
