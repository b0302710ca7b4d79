package eventlog_test

import (
	"errors"
	"testing"
	"time"

	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
)

func TestNoteIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLeases(w)
	if _, err := s.Noted(t.Context(), "load.0"); !errors.Is(err, eventlog.ErrNoNote) {
		t.Errorf("before the first: %v", err)
	}
	for _, text := range []string{"one", "two"} {
		if err := s.Note(t.Context(), "load.0", []byte(text), time.Second); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Noted(t.Context(), "load.0"); string(got) != text || err != nil {
			t.Errorf("%s %v", got, err)
		}
	}
	awaittest.Eventually(t, 10*time.Second, 20*time.Millisecond, "the note is forgotten", func() bool {
		_, err := s.Noted(t.Context(), "load.0")
		return errors.Is(err, eventlog.ErrNoNote)
	}, nil)
}
