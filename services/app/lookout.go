package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// lookout knows which partitions are away: those whose log does not answer. It looks by itself, so that a probe, which may have a
// second, waits for no silent log.
type lookout struct {
	partitions []events.Partition
	ask        func(context.Context, events.Partition) error // bounded by itself

	mu   sync.Mutex
	seen map[events.Partition]sight
}

// sight is how a partition answered the last time.
type sight struct {
	begun time.Time // when it was asked; zero before its first answer
	err   error
}

// lookEvery is the pause between two looks at a partition: what happens to it is known so long after, and after the time that its log is
// given to answer.
const lookEvery = time.Second

func newLookout(partitions []events.Partition, ask func(context.Context, events.Partition) error) *lookout {
	return &lookout{partitions: partitions, ask: ask, seen: map[events.Partition]sight{}}
}

// run looks at every partition again and again, until ctx ends.
func (l *lookout) run(ctx context.Context) error {
	var looks sync.WaitGroup
	for _, p := range l.partitions {
		looks.Go(func() {
			for {
				begun := time.Now()
				err := l.ask(ctx, p)
				if ctx.Err() != nil {
					return
				}
				l.mu.Lock()
				l.seen[p] = sight{begun: begun, err: err}
				l.mu.Unlock()
				if !await.Elapsed(ctx, lookEvery) {
					return
				}
			}
		})
	}
	looks.Wait()
	return nil
}

// errUnseen says that a partition has not been asked, or has not answered, since the process started.
var errUnseen = errors.New("its log has not answered yet")

// away says of each partition that is away why.
func (l *lookout) away() map[events.Partition]error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[events.Partition]error{}
	for _, p := range l.partitions {
		switch s := l.seen[p]; {
		case s.begun.IsZero():
			out[p] = fmt.Errorf("partition %s: %w", p, errUnseen)
		case s.err != nil:
			out[p] = fmt.Errorf("partition %s: %w", p, s.err)
		}
	}
	return out
}

// answered reports that a partition was asked later than at, and answered.
func (l *lookout) answered(p events.Partition, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.seen[p]
	return s.err == nil && s.begun.After(at)
}
