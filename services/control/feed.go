package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/eventlog"
)

// Log is what a Feed reads.
type Log interface {
	Tail(ctx context.Context, cfg eventlog.TailConfig, handle func(context.Context, eventlog.Batch) error) error
	LastSequence(ctx context.Context, stream string) (uint64, error)
}

// Settings of a Feed. Zero values take the defaults.
type Settings struct {
	// MaxAge is how far behind CONTROL the catalog may be and still be current; 5 s.
	MaxAge time.Duration
	// Probe is how often the end of CONTROL is asked for; 1 s.
	Probe time.Duration
	// Logger hears of probes that got no answer.
	Logger zerolog.Logger
}

// Feed holds the catalog of this process. All methods are safe for concurrent use; Run is called once.
type Feed struct {
	log      Log
	settings Settings

	mu      sync.RWMutex
	catalog *catalog.Catalog

	state    sync.Mutex
	proved   time.Time     // the catalog held all of CONTROL as of then
	moved    chan struct{} // closed and replaced when the catalog moves
	watchers map[chan struct{}]struct{}

	ready     chan struct{}
	readyOnce sync.Once
}

// NewFeed makes a feed with an empty catalog; Run fills it.
func NewFeed(log Log, s Settings) *Feed {
	if s.MaxAge <= 0 {
		s.MaxAge = 5 * time.Second
	}
	if s.Probe <= 0 {
		s.Probe = time.Second
	}
	return &Feed{
		log: log, settings: s, catalog: catalog.New(), moved: make(chan struct{}),
		watchers: map[chan struct{}]struct{}{}, ready: make(chan struct{}),
	}
}

// Run follows CONTROL until ctx ends or the log cannot be read any more, and gives the reason.
func (f *Feed) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var probing sync.WaitGroup
	defer probing.Wait()
	defer cancel()
	probing.Go(func() { f.probe(ctx) })
	err := f.log.Tail(ctx, eventlog.TailConfig{Stream: events.StreamControl, From: f.sequence() + 1}, func(_ context.Context, b eventlog.Batch) error {
		f.apply(b.Events)
		if b.CaughtUp {
			f.readyOnce.Do(func() { close(f.ready) })
		}
		return nil
	})
	return fmt.Errorf("follow control: %w", err)
}

// Ready is closed when the catalog first reached the end of CONTROL.
func (f *Feed) Ready() <-chan struct{} { return f.ready }

// Read calls use with the catalog. use must be quick and keep nothing but values; it must not call the feed again.
func (f *Feed) Read(use func(*catalog.Catalog)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	use(f.catalog)
}

// Current gives nil while the catalog is at most Settings.MaxAge behind CONTROL, else an error of events.CodeUnavailable: nothing
// may be accepted or started then.
func (f *Feed) Current() error {
	f.state.Lock()
	proved := f.proved
	f.state.Unlock()
	if !proved.IsZero() && time.Since(proved) <= f.settings.MaxAge {
		return nil
	}
	return events.Errorf(events.CodeUnavailable, "the control plane is not up to date here; try again")
}

// Await waits until the catalog has taken in the event of CONTROL at seq, for who must read its own write.
func (f *Feed) Await(ctx context.Context, seq uint64) error {
	for {
		f.state.Lock()
		moved := f.moved
		f.state.Unlock()
		if f.sequence() >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("await control at %d: %w", seq, ctx.Err())
		}
	}
}

// Watch gives a channel that holds a value when the catalog changed since the last receive; changes are not counted. stop ends it.
func (f *Feed) Watch() (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	f.state.Lock()
	defer f.state.Unlock()
	f.watchers[c] = struct{}{}
	return c, func() {
		f.state.Lock()
		defer f.state.Unlock()
		delete(f.watchers, c)
	}
}

// Endpoints lists every customer endpoint of every tenant by id, those switched off too.
func (f *Feed) Endpoints() (all []events.Endpoint) {
	f.Read(func(c *catalog.Catalog) { all = c.Endpoints() })
	return all
}

func (f *Feed) sequence() uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.catalog.Sequence
}

func (f *Feed) apply(recs []events.Recorded) {
	if len(recs) == 0 {
		return
	}
	f.mu.Lock()
	for _, rec := range recs {
		f.catalog.Apply(rec)
	}
	f.mu.Unlock()
	f.state.Lock()
	defer f.state.Unlock()
	close(f.moved)
	f.moved = make(chan struct{})
	for c := range f.watchers {
		select {
		case c <- struct{}{}:
		default: // it has not looked since the last change
		}
	}
}

// probe proves again and again that the catalog holds all of CONTROL. A tail that hears nothing cannot tell a quiet log from a
// lost one.
func (f *Feed) probe(ctx context.Context) {
	tick := time.NewTicker(f.settings.Probe)
	defer tick.Stop()
	for {
		if err := f.prove(ctx); err != nil && ctx.Err() == nil {
			f.settings.Logger.Warn().Err(err).Msg("control is not up to date")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *Feed) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.settings.MaxAge)
	defer cancel()
	asked := time.Now()
	last, err := f.log.LastSequence(ctx, events.StreamControl)
	if err != nil {
		return err
	}
	if err := f.Await(ctx, last); err != nil {
		return err
	}
	f.state.Lock()
	defer f.state.Unlock()
	f.proved = asked
	return nil
}
