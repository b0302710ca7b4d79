package notifier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// Opener reads what is sealed under data keys.
type Opener interface {
	Open(ctx context.Context, tenant string, s events.Sealed, aad []byte) ([]byte, error)
}

// Keys reads and seals under the data keys of messages.
type Keys interface {
	Opener
	SealBeside(ctx context.Context, tenant string, beside events.Sealed, aad, plaintext []byte) (events.Sealed, error)
}

// WorkerLog is what a Worker needs of the log beside a Fanout: it may change its endpoint's entry in the control plane.
type WorkerLog interface {
	Log
	LastBySubject(ctx context.Context, stream, subject string) (events.Recorded, error)
	AppendExpecting(ctx context.Context, ev events.Event, expected uint64) (uint64, error)
}

// Secrets opens secrets of CONTROL.
type Secrets interface {
	Open(ctx context.Context, entity string, s events.Sealed) ([]byte, error)
}

// Endpoints lists every endpoint there is, and tells of changes.
type Endpoints interface {
	Endpoints() []events.Endpoint
	Watch() (changed <-chan struct{}, stop func())
	// Await returns when the catalog has taken in the event of CONTROL at seq.
	Await(ctx context.Context, seq uint64) error
}

// Watched is a catalog whose endpoints can be watched.
type Watched interface {
	Catalog
	Endpoints
}

// DefaultWaits are the waits before the second and each further try: ten tries over about 76 hours.
func DefaultWaits() []time.Duration {
	return []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// WorkerSettings tune a Worker. Zero values take the defaults.
type WorkerSettings struct {
	Client        ClientSettings
	Waits         []time.Duration // before each further try; when they are used up the delivery is exhausted; DefaultWaits
	Jitter        float64         // part of a wait that is added at random, at most; 0.1, below 0 for none
	MaxRetryAfter time.Duration   // the longest wait that an endpoint may ask for; 1 h
	Concurrency   int             // tries at once to one endpoint, over all processes; 4
	AckWait       time.Duration   // a delivery comes again when its process has not been heard of for; 10 s
	Postpone      time.Duration   // a try that could not be made for reasons of ours is made again after; 5 s
	CallLimit     time.Duration   // for each look-up and append around a try; 20 s
	DisableAfter  int             // an endpoint is switched off when so many deliveries in a row ended without success; 20, below 0 never
	Logger        zerolog.Logger
	Metrics       *Metrics
}

// Worker makes the deliveries: one consumer for each endpoint, so that none waits for another. Several may run; they share the work.
type Worker struct {
	log      WorkerLog
	catalog  Watched
	keys     Keys
	secrets  Secrets
	settings WorkerSettings
	client   *client
	queued   *queuedCache
}

// NewWorker makes a worker.
func NewWorker(log WorkerLog, c Watched, keys Keys, secrets Secrets, s WorkerSettings) *Worker {
	if s.Waits == nil {
		s.Waits = DefaultWaits()
	}
	if s.Jitter == 0 {
		s.Jitter = 0.1
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&s.MaxRetryAfter, time.Hour}, {&s.Postpone, 5 * time.Second}, {&s.CallLimit, 20 * time.Second}, {&s.AckWait, 10 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if s.DisableAfter == 0 {
		s.DisableAfter = DisableAfter
	}
	if s.Concurrency <= 0 {
		s.Concurrency = 4
	}
	if s.Metrics == nil {
		s.Metrics = NewMetrics(nil)
	}
	return &Worker{
		log: log, catalog: c, keys: keys, secrets: secrets, settings: s, client: newClient(s.Client), queued: newQueuedCache(log),
	}
}

// DisableAfter is how many deliveries in a row that ended without success switch an endpoint off, unless WorkerSettings say otherwise.
const DisableAfter = 20

// EndpointDurable is the name of the consumer of an endpoint's deliveries.
func EndpointDurable(endpoint string) string { return "hook_" + endpoint }

// running is the consumer of one endpoint.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Run serves every active endpoint until ctx ends. The deliveries of an endpoint that is switched off wait; those of one that is
// removed are ended.
func (w *Worker) Run(ctx context.Context) error {
	defer w.client.close()
	changed, stop := w.catalog.Watch()
	defer stop()
	if !await.Closed(ctx, w.catalog.Ready()) {
		return ctx.Err()
	}
	serving := map[string]running{}
	defer func() { // all are told before any is waited for
		for _, r := range serving {
			r.cancel()
		}
		for _, r := range serving {
			<-r.done
		}
	}()
	failed := make(chan error, 1)
	for {
		w.reconcile(ctx, serving, failed)
		select {
		case <-changed:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reconcile starts and stops consumers as the catalog says.
func (w *Worker) reconcile(ctx context.Context, serving map[string]running, failed chan<- error) {
	off := map[string]bool{}
	var active []string
	for _, e := range w.catalog.Endpoints() {
		if off[e.ID] = !e.Active; e.Active {
			active = append(active, e.ID)
		}
	}
	for id, r := range serving {
		if off[id] { // one that is not there any more goes on, to end its deliveries
			r.cancel()
			<-r.done
			delete(serving, id)
		}
	}
	for _, id := range active {
		if _, there := serving[id]; !there {
			serving[id] = w.serve(ctx, id, failed)
		}
	}
}

func (w *Worker) serve(ctx context.Context, endpoint string, failed chan<- error) running {
	ctx, cancel := context.WithCancel(ctx)
	r := running{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		err := w.log.Consume(ctx, eventlog.DurableConfig{
			Stream: events.HooksStream(events.HookShard(endpoint)), Durable: EndpointDurable(endpoint),
			Filters: []string{events.HookSubject(endpoint)}, Among: events.HooksFilters(events.HookShard(endpoint))[0],
			Concurrency: w.settings.Concurrency, MaxAckPending: w.settings.Concurrency, AckWait: w.settings.AckWait,
			Grace: w.client.settings.Limit + w.settings.CallLimit,
		}, w.deliver)
		if err != nil && !errors.Is(err, context.Canceled) {
			select {
			case failed <- fmt.Errorf("serve endpoint %s: %w", endpoint, err):
			default: // the first one ends the worker
			}
		}
	}()
	return r
}

// endpoint gives an endpoint as it is now; another tenant's is never given.
func (w *Worker) endpoint(id, tenant string) (e events.Endpoint, ok bool) {
	w.catalog.Read(func(c *catalog.Catalog) { e, ok = c.Endpoint(id) })
	return e, ok && e.TenantID == tenant
}
