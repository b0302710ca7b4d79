package eventlog_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
)

func noted(t *testing.T, s *eventlog.Leases, tokens string) (texts []string) {
	t.Helper()
	notes, err := s.NotedUnder(t.Context(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range notes {
		texts = append(texts, string(n))
	}
	return texts
}

func note(t *testing.T, s *eventlog.Leases, key, text string, ttl time.Duration) {
	t.Helper()
	if err := s.Note(t.Context(), key, []byte(text), ttl); err != nil {
		t.Fatal(err)
	}
}

func TestNoteIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLeases(w)
	if got := noted(t, s, "load.0"); len(got) > 0 {
		t.Errorf("before the first: %v", got)
	}
	note(t, s, "load.1.a", "of another", time.Minute)
	note(t, s, "load.0.a", "one", time.Second)
	note(t, s, "load.0.b", "other", time.Minute)
	note(t, s, "load.0.a", "two", time.Minute)
	if got := noted(t, s, "load.0"); !cmp.Equal(got, []string{"other", "two"}) {
		t.Errorf("noted %v", got)
	}
	note(t, s, "load.0.a", "three", time.Second)
	awaittest.Eventually(t, 20*time.Second, 20*time.Millisecond, "the note is forgotten", func() bool {
		return cmp.Equal(noted(t, s, "load.0"), []string{"other"})
	}, nil)
	for range 2 {
		if err := s.Forget(t.Context(), "load.0.b"); err != nil {
			t.Fatal(err)
		}
	}
	if got := noted(t, s, "load.0"); len(got) > 0 {
		t.Errorf("taken back: %v", got)
	}
}

// seen is what a watch has told.
type seen struct {
	mu    sync.Mutex
	there map[string]string
	told  []string // every value there ever was
	whole bool
}

func (s *seen) take(c eventlog.Sight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.Key == "":
		s.whole = true
	case c.Value == nil:
		delete(s.there, c.Key)
	default:
		s.there[c.Key] = string(c.Value)
		s.told = append(s.told, c.Key+"="+string(c.Value))
	}
}

func (s *seen) was(what string) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.told, what)
	}
}

func (s *seen) is(want map[string]string) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.whole && maps.Equal(s.there, want)
	}
}

// A watch sees what is there, what is said, what is taken back and what ends by itself; and makes the bucket where there is none.
func TestWatchSeesEveryChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLeases(w)
	ctx, cancel := context.WithCancel(t.Context())
	begin := func() (*seen, <-chan error) {
		got, done := &seen{there: map[string]string{}}, make(chan error, 1)
		go func() { done <- newLeases(w).Watch(ctx, "disp", got.take) }()
		return got, done
	}
	early, earlyDone := begin()
	eventually(t, "nothing is there", early.is(map[string]string{}))
	note(t, s, "disp.a", "1", time.Minute)
	note(t, s, "load.0", "other", time.Minute)
	late, lateDone := begin()
	for _, got := range []*seen{early, late} {
		eventually(t, "a is there", got.is(map[string]string{"disp.a": "1"}))
	}
	note(t, s, "disp.b", "2", time.Second)
	eventually(t, "b too", late.was("disp.b=2")) // for a second
	eventually(t, "b has ended", late.is(map[string]string{"disp.a": "1"}))
	if err := s.Forget(t.Context(), "disp.a"); err != nil {
		t.Fatal(err)
	}
	for _, got := range []*seen{early, late} {
		eventually(t, "a was taken back", got.is(map[string]string{}))
	}
	cancel()
	for _, done := range []<-chan error{earlyDone, lateDone} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestWatchEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got, done := &seen{there: map[string]string{}}, make(chan error, 1)
	go func() { done <- newLeases(w).Watch(t.Context(), "disp", got.take) }()
	eventually(t, "it watches", got.is(map[string]string{}))
	w.nc.Close()
	if err := <-done; err == nil {
		t.Error("a watch without a connection ended as if it were told to")
	}
}
