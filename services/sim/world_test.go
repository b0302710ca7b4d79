package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/notifier"
	"pilotstatus.dev/services/receipts"
)

// world is everything of one run.
type world struct {
	t      *testing.T
	plan   plan
	rec    *recorder
	logger zerolog.Logger
	net    *network

	dir     string
	host    *logHost
	wires   map[string]*wire   // by process
	astray  *natsserver.Server // holds the leases of dispatchers that went astray
	conns   []*nats.Conn
	js      jetstream.JetStream
	log     *eventlog.Log // of what watches and takes things down; its way breaks with the server only
	accepts *eventlog.Log // of the API
	keys    *keyring.Keyring
	secrets control.Secrets
	feed    *control.Feed

	gateways  []*gateway
	ingest    *ingestTap
	inHTTP    *http.Server
	inServed  chan struct{}
	receivers []*receiver
	fleet     *fleet

	calmed chan struct{} // closed when the end of the run begins in which it is quiet
	late   time.Duration // how much later than planned that was; known once calmed is closed

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	timers  sync.WaitGroup
}

// limit bounds everything that sets a run up or takes it down, in virtual time.
const limit = time.Minute

var deployment = topology.Deployment{Partitions: partitions, Replicas: 1}

// newWorld starts the parts that live for the whole run.
func newWorld(t *testing.T, p plan, dir string, logger zerolog.Logger) (*world, error) {
	w := &world{
		t: t, plan: p, rec: &recorder{}, logger: logger, net: newNetwork(), dir: dir, host: &logHost{open: map[*hostConn]struct{}{}}, wires: map[string]*wire{},
		calmed: make(chan struct{}),
	}
	w.rec.rec = recording{Seed: p.Seed, Began: time.Now(), Quiet: time.Now().Add(p.Length + quietAfter), Faults: map[string]int{}, Clocks: map[string]time.Duration{}}
	for range gateways {
		w.rec.rec.Asked = append(w.rec.rec.Asked, map[int]int{})
	}
	for _, name := range processes {
		w.wires[name] = newWire(w, name)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	if err := w.startServer(ctx); err != nil {
		return nil, err
	}
	var err error
	w.astray, err = natsserver.Start(ctx, natsserver.Config{StoreDir: filepath.Join(dir, "astray"), DontListen: true, Sync: natsserver.SyncDefault})
	if err != nil {
		return nil, err
	}
	js, err := w.connect(w.host, "main")
	if err != nil {
		return nil, err
	}
	api, err := w.connect(w.wires[processAPI], processAPI)
	if err != nil {
		return nil, err
	}
	if _, err := topology.Ensure(ctx, js, deployment); err != nil {
		return nil, err
	}
	w.js, w.log, w.accepts = js, w.logOver(js), w.logOver(api)
	if _, err := topology.EnsureDeployment(ctx, w.log, partitions, time.Now()); err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, topology.BucketKeys)
	if err != nil {
		return nil, err
	}
	master, err := keyring.CreateMaster(filepath.Join(dir, "master.json"))
	if err != nil {
		return nil, err
	}
	w.keys = keyring.New(kv, master, keyring.Options{CacheTTL: 10 * time.Minute})
	w.secrets = control.NewSecrets(w.keys)
	// Waits are longer than by default where they only poll: each costs wall time for every virtual day.
	w.feed = control.NewFeed(w.log, control.Settings{MaxAge: 2 * time.Minute, Probe: 20 * time.Second, Logger: logger})
	w.run("feed", w.feed.Run)
	if err := w.define(ctx); err != nil {
		return nil, err
	}
	if err := w.serveIngest(); err != nil {
		return nil, err
	}
	return w, w.startReaders()
}

// connect makes a connection of a process; it waits for a server that is down.
func (w *world) connect(way nats.InProcessConnProvider, name string) (jetstream.JetStream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*longestOutage)
	defer cancel()
	nc, err := natsserver.Connect(ctx, "", natsserver.Client{
		Name: name, Options: []nats.Option{nats.InProcessServer(way), nats.PingInterval(10 * time.Minute)},
	})
	if err != nil {
		return nil, err
	}
	w.conns = append(w.conns, nc)
	return jetstream.New(nc)
}

func (w *world) logOver(js jetstream.JetStream) *eventlog.Log {
	return eventlog.New(js, eventlog.Options{Logger: w.logger, Heartbeat: 30 * time.Second, Inactive: 5 * time.Minute, Stuck: time.Minute})
}

// run owns a goroutine that ends with the world.
func (w *world) run(name string, f func(context.Context) error) {
	w.running.Go(func() {
		if err := f(w.ctx); err != nil && !errors.Is(err, context.Canceled) {
			w.rec.fail(name, err)
		}
	})
}

// later does something after a while, if the run lasts so long.
func (w *world) later(d time.Duration, do func()) {
	w.timers.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			do()
		case <-w.ctx.Done():
		}
	})
}

// versions of the gateways: one that chooses the ids of messages, and one that is told them.
var versions = [gateways]string{"2.3.6", "2.4.0", "2.3.6"}

// define fills gateways and control plane.
func (w *world) define(ctx context.Context) error {
	for g := range gateways {
		gw, err := w.openGateway(w.ctx, fmt.Sprintf("gw-%d", g), evolutionsim.Options{
			Version: versions[g], SendTime: 700 * time.Millisecond, NoSaving: w.plan.NoSaving && g == calm-1,
			Receipts: evolutionsim.Receipts{ServerAck: time.Second, DeliveryAck: 5 * time.Second, Read: 90 * time.Second},
		})
		if err != nil {
			return err
		}
		w.gateways = append(w.gateways, gw)
	}
	author := control.Author{By: "sim"}
	for _, id := range append([]string{events.PlatformTenant}, tenants...) {
		if _, err := control.Define(ctx, w.log, events.KindTenant, id, events.Tenant{ID: id, Name: id}, author, 0); err != nil {
			return err
		}
		r := w.openReceiver("hook-" + id)
		sealed, err := w.secrets.Seal(ctx, r.host.name, []byte(r.secret))
		if err != nil {
			return err
		}
		if _, err := control.Define(ctx, w.log, events.KindEndpoint, r.host.name, events.Endpoint{
			ID: r.host.name, TenantID: id, URL: "http://" + r.host.name + "/", Environment: events.Live, Active: true, Events: []string{"*"},
			Secrets: []events.Sealed{sealed},
		}, author, 0); err != nil {
			return err
		}
	}
	for n := range instances {
		in, err := w.instance(ctx, n)
		if err != nil {
			return err
		}
		if _, err := control.Define(ctx, w.log, events.KindInstance, in.ID, in, author, 0); err != nil {
			return err
		}
		w.noteSetting(in)
	}
	last, err := w.log.LastSequence(ctx, events.StreamControl)
	if err != nil {
		return err
	}
	return w.feed.Await(ctx, last)
}

// instance pairs an instance at its gateway and seals what CONTROL keeps of it.
func (w *world) instance(ctx context.Context, n int) (events.Instance, error) {
	id, gw := instanceID(n), w.gatewayOf(n)
	ingress := control.Ingress{IngressSecret: events.IngressSecret{Token: "token-" + id, Secret: "secret-" + id}}
	err := gw.sim.AddInstance(evolutionsim.Instance{
		Name: id, Number: fmt.Sprintf("551190000%04d", n), Missing: missingNumbers(n),
		Webhook: &evolutionsim.Webhook{
			URL: "http://ingest" + receipts.Path + ingress.Token, Headers: map[string]string{receipts.SecretHeader: ingress.Secret},
			Enabled: true, Events: receipts.Subscribed(events.Instance{}),
		},
	})
	if err != nil {
		return events.Instance{}, err
	}
	in := events.Instance{ID: id, TenantID: tenantOf(n), Name: id, GatewayURL: gw.sim.URL(), Pace: paceOf(n)}
	in.Concurrency, in.MaxConcurrency = callsOf(n)
	in.Shared = in.TenantID == events.PlatformTenant
	if in.GatewayKey, err = w.secrets.Seal(ctx, id, []byte(gw.sim.APIKey())); err != nil {
		return events.Instance{}, err
	}
	return w.secrets.SealIngress(ctx, in, ingress)
}

func (w *world) serveIngest() error {
	js, err := w.connect(w.wires[processIngest], processIngest)
	if err != nil {
		return err
	}
	next := receipts.NewIngest(w.feed, w.secrets, w.keys, w.logOver(js), receipts.IngestSettings{Logger: w.logger})
	w.ingest = &ingestTap{w: w, mode: ingestUp, next: next}
	w.inHTTP, w.inServed = serve(w.net.listen("ingest"), w.ingest)
	return nil
}

// startReaders starts correlators and fan-outs, and makes room for dispatchers.
func (w *world) startReaders() error {
	for p := range events.Partition(partitions) {
		name := processFanout + p.String()
		w.wires[name].watch = w.seeDelivery
		js, err := w.connect(w.wires[name], name)
		if err != nil {
			return err
		}
		w.run("fan-out", notifier.NewFanout(w.logOver(js), w.feed, w.keys, p, notifier.FanoutSettings{Logger: w.logger}).Run)
		name = processCorrelator + p.String()
		if js, err = w.connect(w.wires[name], name); err != nil {
			return err
		}
		log := w.logOver(js)
		w.running.Go(func() { w.correlate(log, p) })
	}
	js, err := w.connect(w.wires[processWorker], processWorker)
	if err != nil {
		return err
	}
	log := w.logOver(js)
	w.running.Go(func() { w.deliver(log) })
	if js, err = w.connect(w.wires[processReconciler], processReconciler); err != nil {
		return err
	}
	reconciles, seen := w.logOver(js), newSeenViews()
	for p := range events.Partition(partitions) {
		w.run("views", func(ctx context.Context) error { return seen.follow(ctx, reconciles, p) })
	}
	w.running.Go(func() { w.reconcile(reconciles, seen) })
	w.fleet = newFleet(w)
	return nil
}

// correlate runs one correlator of a partition after the other: each dies after a few hours, with all it remembers.
func (w *world) correlate(log *eventlog.Log, p events.Partition) {
	for life := 1; w.ctx.Err() == nil; life++ {
		ctx, cancel := context.WithTimeout(w.ctx, time.Duration(life)*67*time.Minute)
		err := receipts.NewCorrelator(log, p, receipts.Settings{Sweep: 2 * time.Second, Logger: w.logger}).Run(ctx)
		cancel()
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			w.rec.fail("correlator", err)
			return
		}
	}
}

// close ends everything, in the order in which nothing misses what it needs.
func (w *world) close() error {
	w.fleet.close()
	w.cancel()
	w.timers.Wait()
	w.running.Wait()
	for _, g := range w.gateways {
		g.close()
	}
	for _, r := range w.receivers {
		r.close()
	}
	_ = w.inHTTP.Close() // repeats the listener's error
	<-w.inServed
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var errs []error
	for _, nc := range w.conns {
		errs = append(errs, natsserver.Drain(ctx, nc))
	}
	for _, wire := range w.wires {
		wire.cut() // a client leaves a connection behind whose greeting came too late
	}
	stop, ended := context.WithTimeout(context.Background(), limit)
	defer ended()
	errs = append(errs, w.host.set(nil).Stop(stop), w.astray.Stop(stop))
	pass(leftovers)
	return errors.Join(errs...)
}

// leftovers is how long libraries' goroutines may sleep that nobody waits for. A bubble's clock stands still as soon as its first
// function has returned, and one that still sleeps then is taken for stuck.
const leftovers = 5 * time.Minute
