package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pilotstatus.dev/events"
)

func of(p events.Partition) string {
	return events.EventSubject(p, "inst-1", events.GroupInstance, "paused")
}

func TestAFailedAppendShowsUntilOneSucceedsOrItIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h appendHealth
		down := events.Errorf(events.CodeUnavailable, "no answer")
		answers := map[events.Partition]bool{0: true, 1: true}
		want := func(what string, all bool, parts ...events.Partition) {
			t.Helper()
			by, err := h.failures(func(p events.Partition, _ time.Time) bool { return answers[p] })
			if got := slices.Sorted(maps.Keys(by)); !slices.Equal(got, parts) || errors.Is(err, down) != all {
				t.Errorf("%s: partitions %v, all %v; want %v, %v", what, got, err, parts, all)
			}
			time.Sleep(time.Second)
		}
		h.heard(of(0), events.Errorf(events.CodeTooLarge, "its own fault"))
		want("an event too large says nothing about the log", false)
		h.heard(events.HookSubject("0abc"), down)
		want("another stream says nothing about the partitions", false)
		h.heard(of(0), down)
		want("a failure", true, 0)
		h.heard(of(1), nil)
		want("another partition takes something: it is no disk", false, 0)
		h.heard(of(0), down)
		want("nothing was taken since", true, 0)
		h.heard(of(0), nil)
		want("a success", false)
		h.heard(of(1), down)
		answers[1] = false
		want("its log does not answer: that is the reason", false)
		answers[1] = true
		want("its log answers: it is not", true, 1)
		time.Sleep(suspect)
		want("nobody tries any more", false)
	})
}

func TestALookoutTellsWhoIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		var fails atomic.Bool
		silent := make(chan struct{})
		l := newLookout([]events.Partition{0, 1}, func(ctx context.Context, p events.Partition) error {
			if p == 1 {
				select {
				case <-silent:
				case <-ctx.Done():
				}
				return nil
			}
			if fails.Load() {
				return gone
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.run(ctx) }()
		synctest.Wait()
		if got := l.away(); len(got) != 1 || !errors.Is(got[1], errUnseen) {
			t.Errorf("one has not answered yet: %v", got)
		}
		close(silent)
		synctest.Wait()
		if got := l.away(); len(got) != 0 {
			t.Errorf("both answered: %v", got)
		}
		failed := time.Now()
		time.Sleep(time.Millisecond)
		if l.answered(0, failed) {
			t.Error("it was not asked since")
		}
		time.Sleep(lookEvery)
		if !l.answered(0, failed) {
			t.Error("it was asked since, and answered")
		}
		fails.Store(true)
		time.Sleep(lookEvery)
		synctest.Wait()
		if got := l.away(); !errors.Is(got[0], gone) || l.answered(0, failed) {
			t.Errorf("one is gone: %v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWaitingNamesTheViewsThatWait(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	gone := errors.New("gone")
	w.set(0, nil)
	w.set(1, gone)
	by, whole := w.work()
	if len(by) != 1 || !errors.Is(by[1], gone) || !strings.Contains(by[1].Error(), "partition 1") || whole != nil {
		t.Errorf("%v, %v", by, whole)
	}
	w.set(1, nil)
	if by, _ := w.work(); len(by) != 0 {
		t.Errorf("%v", by)
	}
}
