package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/loopback"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
)

// Limits of the processes, short, so that what takes minutes in production is seen in seconds. They keep their order: the
// budget of an intent, the limit of a call, the wait of a successor.
const (
	budget        = time.Second
	callLimit     = 2 * time.Second
	successorWait = 2500 * time.Millisecond
	absentAfter   = 4 * time.Second // the gateway takes 20 ms for a send, one at a time
	absentApart   = time.Second
	leaseTTL      = 3 * time.Second // the dispatcher's own
	window        = 25 * time.Second
	presumedAfter = time.Second
	partitions    = 2
	ackOverdue    = time.Second
	endsMargin    = 4 * time.Second // dispatchers have them first
	snapshotEvery = 10              // events: each trial passes several
	claimWait     = time.Second     // an operator's retry without an answer is repeated
)

// deployment is everything of one seed. This process holds the NATS server and the customer's receiver, and follows the log;
// everything else is a process of its own.
type deployment struct {
	binary, dir string
	log         zerolog.Logger
	logFile     *os.File

	platform *app.App // NATS, no role
	postgres *postgres.Managed
	receiver *demo.Receiver
	chain    *chain
	follow   sync.WaitGroup
	unfollow context.CancelFunc

	api, ingest string // addresses
	sim         string // URL
	front       *front // before it
	keys        []string
	operator    string // key
	procs       map[string]*process
	starts      map[string]int // of each process, to name their logs
	lives       []*process     // of all roles, those that have ended too

	load         *load
	kills, stops []span // of processes
	refusals     []span // in which the gateway answered that it, or an instance, cannot be used
}

// span is a time in which something happened.
type span struct{ from, to time.Time }

// deploy starts everything; what was started is ended again when something fails.
func deploy(ctx context.Context, binary, dir string) (_ *deployment, err error) {
	d := &deployment{binary: binary, dir: dir, procs: map[string]*process{}, starts: map[string]int{}, unfollow: func() {}}
	defer func() {
		if err != nil {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			err = errors.Join(err, d.close(bounded))
		}
	}()
	if d.logFile, err = os.Create(filepath.Join(dir, "harness.log")); err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	d.log = zerolog.New(d.logFile).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	if d.postgres, err = postgres.Start(ctx, postgres.ManagedConfig{
		DataDir: filepath.Join(dir, "postgres"), Logger: d.log,
		Parameters: map[string]string{"fsync": "off", "synchronous_commit": "off", "max_connections": "200", "shared_buffers": "32MB"},
	}); err != nil {
		return nil, err
	}
	cfg, err := app.Defaults()
	if err != nil {
		return nil, err
	}
	cfg.Local(filepath.Join(dir, "platform"))
	cfg.NATSSync, cfg.Partitions = "default", partitions // no power is cut here
	if d.platform, err = app.Start(ctx, cfg, nil, d.log); err != nil {
		return nil, err
	}
	if d.receiver, err = demo.StartReceiver(ctx, "127.0.0.1:0", d.log); err != nil {
		return nil, err
	}
	if err := d.startSim(ctx); err != nil {
		return nil, err
	}
	if d.front, err = startFront(ctx, d.sim); err != nil {
		return nil, err
	}
	if err := d.define(ctx); err != nil {
		return nil, err
	}
	d.followLog(ctx)
	fixed, err := loopback.Addresses(ctx, 2)
	if err != nil {
		return nil, err
	}
	d.api, d.ingest = fixed[0].String(), fixed[1].String()
	d.load = newLoad("http://"+d.api, d.keys, d.operator)
	for _, name := range []string{"projector", "correlator", "notifier", "dispatcher-1", "dispatcher-2", "reconciler", "ingest", "api"} {
		if err := d.start(ctx, name, ""); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// start runs a role and waits until it is up. The role is the name up to a hyphen.
func (d *deployment) start(ctx context.Context, name, arm string) error {
	p, err := d.launch(name, arm)
	if err != nil {
		return err
	}
	_, err = p.await(ctx, `"message":"started"`, 30*time.Second)
	return err
}

// launch runs a role, and does not wait.
func (d *deployment) launch(name, arm string) (*process, error) {
	role, _, _ := strings.Cut(name, "-")
	d.starts[name]++
	p, err := spawn(d.binary, d.dir, fmt.Sprintf("%s.%d", name, d.starts[name]), arm, role,
		"--data-dir", filepath.Join(d.dir, name), "--master-key-file", filepath.Join(d.dir, "platform", "master.key"),
		"--nats-url", d.platform.URLs().NATS, "--partitions", fmt.Sprint(partitions), "--postgres-url", d.postgres.URL(),
		"--http-addr", d.api, "--ingest-addr", d.ingest, "--allow-loopback-endpoints", "--burst-rate=-1", "--claim-wait", claimWait.String(),
		"--intent-budget", budget.String(), "--send-limit", callLimit.String(), "--successor-wait", successorWait.String(),
		"--look-ups", "200ms,600ms", "--absent-after", absentAfter.String(), "--absent-apart", absentApart.String(), "--quiet", "100ms", "--presumed-after", presumedAfter.String(), "--probe-every", "500ms",
		"--reconcile-every", "500ms", "--ack-overdue", ackOverdue.String(), "--ends-margin", endsMargin.String(), "--hook-waits", "500ms,1s,2s,5s", "--receipts-grace", "2s", "--snapshot-every", fmt.Sprint(snapshotEvery), "--log-level", "info", "--log-format", "json",
	)
	if err != nil {
		return nil, err
	}
	d.procs[name], d.lives = p, append(d.lives, p)
	return p, nil
}

// leave ends a process in order, where it runs.
func (d *deployment) leave(ctx context.Context, name string) error {
	p := d.procs[name]
	if p == nil {
		return nil
	}
	delete(d.procs, name)
	return p.stop(ctx)
}

func (d *deployment) startSim(ctx context.Context) error {
	args := []string{
		"evolutionsim", "--addr", "127.0.0.1:0", "--server-ack", "20ms", "--delivery", "60ms", "--read", "120ms", "--send-time", "20ms",
	}
	for i := range instances {
		args = append(args, "--instances", fmt.Sprintf("%s=551190000%04d", instanceID(i), i))
	}
	p, err := spawn(d.binary, d.dir, "evolutionsim", "", args...)
	if err != nil {
		return err
	}
	d.procs["evolutionsim"] = p
	line, err := p.await(ctx, simGreeting, 30*time.Second)
	if err != nil {
		return err
	}
	d.sim = strings.Fields(line[strings.Index(line, simGreeting)+len(simGreeting):])[0]
	return nil
}

const simGreeting = "simulated gateway at "

// followLog folds the log as it grows.
func (d *deployment) followLog(ctx context.Context) {
	ctx, d.unfollow = context.WithCancel(ctx)
	d.chain = newChain()
	for _, p := range d.platform.Partitions() {
		d.follow.Go(func() { d.chain.fail(d.chain.follow(ctx, d.platform.Events(), p)) })
	}
}

// order is in which processes are ended: those that bring work first.
var order = []string{"api", "dispatcher-1", "dispatcher-2", visitor, "reconciler", "ingest", "correlator", "notifier", "projector", "evolutionsim"}

// close ends everything, processes that hang as well.
func (d *deployment) close(ctx context.Context) error {
	var errs []error
	for _, name := range order {
		if p := d.procs[name]; p != nil {
			_ = p.signal(syscall.SIGCONT) // it may be stopped
			errs = append(errs, p.stop(ctx))
		}
	}
	d.unfollow()
	d.follow.Wait()
	if d.load != nil {
		d.load.close()
	}
	if d.front != nil {
		errs = append(errs, d.front.close())
	}
	if d.receiver != nil {
		errs = append(errs, d.receiver.Close(ctx))
	}
	if d.platform != nil {
		errs = append(errs, d.platform.Stop(ctx))
	}
	if d.postgres != nil {
		errs = append(errs, d.postgres.Remove(ctx))
	}
	if d.logFile != nil {
		errs = append(errs, d.logFile.Close())
	}
	return errors.Join(errs...)
}

// warmUp sends from every instance until its receipts come: the gateway knows where to post, numbers are cached.
func (d *deployment) warmUp(ctx context.Context) error {
	for i := range instances {
		ok := false
		for range 10 {
			id, err := d.load.post(ctx, i, fmt.Sprintf("warm up %d at %s", i, time.Now().Format(time.StampNano)), events.ClassUtility, 0)
			if err != nil {
				return fmt.Errorf("warm up: %w", err)
			}
			if ok = d.chain.wait(ctx, 5*time.Second, func() bool { return d.chain.at([]string{id}, isRead) }) == nil; ok {
				break
			}
		}
		if !ok {
			return fmt.Errorf("warm up: no receipts of instance %d", i)
		}
	}
	return nil
}

// visitor is a third dispatcher that joins and leaves.
const visitor = "dispatcher-3"

// of lists the processes of a role that always run.
func of(role string) []string {
	return slices.DeleteFunc(slices.Clone(order), func(name string) bool {
		r, _, _ := strings.Cut(name, "-")
		return r != role || name == visitor
	})
}
