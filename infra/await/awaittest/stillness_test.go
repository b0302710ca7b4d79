package awaittest

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStillnessIsTheSumOfLongGaps(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	s := &Stillness{last: begun}
	at := begun
	for _, gap := range []time.Duration{beat, 90 * time.Millisecond, 2 * time.Second, beat, -beat, beat, 150 * time.Millisecond} {
		at = at.Add(gap)
		s.alive(at)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := 2150 * time.Millisecond; s.lost != want {
		t.Errorf("lost %s, want %s", s.lost, want)
	}
}

// A test that waits, however long, is not still.
func TestAProcessThatWaitsIsNotStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := Watch(t)
		<-time.After(time.Hour)
		if lost := s.Lost(); lost != 0 {
			t.Errorf("lost %s", lost)
		}
	})
}
