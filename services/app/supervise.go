package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// supervisor runs named parts. A part that ends with an error turns its health red and is started again, with a backoff;
// the others go on. Parts stop in the reverse of the order in which they were started, within a deadline.
type supervisor struct {
	log zerolog.Logger

	mu     sync.Mutex
	health map[string]error
	parts  []*part
}

type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

func newSupervisor(log zerolog.Logger) *supervisor {
	return &supervisor{log: log, health: map[string]error{}}
}

// start runs a part until stop. run must return soon after its context ends.
func (s *supervisor) start(ctx context.Context, name string, run func(context.Context) error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, stop: cancel, done: make(chan struct{})}
	s.mu.Lock()
	s.parts = append(s.parts, p)
	s.mu.Unlock()
	s.set(name, nil)
	go func() {
		defer close(p.done)
		wait := backoff.NewExponentialBackOff()
		wait.InitialInterval, wait.MaxInterval = 200*time.Millisecond, 10*time.Second
		for own.Err() == nil {
			began := time.Now()
			well := time.AfterFunc(wellAfter, func() { s.set(name, nil) })
			err := run(own)
			well.Stop()
			if own.Err() != nil {
				return
			}
			if err == nil {
				err = errors.New("ended by itself")
			}
			s.set(name, err)
			s.log.Error().Err(err).Str("part", name).Msg("part ended; it is started again")
			if time.Since(began) > time.Minute {
				wait.Reset()
			}
			await.Elapsed(own, wait.NextBackOff())
		}
	}()
}

// wellAfter is how long a part that was started again must run until it counts as healthy.
const wellAfter = 5 * time.Second

func (s *supervisor) set(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health[name] = err
}

// check gives the health of a part, or of all parts of a role: "projector" is that and "projector-0", "projector-1", … Parts of a
// partition in except are left out.
func (s *supervisor) check(role string, except map[events.Partition]error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.health)) {
		if of, p := roleOf(name); of == role && s.health[name] != nil && (of == name || except[p] == nil) {
			errs = append(errs, fmt.Errorf("%s: %w", name, s.health[name]))
		}
	}
	return errors.Join(errs...)
}

// roles lists the roles of the parts.
func (s *supervisor) roles() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.health)) {
		if r, _ := roleOf(name); !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// roleOf splits the name of a part: into the role and the partition where it is one of several, else it is the role.
func roleOf(part string) (role string, p events.Partition) {
	role, number, ok := strings.Cut(part, "-")
	if n, err := strconv.Atoi(number); ok && err == nil {
		return role, events.Partition(n)
	}
	return part, 0
}

// stopAll stops the parts in reverse order. It gives an error naming those that did not end in time.
func (s *supervisor) stopAll(ctx context.Context) error {
	s.mu.Lock()
	parts := slices.Clone(s.parts)
	s.mu.Unlock()
	var errs []error
	for _, p := range slices.Backward(parts) {
		p.stop()
		select {
		case <-p.done:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("part %s did not stop in time", p.name))
		}
	}
	return errors.Join(errs...)
}
