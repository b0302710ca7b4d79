// Package reconciler finds what should have become of messages by now and did not: receipts that never came are asked for at the
// gateway and then said to be missing, and messages that no dispatcher ends are ended.
//
// It promises that nothing is sent again, that an act on a picture that has changed since is dropped, and that it acts only after
// everybody else had time to (docs/architecture.md). Candidates come from the views; what is done about them is decided from the
// log. Several may run: one of them holds a lease, which saves work; ids and the fence are what keeps two from harm.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/events/silence"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/projections/views"
)

// source names the reconciler in envelopes.
const source = "pilot/reconciler"

// Views names candidates, each with the checkpoint that the answer is of.
type Views interface {
	Unacknowledged(ctx context.Context, p events.Partition, before time.Time, perInstance int, reached []views.Reached) ([]views.Awaited, error)
	Undelivered(ctx context.Context, p events.Partition, before time.Time, perInstance int, reached []views.Reached) ([]views.Awaited, error)
	Unended(ctx context.Context, p events.Partition, before, unknownBefore time.Time, perInstance int, reached []views.Reached) ([]views.Awaited, error)
	Overdue(ctx context.Context, p events.Partition, limit int) (int, error)
	WaitFor(ctx context.Context, p events.Partition, seq uint64) error
}

// Reader reads the log, at its leader.
type Reader interface {
	Get(ctx context.Context, stream string, seq uint64) (events.Recorded, error)
	ReadGroup(ctx context.Context, p events.Partition, instance string, after uint64) ([]events.Recorded, uint64, error)
	ReadReceipts(ctx context.Context, p events.Partition, instance string, after uint64) ([]events.Recorded, uint64, error)
	LastSequence(ctx context.Context, stream string) (uint64, error)
	Clock(ctx context.Context, stream string) (time.Time, error)
}

// Appender appends to it.
type Appender interface {
	Append(ctx context.Context, ev events.Event) (eventlog.Ack, error)
	AppendSeen(ctx context.Context, ev events.Event, filter string, seen uint64) (eventlog.Ack, error)
	AppendFenced(ctx context.Context, p events.Partition, instance string, ev events.Event, expected uint64) (uint64, error)
}

// Log is what the reconciler needs of the log.
type Log interface {
	Reader
	Appender
}

// Leases hold the one lease of reconciling.
type Leases interface {
	Acquire(ctx context.Context, key, owner string, ttl time.Duration) (*eventlog.Lease, error)
}

// Catalog is the control plane as this process knows it.
type Catalog interface {
	Read(use func(*catalog.Catalog))
}

// Gateway asks the gateway of an instance which status words it has stored of a message.
type Gateway interface {
	Statuses(ctx context.Context, in events.Instance, keyID string) ([]string, error)
}

// Settings tune a Reconciler. Zero values take the defaults.
type Settings struct {
	ID            string        // of this process, new with each start; drawn when empty
	Every         time.Duration // from the end of one round to the next; 15 s
	Silence       silence.Rules // DefaultRules where zero
	Ends          queue.Rules   // the rules of ends, as dispatchers have them; DefaultRules where zero
	Margin        time.Duration // an end is a dispatcher's until this long after it is due; 2 min
	SuccessorWait time.Duration // an open start is called unknown after it was seen for this long; 20 s
	AskLimit      time.Duration // for one question to a gateway; 10 s
	AskEvery      time.Duration // from one question to a gateway to the next; 200 ms
	AskRound      int           // questions about one instance in a round; 20
	PerInstance   int           // candidates of one instance in a round, of each kind; 500
	BackoffMin    time.Duration // a gateway, or instance, that did not answer is left alone for, doubled each time; 15 s
	BackoffMax    time.Duration // 10 min
	CallLimit     time.Duration // for one question to the views or the log; 10 s
	RoundLimit    time.Duration // for the questions to gateways in a round; 1 min
	LeaseTTL      time.Duration // whole seconds; 3 s
	Logger        zerolog.Logger
	Metrics       *Metrics
}

func (s Settings) withDefaults() Settings {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&s.Every, 15 * time.Second},
		{&s.Margin, 2 * time.Minute},
		{&s.SuccessorWait, 20 * time.Second},
		{&s.AskLimit, 10 * time.Second},
		{&s.AskEvery, 200 * time.Millisecond},
		{&s.BackoffMin, 15 * time.Second},
		{&s.BackoffMax, 10 * time.Minute},
		{&s.CallLimit, 10 * time.Second},
		{&s.RoundLimit, time.Minute},
		{&s.LeaseTTL, 3 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if s.AskRound <= 0 {
		s.AskRound = 20
	}
	if s.PerInstance <= 0 {
		s.PerInstance = 500
	}
	if s.Silence == (silence.Rules{}) {
		s.Silence = silence.DefaultRules()
	}
	if s.Ends.Attempts == nil {
		s.Ends = queue.DefaultRules()
	}
	if s.ID == "" {
		s.ID = uuid.NewString()
	}
	if s.Metrics == nil {
		s.Metrics = NewMetrics(nil)
	}
	return s
}

// Reconciler works through the partitions, round after round.
type Reconciler struct {
	log        Log
	views      Views
	catalog    Catalog
	gateway    Gateway
	leases     Leases
	partitions []events.Partition
	set        Settings

	mu    sync.Mutex
	asks  map[question]asked
	quiet map[string]backoff // gateways and instances that did not answer, by URL or id

	reached map[listing]map[string]views.Reached // how far each list was looked at, by instance

	seen map[string]time.Time // open starts by nonce, since when they are seen
	down bool                 // the last round could not read the views
}

// New makes one; Run runs it, once.
func New(log Log, v Views, c Catalog, g Gateway, l Leases, partitions []events.Partition, s Settings) *Reconciler {
	return &Reconciler{
		log: log, views: v, catalog: c, gateway: g, leases: l, partitions: partitions, set: s.withDefaults(),
		asks: map[question]asked{}, quiet: map[string]backoff{}, seen: map[string]time.Time{},
		reached: map[listing]map[string]views.Reached{},
	}
}

// leaseKey is the one lease of reconciling.
const leaseKey = "recon.leader"

// Run reconciles while it holds the lease, until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	every := r.set.LeaseTTL / 3
	for ctx.Err() == nil {
		lease, err := r.leases.Acquire(ctx, leaseKey, r.set.ID, r.set.LeaseTTL)
		if err != nil {
			if !errors.Is(err, eventlog.ErrLeaseHeld) && ctx.Err() == nil {
				r.set.Logger.Warn().Err(err).Msg("lease of reconciling")
			}
			await.Elapsed(ctx, every)
			continue
		}
		r.lead(ctx, lease, every)
	}
	return fmt.Errorf("reconcile: %w", ctx.Err())
}

// errLost ends the rounds of a reconciler whose lease is gone.
var errLost = errors.New("the lease of reconciling is lost")

// lead works as long as the lease holds.
func (r *Reconciler) lead(ctx context.Context, lease *eventlog.Lease, every time.Duration) {
	r.set.Metrics.leading.Set(1)
	defer r.set.Metrics.leading.Set(0)
	group, work := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			r.round(work)
			if !await.Elapsed(work, r.set.Every) {
				return work.Err()
			}
		}
	})
	group.Go(func() error {
		renewed := time.Now()
		for await.Elapsed(work, every) {
			err := lease.Renew(work)
			if err == nil {
				renewed = time.Now()
			} else if errors.Is(err, eventlog.ErrLeaseLost) || time.Since(renewed) > r.set.LeaseTTL {
				return errors.Join(errLost, err)
			}
		}
		return work.Err()
	})
	if err := group.Wait(); errors.Is(err, errLost) {
		r.set.Logger.Warn().Err(err).Msg("another reconciler may work now")
		return
	}
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := lease.Release(free); err != nil {
		r.set.Logger.Warn().Err(err).Msg("release lease of reconciling")
	}
}

// round goes through everything once: ends first, since they are promised and ask nobody.
func (r *Reconciler) round(ctx context.Context) {
	var todo []*silent
	var pages []page
	var errs []error
	overdue := 0
	for _, p := range r.partitions {
		now, err := r.current(ctx, p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.ends(ctx, p, now))
		found, from, n, err := r.silent(ctx, p, now)
		todo, pages, overdue, errs = append(todo, found...), append(pages, from...), overdue+n, append(errs, err)
	}
	r.breakSilence(ctx, todo)
	later := map[string]bool{}
	for _, s := range todo {
		later[s.ID] = s.later
	}
	for _, p := range pages {
		r.advance(p, later)
	}
	err := errors.Join(errs...)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if r.down {
			r.set.Logger.Info().Msg("reconciling goes on")
		}
		r.down = false
		r.set.Metrics.overdue.Set(float64(overdue))
		r.set.Metrics.round.SetToCurrentTime()
	case !r.down: // said once: it waits for as long as it takes
		r.down = true
		r.set.Logger.Warn().Err(err).Msg("reconciling waits for the views and the log")
	}
}

// overdueCounted bounds the count of overdue messages of a partition.
const overdueCounted = 100_000

// current waits a moment until the views have read what the log holds now, and gives the time by the log's clock: a machine whose
// clock is wrong must not end a message early.
func (r *Reconciler) current(ctx context.Context, p events.Partition) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, r.set.CallLimit)
	defer cancel()
	last, err := r.log.LastSequence(ctx, events.EventsStream(p))
	if err == nil && last > 0 {
		err = r.views.WaitFor(ctx, p, last)
	}
	var now time.Time
	if err == nil {
		now, err = r.log.Clock(ctx, events.EventsStream(p))
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("partition %s: %w", p, err)
	}
	return now, nil
}
