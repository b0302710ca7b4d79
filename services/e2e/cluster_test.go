package e2e

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/loopback"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
)

// cluster is three servers with JetStream. Each reaches each other one through a proxy of its own.
type cluster struct {
	t       *testing.T
	options [3]*server.Options
	nodes   [3]*server.Server
	links   [3][3]*proxy // by who connects to whom; none to itself
}

// startCluster starts it and waits until it has a leader and all its members.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var routes [3]string
	for i := range c.nodes {
		routes[i] = fixedAddr(t)
	}
	for i := range c.nodes {
		var to []*url.URL
		for j := range c.nodes {
			if j == i {
				continue
			}
			c.links[i][j] = newProxy(t, routes[j])
			to = append(to, &url.URL{Scheme: "nats", Host: c.links[i][j].addr})
		}
		c.options[i] = &server.Options{
			ServerName: fmt.Sprintf("node%d", i), Host: "127.0.0.1", Port: portOf(t, fixedAddr(t)), JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{
				Name: "e2e", Host: "127.0.0.1", Port: portOf(t, routes[i]),
				NoAdvertise: true,          // a client knows the servers it was told
				Advertise:   "127.0.0.1:1", // nobody is there: the proxies are the only way
			},
			Routes: to,
		}
		c.start(i)
		t.Cleanup(func() { c.stop(i) })
	}
	for _, srv := range c.nodes {
		if !srv.ReadyForConnections(patience) {
			t.Fatal("a node does not start")
		}
	}
	eventually(t, "the cluster has a leader and all its members", func() bool {
		for _, srv := range c.nodes {
			if srv.JetStreamIsLeader() {
				return len(srv.JetStreamClusterPeers()) == len(c.nodes)
			}
		}
		return false
	}, nil)
	return c
}

func portOf(t *testing.T, addr string) (port int) {
	t.Helper()
	if _, err := fmt.Sscan(addr[strings.LastIndexByte(addr, ':')+1:], &port); err != nil {
		t.Fatal(err)
	}
	return port
}

// start starts a node, also again, on its port and store.
func (c *cluster) start(i int) {
	c.t.Helper()
	for _, port := range []int{c.options[i].Port, c.options[i].Cluster.Port} {
		if err := loopback.Left(c.t.Context(), fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			c.t.Fatal(err)
		}
	}
	srv, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	srv.Start()
	c.nodes[i] = srv
}

// stop stops a node; it can be called twice.
func (c *cluster) stop(i int) {
	c.nodes[i].Shutdown()
	c.nodes[i].WaitForShutdown()
}

// urls names nodes to a client.
func (c *cluster) urls(nodes ...int) string {
	var all []string
	for _, i := range nodes {
		all = append(all, c.nodes[i].ClientURL())
	}
	return strings.Join(all, ",")
}

// isolate loses what the node and the others send each other, and tells nobody.
func (c *cluster) isolate(i int) { c.each(i, (*proxy).vanish) }

// heal connects the node with the others again.
func (c *cluster) heal(i int) { c.each(i, (*proxy).pass) }

func (c *cluster) each(i int, do func(*proxy)) {
	for j := range c.nodes {
		if j != i {
			do(c.links[i][j])
			do(c.links[j][i])
		}
	}
}

// leader gives the node that says it leads EVENTS_0, beside one; -1 when none does.
func (c *cluster) leader(beside int) int {
	for i, srv := range c.nodes {
		if i != beside && srv.Running() && srv.JetStreamIsStreamLeader("$G", events.EventsStream(0)) {
			return i
		}
	}
	return -1
}

// awaitLeader waits until a node leads EVENTS_0, and gives it.
func (c *cluster) awaitLeader() (node int) {
	c.t.Helper()
	eventually(c.t, "somebody leads EVENTS_0", func() bool { node = c.leader(-1); return node >= 0 }, nil)
	return node
}

// lead makes a node lead EVENTS_0.
func (c *cluster) lead(i int) {
	c.t.Helper()
	nc, err := nats.Connect(c.urls(i))
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	var said string
	eventually(c.t, fmt.Sprintf("node %d leads", i), func() bool {
		if c.nodes[i].JetStreamIsStreamLeader("$G", events.EventsStream(0)) {
			return true
		}
		msg, err := nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+events.EventsStream(0), fmt.Appendf(nil, `{"placement":{"preferred":"node%d"}}`, i), 2*time.Second)
		if err == nil {
			said = string(msg.Data)
		}
		return false
	}, func() string { return said })
}

// onCluster makes Pilot use the cluster by some of its nodes.
func onCluster(urls string) func(*app.Config) {
	return func(c *app.Config) { c.NATSURL, c.Replicas, c.Partitions = urls, 3, 1 }
}

// Fault catalogue N3: three copies; the leader of EVENTS_0 is stopped while messages are sent. What was accepted ends, once.
func TestN3LeaderStoppedWhileSending(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	r := newRig(t, onCluster(c.urls(0, 1, 2)))
	l := r.startLoad("cluster", 3, 30*time.Millisecond)
	l.awaitAccepted(t, 8)
	c.stop(c.awaitLeader())
	l.awaitAccepted(t, 20)
	l.check()
	r.awaitReady("ready with two of three", wholly)
}

// alone puts the stream of a partition on one node only, anew and empty, and gives that node.
func (c *cluster) alone(p events.Partition) (node int) {
	c.t.Helper()
	nc, err := nats.Connect(c.urls(0, 1, 2))
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := js.Stream(c.t.Context(), events.EventsStream(p))
	if err != nil {
		c.t.Fatal(err)
	}
	one := s.CachedInfo().Config
	one.Replicas = 1
	if err := js.DeleteStream(c.t.Context(), one.Name); err != nil {
		c.t.Fatal(err)
	}
	if s, err = js.CreateStream(c.t.Context(), one); err != nil {
		c.t.Fatal(err)
	}
	return slices.IndexFunc(c.options[:], func(o *server.Options) bool { return o.ServerName == s.CachedInfo().Cluster.Leader })
}

// Every process of a deployment may be started at once on an empty cluster: one makes what is missing, and all of them come up.
func TestN3AllProcessesStartAtOnce(t *testing.T) {
	t.Parallel()
	c, postgres := startCluster(t), pgtest.Database(t)
	master := filepath.Join(t.TempDir(), "master.key")
	if _, err := keyring.CreateMaster(master); err != nil {
		t.Fatal(err)
	}
	var starting sync.WaitGroup
	for i := range 8 {
		cfg := quick(t)
		onCluster(c.urls(i%3, (i+1)%3))(&cfg)
		cfg.Partitions, cfg.PostgresURL, cfg.MasterKeyFile = 4, postgres, master
		starting.Go(func() {
			a, err := app.Start(t.Context(), cfg, []app.Role{app.RoleAPI, app.RoleDispatcher}, zerolog.Nop())
			if err != nil {
				t.Errorf("process %d: %v", i, err)
				return
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := a.Stop(ctx); err != nil {
					t.Errorf("stop process %d: %v", i, err)
				}
			})
		})
	}
	starting.Wait()
}
