package app

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestAPartThatFailsIsStartedAgainAndShowsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSupervisor(zerolog.Nop())
		var runs atomic.Int32
		s.start(t.Context(), "flaky-0", func(ctx context.Context) error {
			if runs.Add(1) < 3 {
				return errors.New("broken")
			}
			<-ctx.Done()
			return nil
		})
		s.start(t.Context(), "steady", func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		synctest.Wait()
		if err := s.check("flaky", nil); err == nil {
			t.Error("a failed part counts as healthy")
		}
		if err := s.check("steady", nil); err != nil {
			t.Errorf("trouble of one part shows in another: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := s.check("flaky", nil); err != nil || runs.Load() != 3 {
			t.Errorf("after %d runs: %v", runs.Load(), err)
		}
		if got := s.roles(); len(got) != 2 || got[0] != "flaky" || got[1] != "steady" {
			t.Errorf("roles %v", got)
		}
		if err := s.stopAll(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestPartsStopInReverseOrderWithinTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSupervisor(zerolog.Nop())
		var mu sync.Mutex
		var order []string
		release := make(chan struct{})
		for _, name := range []string{"first", "second", "third"} {
			s.start(t.Context(), name, func(ctx context.Context) error {
				<-ctx.Done()
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				if name == "second" {
					<-release
				}
				return nil
			})
		}
		synctest.Wait()
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := s.stopAll(bounded)
		mu.Lock()
		defer mu.Unlock()
		if err == nil || len(order) < 2 || order[0] != "third" || order[1] != "second" {
			t.Errorf("order %v, error %v", order, err)
		}
		close(release)
	})
}
