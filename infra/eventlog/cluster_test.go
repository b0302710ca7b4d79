package eventlog_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/topology"
)

// freePorts takes ports that were free a moment ago.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// newCluster is a world over three servers with three copies of every stream.
func newCluster(t *testing.T) *world {
	t.Helper()
	ports := freePorts(t, 3)
	var routes []*url.URL
	for _, p := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + strconv.Itoa(p)})
	}
	var nodes []*node
	for i, p := range ports {
		srv, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: p}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		n := &node{t: t, srv: srv}
		go srv.Start()
		t.Cleanup(n.stop)
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		if !n.srv.ReadyForConnections(10 * time.Second) {
			t.Fatal("server does not start")
		}
		n.port = n.srv.Addr().(*net.TCPAddr).Port
	}
	eventually(t, "the cluster has a leader and all its members", func() bool {
		for _, n := range nodes {
			if n.srv.JetStreamIsLeader() {
				return len(n.srv.JetStreamClusterPeers()) == 3
			}
		}
		return false
	})
	nc := dial(t, nodes[0].url())
	w := &world{node: nodes[0], nc: nc, js: jets(t, nc)}
	w.log = eventlog.New(w.js, fast)
	w.create(t, topology.Deployment{Partitions: 1, Replicas: 3}, events.StreamControl, events.EventsStream(part), topology.BucketLeases)
	return w
}

func TestThreeCopiesKeepTheRulesOfAppends(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers")
	}
	w := newCluster(t)
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
