package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/courtesy"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/snapshots"
)

// Catalog is the control plane as this process knows it.
type Catalog interface {
	Read(func(*catalog.Catalog))
	// Watch gives a channel that gets a value after changes; several changes may give one. stop ends it.
	Watch() (changed <-chan struct{}, stop func())
	// Current gives an error while the catalog is too far behind CONTROL to start anything by it.
	Current() error
}

// Keys unseals what the dispatcher must read, payloads of messages and gateway keys, and hashes what it must not write.
type Keys interface {
	OpenPayload(ctx context.Context, tenant, messageID string, s events.Sealed) ([]byte, error)
	OpenSecret(ctx context.Context, entity string, s events.Sealed) ([]byte, error)
	HashJID(ctx context.Context, tenant, jid string) (string, error)
	HashText(ctx context.Context, tenant, text string) (string, error)
}

// Dispatcher folds the partitions that are its own to fold, and runs the actors of the instances that it owns.
type Dispatcher struct {
	set      Settings
	leases   *eventlog.Leases
	catalog  Catalog
	keys     Keys
	gateways *gateways
	outages  *outages
	log      zerolog.Logger
	metrics  *Metrics
	faultsMu sync.Mutex
	faults   map[string]queue.Hold
	parts    []*partition
	holds    atomic.Pointer[holds]

	members *membership
	view    atomic.Pointer[view] // nil until who lives is known
	viewed  chan struct{}        // guarded by members.mu: closed with the next change of the view
	lived   bool                 // guarded by members.mu: what the view said of this process when it was made

	snapshots  Snapshots
	witness    Witness
	checkpoint func(context.Context, events.Partition) (snapshots.Mark, error)
	courtesy   Courtesy
}

// Config is what a dispatcher is made of.
type Config struct {
	Settings Settings
	Logs     []*eventlog.Log // of each partition, by its number; they may be one
	Leases   *eventlog.Leases
	Catalog  Catalog
	Keys     Keys
	// Gateway makes the client of a gateway; its limits and buffers are the caller's choice.
	Gateway func(url, apikey string) (*evolution.Client, error)
	Logger  zerolog.Logger
	Metrics *Metrics // may be nil
	// Snapshots and Witness remember how far the log was folded; nil: each start reads it from the first event, and a log that
	// lost events is not noticed.
	Snapshots Snapshots
	Witness   Witness
	// Courtesy hears of codes that are on their way, so that work in the background lets them go first. May be nil.
	Courtesy Courtesy
	// Checkpoint gives the place up to which a view has read a partition, and the id there where it is known: asked at the start,
	// and passed over when it cannot answer. May be nil.
	Checkpoint func(context.Context, events.Partition) (snapshots.Mark, error)
}

// Courtesy hears that a code comes which this process will call for, and which messages have left, or will not leave now, as
// *courtesy.Courtesy does.
type Courtesy interface {
	Comes(id string)
	Left(id string)
}

// New makes a dispatcher; Run starts it.
func New(c Config) *Dispatcher {
	d := &Dispatcher{
		set: c.Settings.withDefaults(), leases: c.Leases, catalog: c.Catalog, keys: c.Keys,
		faults: map[string]queue.Hold{}, viewed: make(chan struct{}),
		log: c.Logger.With().Str("role", "dispatcher").Logger(), snapshots: c.Snapshots, witness: c.Witness, checkpoint: c.Checkpoint,
		courtesy: c.Courtesy,
	}
	if d.courtesy == nil {
		d.courtesy = (*courtesy.Courtesy)(nil)
	}
	if d.set.Rules.Weight == nil {
		d.set.Rules.Weight = d.weight
	}
	if d.metrics = c.Metrics; d.metrics == nil {
		d.metrics = NewMetrics(nil)
	}
	d.members = newMembership(d)
	d.gateways = newGateways(func(ctx context.Context, inst events.Instance) (string, error) {
		bounded, cancel := context.WithTimeout(ctx, d.set.AppendTry)
		defer cancel()
		key, err := d.keys.OpenSecret(bounded, inst.ID, inst.GatewayKey)
		return string(key), err
	}, c.Gateway)
	d.outages = newOutages(func(id string) string {
		inst, _ := d.instance(id)
		return inst.GatewayURL
	}, d.behind, d.served, func(n int) { d.metrics.gateways.Set(float64(n)) }, d.set.ResumeSpread)
	for n, log := range c.Logs {
		d.parts = append(d.parts, newPartition(d, events.Partition(n), log))
		d.outages.unread[events.Partition(n)] = time.Time{}
	}
	return d
}

// Run folds and dispatches until ctx ends, then lets every turn end: a call under way is cut by its context and its outcome
// is left to the next life.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.gateways.close()
	d.holds.Store(readHolds(d.catalog))
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range d.parts {
		g.Go(func() error { p.serve(ctx); return nil })
		g.Go(func() error { d.followParks(ctx, p); return nil })
	}
	g.Go(func() error { d.awaitParks(ctx); return nil })
	g.Go(func() error { return d.members.announce(ctx) })
	g.Go(func() error { return d.members.watch(ctx) })
	g.Go(func() error { return d.follow(ctx) })
	d.gateways.moved.Store(true)
	g.Go(func() error { return d.askVersions(ctx) })
	g.Go(func() error {
		changes, stop := d.catalog.Watch()
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-changes:
				d.holds.Store(readHolds(d.catalog))
				d.outages.moved(d.instances(), d.set.Now())
				d.gateways.moved.Store(true)
				d.gateways.look()
				d.wakeAll(ctx)
			}
		}
	})
	return g.Wait()
}

// Ready says why the dispatcher is not ready, of every partition that is its own to fold and is not; nil when all are.
func (d *Dispatcher) Ready() error {
	by, err := d.Unready()
	errs := []error{err}
	for _, p := range d.parts {
		errs = append(errs, by[p.n])
	}
	return errors.Join(errs...)
}

// Unready is Ready by partition; the error says that it is not known which are this dispatcher's.
func (d *Dispatcher) Unready() (map[events.Partition]error, error) {
	if d.view.Load() == nil {
		return nil, errors.New("it is not known yet which dispatchers live")
	}
	by := map[events.Partition]error{}
	for _, p := range d.parts {
		if !p.folds() {
			continue
		}
		if err := p.ready(); err != nil {
			by[p.n] = err
		}
	}
	return by, nil
}

// faulted remembers which instances are stopped for a fault in their log.
func (d *Dispatcher) faulted(instance string, held queue.Hold) {
	d.faultsMu.Lock()
	defer d.faultsMu.Unlock()
	if held == queue.HoldBroken || held == queue.HoldUnreadable {
		d.faults[instance] = held
	} else {
		delete(d.faults, instance)
	}
	d.metrics.faulty.Set(float64(len(d.faults)))
}

// Faults gives an error while instances are stopped for a fault in their log; the others go on.
func (d *Dispatcher) Faults() error {
	d.faultsMu.Lock()
	defer d.faultsMu.Unlock()
	if n := len(d.faults); n > 0 {
		return fmt.Errorf("%d instances are stopped: their fenced events cannot be trusted", n)
	}
	return nil
}

// forgetFaults forgets the stopped instances of a partition that is others' now.
func (d *Dispatcher) forgetFaults(p events.Partition) {
	d.faultsMu.Lock()
	defer d.faultsMu.Unlock()
	maps.DeleteFunc(d.faults, func(id string, _ queue.Hold) bool { return events.PartitionOf(id, len(d.parts)) == p })
	d.metrics.faulty.Set(float64(len(d.faults)))
}

// Leading reports that this process lives, as the others see it, and works in some partition.
func (d *Dispatcher) Leading() bool { return d.leads() }

func (d *Dispatcher) wakeAll(ctx context.Context) {
	for _, p := range d.parts {
		p.wakeAll(ctx)
	}
}

func (d *Dispatcher) instance(id string) (events.Instance, bool) {
	var inst events.Instance
	var ok bool
	d.catalog.Read(func(c *catalog.Catalog) { inst, ok = c.Instance(id) })
	return inst, ok
}

// instances counts the instances of each gateway, by its URL.
func (d *Dispatcher) instances() map[string]int {
	n := map[string]int{}
	d.catalog.Read(func(c *catalog.Catalog) {
		for _, i := range c.Instances() {
			n[i.GatewayURL]++
		}
	})
	return n
}

// draw gives a number in [0,1) for jitter.
func (d *Dispatcher) draw() float64 { return rand.Float64() } //nolint:gosec // jitter, not a secret
