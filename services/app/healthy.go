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

// appendHealth knows how the last append of the API to each partition ended. The zero value is well.
type appendHealth struct {
	mu     sync.Mutex
	failed map[events.Partition]failedAppend
	took   time.Time // when the log took one, in whatever partition
}

type failedAppend struct {
	err error
	at  time.Time
}

// heard takes the end of an append. Only what says that the log did not take the event counts: an event that is at fault itself
// says nothing about the log, and one for another stream nothing about the partitions.
func (h *appendHealth) heard(address string, err error) {
	addr, foreign := events.ParseEventSubject(address)
	if foreign != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.took = time.Now()
		delete(h.failed, addr.Partition)
	case events.CodeOf(err) == events.CodeUnavailable:
		if h.failed == nil {
			h.failed = map[events.Partition]failedAppend{}
		}
		h.failed[addr.Partition] = failedAppend{err, time.Now()}
	}
}

// failures says of each partition why it took nothing of late, where that is not explained by a log that is away: only one that has
// answered since was not away. Until then nothing is said: one partition must not take a process out of service. all is that of those
// behind which the log took nothing anywhere.
func (h *appendHealth) failures(answered func(events.Partition, time.Time) bool) (by map[events.Partition]error, all error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	by = map[events.Partition]error{}
	for _, p := range slices.Sorted(maps.Keys(h.failed)) {
		f := h.failed[p]
		if time.Since(f.at) > suspect || !answered(p, f.at) {
			continue
		}
		by[p] = fmt.Errorf("the last append to partition %s failed %s ago: %w", p, time.Since(f.at).Round(time.Second), f.err)
		if f.at.After(h.took) {
			all = errors.Join(all, by[p])
		}
	}
	return by, all
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
	if err == nil {
		delete(w.why, p)
		return
	}
	w.why[p] = fmt.Errorf("view of partition %s waits: %w", p, err)
}

// work is that of a roleHealth.
func (w *waiting) work() (map[events.Partition]error, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.why), nil
}
