package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/roster"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
	"pilotstatus.dev/services/dispatcher"
)

// dispatcher starts one in a process of its own and waits until it is ready.
func (r *rig) dispatcher(bin string, more ...string) *process {
	r.t.Helper()
	addr := fixedAddr(r.t)
	p := &process{done: make(chan error, 1)}
	args := append([]string{
		"dispatcher", "--data-dir", r.t.TempDir(), "--log-level", "error",
		"--master-key-file", filepath.Join(r.cfg.DataDir, "master.key"), "--nats-url", r.app.URLs().NATS, "--metrics-addr", addr,
		"--partitions", fmt.Sprint(r.cfg.Partitions), "--intent-budget", "5s", "--send-limit", "10s", "--successor-wait", "12s",
		"--look-ups", "100ms,300ms", "--quiet", "50ms", "--presumed-after", "500ms",
	}, more...)
	p.cmd = exec.CommandContext(context.Background(), bin, args...)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	r.t.Cleanup(p.kill)
	eventually(r.t, "the dispatcher is ready", func() bool {
		status, _, err := call(r.t.Context(), http.MethodGet, "http://"+addr+"/readyz", "", nil)
		return err == nil && status == http.StatusOK
	}, nil)
	return p
}

// stop ends a process in order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := <-p.done
	p.done <- err // for the next who waits
	if err != nil {
		t.Errorf("it was told to stop: %v", err)
	}
}

// crew waits until so many dispatchers work in every partition.
func (r *rig) crew(n int) roster.Roster {
	r.t.Helper()
	leases := eventlog.NewLeases(r.app.Events(), topology.Deployment{Partitions: r.cfg.Partitions})
	var live roster.Roster
	eventually(r.t, fmt.Sprintf("%d dispatchers work", n), func() bool {
		var err error
		live, err = dispatcher.Live(r.t.Context(), leases)
		return err == nil && len(live.Members()) == n && !slices.ContainsFunc(live.Members(), func(m roster.Member) bool { return len(m.Serves) < r.cfg.Partitions })
	}, func() string { return fmt.Sprint(live.Members()) })
	return live
}

// Two dispatchers in processes of their own are stopped in order and started again, one after the other, under load: nothing waits, and
// nothing is sent twice. Then the one that works for the instance is killed: the other one goes on within 5 s.
func TestDispatchersAreRestartedAndKilled(t *testing.T) {
	t.Parallel()
	roles := slices.DeleteFunc(app.Roles(), func(role app.Role) bool { return role == app.RoleDispatcher })
	r := newRigOf(t, roles, nil)
	bin := buildPilot(t)
	// Those that are stopped in order have leases that take long to run out: who would wait for that is seen, whatever the machine does.
	one, two := r.dispatcher(bin, "--lease-ttl", "30s"), r.dispatcher(bin, "--lease-ttl", "30s")
	r.crew(2)
	var ids []string
	over := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			status, raw, err := call(t.Context(), http.MethodPost, r.app.URLs().API+"/v1/messages/send", r.keys.Own,
				map[string]any{"text": "restarted.", "destinationNumber": "+5511988887777"})
			var out struct {
				ID string `json:"id"`
			}
			if err == nil {
				err = json.Unmarshal(raw, &out)
			}
			if err != nil || status != http.StatusAccepted {
				t.Errorf("send: %d %s %v", status, raw, err)
				return
			}
			ids = append(ids, out.ID)
		}
	})
	eventually(t, "some left", func() bool { return r.ledger("restarted.") > 5 }, nil)
	one.stop(t)
	one = r.dispatcher(bin)
	r.crew(2)
	two.stop(t)
	two = r.dispatcher(bin)
	r.crew(2)
	close(over)
	load.Wait()
	for _, id := range ids {
		r.awaitStatus(id, "READ")
	}
	entries := r.sim.Ledger(evolutionsim.Filter{Text: "restarted."}).Entries
	if len(entries) != len(ids) {
		t.Errorf("%d messages left %d times", len(ids), len(entries))
	}
	slices.SortFunc(entries, func(a, b evolutionsim.Entry) int { return a.StartedAt.Compare(b.StartedAt) })
	gap := time.Duration(0)
	for i := range len(entries) - 1 {
		gap = max(gap, entries[i+1].StartedAt.Sub(entries[i].StartedAt))
	}
	if t.Logf("%d messages, %s between two at most", len(ids), gap); gap > 10*time.Second {
		t.Errorf("nothing was sent for %s", gap)
	}

	live := r.crew(2)
	owner := live.Owner(events.PartitionOf(demo.OwnInstanceID, r.cfg.Partitions), demo.OwnInstanceID)
	killed := one
	if id, _ := dispatcher.OfProcess(live, two.cmd.Process.Pid); id == owner {
		killed = two
	}
	still := awaittest.Watch(t)
	began := time.Now()
	killed.kill()
	id := r.send("after a kill.")
	r.awaitStatus(id, "READ")
	after := r.sim.Ledger(evolutionsim.Filter{Text: "after a kill."}).Entries
	if len(after) != 1 {
		t.Fatalf("it left %d times", len(after))
	}
	took, lost := after[0].StartedAt.Sub(began), still.Lost()
	t.Logf("the next call came %s after the kill, of which the machine stood still for %s", took, lost)
	if took-lost > 5*time.Second {
		t.Error("that is more than 5 s")
	}
}
