package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/dispatcher"
)

// What two dispatchers in processes of their own are measured at.
const (
	Resting  = "resting"  // what they hold and use while none of many instances has work
	Failover = "failover" // how long instances wait when one of the two is killed, and when it is stopped in order
)

const (
	restLimit     = 3 * time.Minute  // until the last instance is at rest
	restMeasured  = 20 * time.Second // over which processor time is counted
	failoverLimit = time.Minute      // of one round
	restarts      = 3                // rounds of each kind
	postTries     = 20               // of a message that only has to be there
	ticksPerSec   = 100              // of the processor times that Linux gives
)

// crew is the two dispatchers.
type crew struct {
	*rig
	binary string
	dir    string
	two    [2]*running
	leases *eventlog.Leases
}

// newCrew starts a deployment whose API runs in this process, and two dispatchers.
func newCrew(ctx context.Context, dir string, s Settings, log zerolog.Logger) (_ *crew, err error) {
	r, err := newRig(ctx, dir, s, log)
	if err != nil {
		return nil, err
	}
	r.cfg.NATSSync = string(natsserver.SyncAlways) // other processes append too
	c := &crew{rig: r, binary: s.Binary, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.end(ctx))
		}
	}()
	if err := r.start(ctx, app.RoleAPI); err != nil {
		return nil, err
	}
	c.leases = eventlog.NewLeases(r.app.Events(), topology.Deployment{Partitions: r.cfg.Partitions})
	for i := range c.two {
		if err := c.join(ctx, i); err != nil {
			return nil, err
		}
	}
	return c, c.both(ctx)
}

// join starts one of the two.
func (c *crew) join(ctx context.Context, i int) (err error) {
	c.two[i], err = run(ctx, c.binary, "dispatcher", "--log-level", "warn", "--data-dir", filepath.Join(c.dir, fmt.Sprintf("dispatcher-%d", i)),
		"--master-key-file", c.cfg.MasterKeyPath(), "--nats-url", c.app.URLs().NATS)
	if err != nil {
		return err
	}
	_, err = c.two[i].ready(ctx, startLimit)
	return err
}

// both waits until the two work in every partition.
func (c *crew) both(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, failoverLimit)
	defer cancel()
	_, err := dispatcher.AwaitServing(ctx, c.leases, c.cfg.Partitions, c.two[0].cmd.Process.Pid, c.two[1].cmd.Process.Pid)
	return err
}

func (c *crew) end(ctx context.Context) error {
	var err error
	for _, r := range c.two {
		if r != nil {
			err = errors.Join(err, r.stop())
		}
	}
	c.close(ctx)
	return err
}

// resting lets each of many instances send one message, waits until all are at rest, and says what a dispatcher holds and uses then:
// the larger figure of the two.
func resting(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) (err error) {
	s.Instances = s.Resting
	c, err := newCrew(ctx, dir, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end(ctx)) }()
	if err := c.once(ctx, s.Clients); err != nil {
		return err
	}
	if err := c.atRest(ctx); err != nil {
		return err
	}
	var before [2]time.Duration
	for i, r := range c.two {
		before[i] = r.processor()
	}
	began := time.Now()
	if !await.Elapsed(ctx, restMeasured) {
		return ctx.Err()
	}
	var rss, cpu, goroutines float64
	for i, r := range c.two {
		cpu = max(cpu, 100*(r.processor()-before[i]).Seconds()/time.Since(began).Seconds())
		resident, _ := Memory(r.pid())
		rss = max(rss, resident)
		n, err := r.metric(ctx, "go_goroutines")
		if err != nil {
			return err
		}
		goroutines = max(goroutines, n)
	}
	return say(Figure{"resting_instances", float64(s.Resting), "instances"}, Figure{"resting_rss", rss, "MiB"},
		Figure{"resting_cpu", cpu, "% of a core"}, Figure{"resting_goroutines", goroutines, "goroutines"})
}

// once has each instance send one message, and waits until all have left. Seconds without an answer of the API are no figure here.
func (c *crew) once(ctx context.Context, clients int) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(clients)
	for k := range c.n {
		g.Go(func() error {
			for tries := 0; ; tries++ {
				err := c.post(gctx, k, k)
				if err == nil || tries == postTries || !await.Elapsed(gctx, time.Second) {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("send from each instance: %w", err)
	}
	c.accepted = int64(c.n)
	return c.drain(ctx)
}

// atRest waits until neither of the two works for an instance.
func (c *crew) atRest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	for {
		busy := 0.0
		for _, r := range c.two {
			n, err := r.metric(ctx, "pilot_dispatcher_instances")
			if err != nil {
				return err
			}
			busy += n
		}
		if busy == 0 {
			return nil
		}
		if !await.Elapsed(ctx, time.Second) {
			return fmt.Errorf("%v instances are not at rest: %w", busy, context.Cause(ctx))
		}
	}
}

// failover ends one of the two, again and again, and sends from each instance that it worked for: how long after the end the gateway
// is called.
func failover(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) (err error) {
	c, err := newCrew(ctx, dir, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end(ctx)) }()
	if err := c.once(ctx, s.Clients); err != nil {
		return err
	}
	n := 0
	for _, kind := range []struct {
		name string
		by   syscall.Signal
	}{{"failover", syscall.SIGKILL}, {"restart", syscall.SIGTERM}} {
		var waited []time.Duration
		for round := range restarts {
			some, err := c.without(ctx, round%len(c.two), kind.by, &n)
			if err != nil {
				return fmt.Errorf("measure %s: %w", kind.name, err)
			}
			waited = append(waited, some...)
		}
		if err := say(Figure{kind.name + "_p50", ms(quantile(waited, 0.5)), "ms"}, Figure{kind.name + "_max", ms(slices.Max(waited)), "ms"}); err != nil {
			return err
		}
	}
	return nil
}

// without ends one of the two by a signal, measures, and starts it again; n counts messages.
func (c *crew) without(ctx context.Context, i int, by syscall.Signal, n *int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, failoverLimit)
	defer cancel()
	live, err := dispatcher.Live(ctx, c.leases)
	if err != nil {
		return nil, err
	}
	id, ok := dispatcher.OfProcess(live, c.two[i].cmd.Process.Pid)
	if !ok {
		return nil, errors.New("the dispatcher does not live")
	}
	first, before := *n, c.sim.Stats().Accepted
	began := time.Now()
	if err := c.two[i].cmd.Process.Signal(by); err != nil {
		return nil, fmt.Errorf("signal the dispatcher: %w", err)
	}
	g, gctx := errgroup.WithContext(ctx)
	for k := range c.n {
		if live.Owner(events.PartitionOf(instanceID(k), c.cfg.Partitions), instanceID(k)) == id {
			number := *n
			*n++
			g.Go(func() error { return c.post(gctx, k, number) })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if *n == first {
		return nil, errors.New("no instance was the dispatcher's")
	}
	var waited []time.Duration
	for k := first; k < *n; k++ {
		at, err := c.taken(ctx, fmt.Sprintf("Order %d is", k), before) // others with the text were sent to warm up
		if err != nil {
			return nil, err
		}
		waited = append(waited, at.Sub(began))
	}
	<-c.two[i].done
	c.two[i].cancel()
	if err := c.join(context.WithoutCancel(ctx), i); err != nil {
		return nil, err
	}
	return waited, c.both(ctx)
}

// processor is the processor time that a process has used; zero where the system does not say.
func (r *running) processor() time.Duration {
	raw, err := os.ReadFile("/proc/" + r.pid() + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:])) // the name before may hold anything
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSec
}

// metric reads a gauge without labels of the process.
func (r *running) metric(ctx context.Context, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("there is no metric %s", name), lines.Err())
}
