package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/loopback"
	"pilotstatus.dev/infra/topology"
)

// newCluster is a world over some servers, three copies of every stream, and the servers by their names.
func newCluster(t *testing.T, size int) (*world, map[string]*node) {
	t.Helper()
	addrs, err := loopback.Addresses(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	var routes []*url.URL
	for _, a := range addrs {
		routes = append(routes, &url.URL{Scheme: "nats", Host: a.String()})
	}
	nodes := map[string]*node{}
	for i, a := range addrs {
		name := fmt.Sprintf("n%d", i)
		srv, err := server.NewServer(&server.Options{
			ServerName: name, Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: int(a.Port())}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		n := &node{t: t, srv: srv}
		go srv.Start()
		t.Cleanup(n.stop)
		nodes[name] = n
	}
	for _, n := range nodes {
		if !n.srv.ReadyForConnections(30 * time.Second) {
			t.Fatal("server does not start")
		}
		n.addr = n.srv.Addr().(*net.TCPAddr).AddrPort()
	}
	elected(t, "the cluster has a leader and all its members", func() bool {
		for _, n := range nodes {
			if n.srv.JetStreamIsLeader() {
				return len(n.srv.JetStreamClusterPeers()) == size
			}
		}
		return false
	})
	w := &world{node: nodes["n0"]}
	w.reach(t)
	w.create(t, topology.Deployment{Partitions: 1, Replicas: 3}, events.StreamControl, events.EventsStream(part), topology.BucketLeases)
	return w, nodes
}

// elected polls until cond holds, for as long as it takes to elect a leader several times: a pause of the machine may end a term.
func elected(t *testing.T, what string, cond func() bool) {
	t.Helper()
	awaittest.Eventually(t, time.Minute, 20*time.Millisecond, what, cond, nil)
}

// reach connects the world to its node.
func (w *world) reach(t *testing.T) {
	t.Helper()
	w.nc = dial(t, w.node.url())
	w.js = jets(t, w.nc)
	w.log = eventlog.New(w.js, fast)
}

// A partition whose copies are too few to take anything is away, while the cluster as a whole is well: whoever is left of it answers, and
// what that says of the end of the log is not to be believed.
func TestAPartitionWithoutAQuorumIsAway(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("five servers")
	}
	w, nodes := newCluster(t, 5)
	stream := events.EventsStream(part)
	s, err := w.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	copies := []string{s.CachedInfo().Cluster.Leader}
	for _, r := range s.CachedInfo().Cluster.Replicas {
		copies = append(copies, r.Name)
	}
	for name, n := range nodes {
		if !slices.Contains(copies, name) {
			w.node = n
		}
	}
	w.reach(t)
	w.append(t, ids(1, 5)...)
	for began := time.Now(); time.Since(began) < 3*time.Second; <-time.After(100 * time.Millisecond) { // idle
		if last, err := w.log.LastSequence(t.Context(), stream); !silent(err) && (err != nil || last != 5) {
			t.Fatalf("last sequence = %d, %v", last, err)
		}
	}
	nodes[copies[0]].stop()
	follower := copies[2]
	elected(t, "the two that are left go on", func() bool {
		s, err := w.js.Stream(t.Context(), stream)
		if err == nil && s.CachedInfo().Cluster.Leader == follower {
			follower = copies[1]
		}
		last, err := w.log.LastSequence(t.Context(), stream)
		return err == nil && last == 5
	})
	nodes[follower].stop() // a leader stays, and does not know yet that it is alone
	stopped := time.Now()
	var lost time.Time
	var there time.Duration                    // of the last question after which it counted as there
	for time.Since(stopped) < 22*time.Second { // longer than the last of them leads on
		asked := time.Since(stopped)
		last, err := w.log.LastSequence(t.Context(), stream)
		switch {
		case err == nil && lost.IsZero():
			there = asked
		case err == nil:
			t.Fatalf("%s after it was away it ends at %d", time.Since(lost), last)
		case lost.IsZero() && !silent(err):
			wantCode(t, err, events.CodeUnavailable)
			lost = time.Now()
			t.Logf("away %s after the quorum: %v", lost.Sub(stopped).Round(time.Millisecond), err)
		}
		<-time.After(200 * time.Millisecond)
	}
	if lost.IsZero() || there > 8*time.Second {
		t.Errorf("it counts as there until %s after it took nothing more, away since %s", there, lost)
	}
}

// silent says that a question got no answer in its time, which says nothing of what was asked about: the machine may have stood still.
func silent(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func TestThreeCopiesKeepTheRulesOfAppends(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers")
	}
	w, _ := newCluster(t, 3)
	w.append(t, "m1")
	if ack, err := w.log.Append(t.Context(), queued("m1")); err != nil || ack != (eventlog.Ack{Sequence: 1, Duplicate: true}) {
		t.Fatalf("duplicate = %+v, %v", ack, err)
	}
	var mu sync.Mutex
	won := 0
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			id := fmt.Sprintf("s%d", i)
			_, err := w.log.AppendFenced(t.Context(), part, instance, started(id, id), 0)
			mu.Lock()
			defer mu.Unlock()
			if refused, ok := errors.AsType[*eventlog.Refused](err); err == nil {
				won++
			} else if !ok || refused.Last != 2 {
				t.Errorf("error = %v", err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d appenders won", won)
	}
	mine, err := w.log.AppendFenced(t.Context(), part, instance, closed("c1"), 2)
	if err != nil || mine != 3 {
		t.Fatalf("next append: %d, %v", mine, err)
	}
	// Asked again, as after a lost acknowledgement: it is found, not stored twice.
	if again, err := w.log.AppendFenced(t.Context(), part, instance, closed("c1"), 2); err != nil || again != mine {
		t.Errorf("repeated = %d, %v", again, err)
	}
	if seq, err := w.log.AppendExpecting(t.Context(), tenant("t1", "a"), 0); err != nil || seq != 1 {
		t.Fatalf("control: %d, %v", seq, err)
	}
	if seq, err := w.log.AppendExpecting(t.Context(), tenant("t1", "a"), 0); err != nil || seq != 1 {
		t.Errorf("repeated control: %d, %v", seq, err)
	}
	_, err = w.log.AppendExpecting(t.Context(), tenant("t2", "a"), 0)
	wantCode(t, err, events.CodeConflict)
	w.append(t, "m2")
	if last := w.lastSeq(t); last != 4 {
		t.Errorf("last sequence = %d, want 4: refused and duplicate publishes must take none", last)
	}
	r := w.tail(t, eventlog.TailConfig{Gapless: true})
	r.wait(4)
	r.end(1, 4)
	head(t, w.lane(t, eventlog.LaneConfig{}), 1)
	if err := acquire(t, newLeases(w), "inst.i1", "a", 5*time.Second).Renew(t.Context()); err != nil {
		t.Error(err)
	}
}
