package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"pilotstatus.dev/infra/groupcommit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk counts what was written and what of it a sync has covered. A write is covered when it was there as a sync began.
type disk struct {
	written, durable atomic.Int64
	syncs            atomic.Int64
	took             func(n int64) time.Duration
	fails            int64 // number of the sync that fails, 0 for none
}

func (d *disk) sync() error {
	seen, n := d.written.Load(), d.syncs.Add(1)
	if d.took != nil {
		time.Sleep(d.took(n)) // of a bubble
	}
	if n == d.fails {
		return errors.New("input/output error")
	}
	d.durable.Store(seen)
	return nil
}

func closed(t interface {
	Helper()
	Errorf(string, ...any)
}, s *groupcommit.Syncer,
) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

// No waiter returns before a sync that began after its call has ended, whatever the timing; and after a failed sync
// nobody returns without an error who was not covered before it.
func TestNobodyReturnsTooEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		callers := rapid.IntRange(1, 20).Draw(rt, "callers")
		writes := rapid.IntRange(1, 10).Draw(rt, "writes")
		patience := rapid.IntRange(0, 5).Draw(rt, "patience")
		patient := rapid.IntRange(0, callers).Draw(rt, "patient callers")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 7), 1, 16).Draw(rt, "pauses")
		lengths := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 16).Draw(rt, "lengths")
		fails := rapid.Int64Range(0, 12).Draw(rt, "fails")
		var faults []string
		synctest.Test(t, func(t *testing.T) {
			d := &disk{fails: fails, took: func(n int64) time.Duration { return time.Duration(lengths[int(n)%len(lengths)]) * time.Millisecond }}
			s := groupcommit.Start(d.sync, groupcommit.Options{Patience: time.Duration(patience) * time.Millisecond})
			var mu sync.Mutex
			var all sync.WaitGroup
			for c := range callers {
				wait := s.Wait
				if c < patient {
					wait = s.Patient().Wait
				}
				all.Go(func() {
					for w := range writes {
						time.Sleep(time.Duration(pauses[(c*7+w)%len(pauses)]) * time.Millisecond)
						mine := d.written.Add(1)
						err := wait(t.Context(), s.Mark())
						covered := d.durable.Load() >= mine
						_, failed := errors.AsType[*groupcommit.Failed](err)
						mu.Lock()
						switch {
						case err == nil && !covered:
							faults = append(faults, fmt.Sprintf("write %d returned before it was durable", mine))
						case err != nil && (!failed || fails == 0):
							faults = append(faults, err.Error())
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			closed(t, s)
		})
		for _, f := range faults {
			rt.Error(f)
		}
	})
}

func TestCallersDuringASyncShareTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{took: func(int64) time.Duration { return 10 * time.Millisecond }}
		var crowds []int
		s := groupcommit.Start(d.sync, groupcommit.Options{OnSync: func(_ time.Duration, n int, _ error) { crowds = append(crowds, n) }})
		var all sync.WaitGroup
		for i := range 11 {
			all.Go(func() {
				if i > 0 {
					time.Sleep(time.Millisecond)
				}
				if err := s.Sync(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		closed(t, s)
		if len(crowds) != 2 || crowds[0] != 1 || crowds[1] != 10 {
			t.Errorf("waiters of each sync = %v, want 1 and the 10 that came while it ran", crowds)
		}
	})
}

func TestAMarkIsServedByARunningSyncThatBeganAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{took: func(int64) time.Duration { return 10 * time.Millisecond }}
		s := groupcommit.Start(d.sync, groupcommit.Options{})
		early := s.Mark()
		var all sync.WaitGroup
		for range 2 { // the second joins while the first one's sync runs
			all.Go(func() {
				if err := s.Wait(t.Context(), early); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(5 * time.Millisecond)
		}
		all.Wait()
		if err := s.Wait(t.Context(), early); err != nil {
			t.Error(err)
		}
		closed(t, s)
		if n := d.syncs.Load(); n != 1 {
			t.Errorf("%d syncs, want one for all of an early mark", n)
		}
	})
}

// patiently has n wait patiently from this moment on, and tells how long each of them did.
func patiently(t *testing.T, s *groupcommit.Syncer, n int) (all *sync.WaitGroup, took []time.Duration) {
	all, took = &sync.WaitGroup{}, make([]time.Duration, n)
	for i := range n {
		all.Go(func() {
			began, p := time.Now(), s.Patient()
			if err := p.Wait(t.Context(), p.Mark()); err != nil {
				t.Error(err)
			}
			took[i] = time.Since(began)
		})
	}
	synctest.Wait()
	return all, took
}

func TestThePatientShareWhatOthersCause(t *testing.T) {
	t.Parallel()
	const patience, length = 5 * time.Millisecond, time.Millisecond
	for what, c := range map[string]struct {
		calm    time.Duration // since somebody was in a hurry
		waiters int
		hurry   time.Duration // when somebody comes who is in a hurry, 0 for nobody
		want    time.Duration
	}{
		"nobody else":                     {0, 3, 0, patience + length},
		"somebody in a hurry":             {0, 3, 2 * time.Millisecond, 2*time.Millisecond + length},
		"a crowd, which is enough":        {0, 8, 0, length},
		"nobody in a hurry for some time": {time.Second, 1, 0, length},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &disk{took: func(int64) time.Duration { return length }}
				s := groupcommit.Start(d.sync, groupcommit.Options{Patience: patience})
				if err := s.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(c.calm)
				all, took := patiently(t, s, c.waiters)
				if c.hurry > 0 {
					time.Sleep(c.hurry)
					if err := s.Sync(t.Context()); err != nil {
						t.Error(err)
					}
				}
				all.Wait()
				for _, have := range took {
					if have != c.want {
						t.Errorf("waited %s, want %s", have, c.want)
					}
				}
				closed(t, s)
				if n := d.syncs.Load(); n != 2 {
					t.Errorf("%d syncs, want one at first and one for all", n)
				}
			})
		})
	}
}

// Who is in a hurry finds no sync under way that the patient caused for themselves a moment ago.
func TestTheHurriedDoNotWaitForThePatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{took: func(int64) time.Duration { return 10 * time.Millisecond }}
		s := groupcommit.Start(d.sync, groupcommit.Options{Patience: time.Second})
		if err := s.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		all, _ := patiently(t, s, 1)
		began := time.Now()
		if err := s.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 10*time.Millisecond {
			t.Errorf("a sync beside a patient waiter took %s, want its own 10ms", took)
		}
		all.Wait()
		closed(t, s)
	})
}

func TestCloseServesThePatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		s := groupcommit.Start(d.sync, groupcommit.Options{Patience: time.Hour})
		if err := s.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		all, took := patiently(t, s, 2)
		closed(t, s)
		all.Wait()
		if took[0] != 0 || took[1] != 0 {
			t.Errorf("waited %v after the end was asked for", took)
		}
	})
}

func TestAFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	d := &disk{fails: 2}
	s := groupcommit.Start(d.sync, groupcommit.Options{})
	covered := s.Mark()
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if failed, ok := errors.AsType[*groupcommit.Failed](s.Sync(t.Context())); !ok || failed.Err == nil {
			t.Fatal("a wait after a failed sync must fail")
		}
	}
	if err := s.Wait(t.Context(), covered); err != nil {
		t.Errorf("what an earlier sync covered: %v", err)
	}
	if s.Err() == nil {
		t.Error("Err() = nil after a failed sync")
	}
	if n := d.syncs.Load(); n != 2 {
		t.Errorf("%d syncs: none may follow a failed one", n)
	}
	closed(t, s)
}

func TestCloseServesWhoWaitsAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{took: func(int64) time.Duration { return 10 * time.Millisecond }}
		s := groupcommit.Start(d.sync, groupcommit.Options{})
		var all sync.WaitGroup
		for i := range 2 { // of the running sync and of the next
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if err := s.Sync(t.Context()); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close while a sync runs = %v, want the deadline", err)
		}
		if err := s.Sync(t.Context()); !errors.Is(err, groupcommit.ErrClosed) {
			t.Errorf("sync after close = %v, want ErrClosed", err)
		}
		closed(t, s)
		all.Wait()
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{took: func(int64) time.Duration { return time.Minute }}
		s := groupcommit.Start(d.sync, groupcommit.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the deadline", err)
		}
		closed(t, s)
	})
}
