package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"pilotstatus.dev/events"
)

// suspect is how long an append that failed keeps readiness red, unless a later one succeeds: a log that can be read may still
// take nothing, with a full disk for example, and only an append finds out.
const suspect = 30 * time.Second

// appendHealth knows how the last append of the API ended. The zero value is well.
type appendHealth struct {
	mu       sync.Mutex
	failure  error
	failedAt time.Time
}

// heard takes the end of an append. Only what says that the log did not take the event counts: an event that is at fault itself
// says nothing about the log.
func (h *appendHealth) heard(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.failure = nil
	case events.CodeOf(err) == events.CodeUnavailable:
		h.failure, h.failedAt = err, time.Now()
	}
}

func (h *appendHealth) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil || time.Since(h.failedAt) > suspect {
		return nil
	}
	return fmt.Errorf("the last append failed %s ago: %w", time.Since(h.failedAt).Round(time.Second), h.failure)
}

// waiting knows which views wait for Postgres or the log, and why.
type waiting struct {
	mu  sync.Mutex
	why map[events.Partition]error
}

func newWaiting() *waiting { return &waiting{why: map[events.Partition]error{}} }

func (w *waiting) set(p events.Partition, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.why[p] = err
}

func (w *waiting) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(w.why)) {
		if err := w.why[p]; err != nil {
			errs = append(errs, fmt.Errorf("view of partition %s waits: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
