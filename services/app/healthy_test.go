package app

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pilotstatus.dev/events"
)

func TestAFailedAppendShowsUntilOneSucceedsOrItIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h appendHealth
		down := events.Errorf(events.CodeUnavailable, "no answer")
		h.heard(events.Errorf(events.CodeTooLarge, "its own fault"))
		if err := h.err(); err != nil {
			t.Errorf("an event too large says nothing about the log: %v", err)
		}
		h.heard(down)
		if err := h.err(); !errors.Is(err, down) {
			t.Errorf("err = %v", err)
		}
		h.heard(nil)
		if err := h.err(); err != nil {
			t.Errorf("after a success: %v", err)
		}
		h.heard(down)
		time.Sleep(suspect + time.Second)
		if err := h.err(); err != nil {
			t.Errorf("nobody tries any more, and it stays red: %v", err)
		}
	})
}

func TestWaitingNamesTheViewsThatWait(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	gone := errors.New("gone")
	w.set(0, nil)
	w.set(1, gone)
	if err := w.err(); !errors.Is(err, gone) {
		t.Errorf("err = %v", err)
	}
	w.set(1, nil)
	if err := w.err(); err != nil {
		t.Errorf("err = %v", err)
	}
}
