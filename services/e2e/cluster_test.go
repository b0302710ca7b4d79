package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"pilotstatus.dev/events"
	"pilotstatus.dev/services/app"
)

// startCluster starts three servers with JetStream and gives them with the URL that names them all.
func startCluster(t *testing.T) ([]*server.Server, string) {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		u, err := url.Parse("nats://" + fixedAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		var port int
		if _, err := fmt.Sscan(u.Port(), &port); err != nil {
			t.Fatal(err)
		}
		routes, ports = append(routes, u), append(ports, port)
	}
	var nodes []*server.Server
	var urls []string
	for i, port := range ports {
		srv, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("node%d", i), Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "e2e", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		go srv.Start()
		t.Cleanup(func() {
			srv.Shutdown()
			srv.WaitForShutdown()
		})
		nodes = append(nodes, srv)
	}
	for _, srv := range nodes {
		if !srv.ReadyForConnections(20 * time.Second) {
			t.Fatal("a node does not start")
		}
		urls = append(urls, srv.ClientURL())
	}
	eventually(t, "the cluster has a leader and all its members", func() bool {
		for _, srv := range nodes {
			if srv.JetStreamIsLeader() {
				return len(srv.JetStreamClusterPeers()) == len(nodes)
			}
		}
		return false
	}, nil)
	return nodes, strings.Join(urls, ",")
}

// Fault catalogue N3: three copies; the leader of EVENTS_0 is stopped while messages are sent. What was accepted ends, once.
func TestN3LeaderStoppedWhileSending(t *testing.T) {
	t.Parallel()
	nodes, urls := startCluster(t)
	r := newRig(t, func(c *app.Config) { c.NATSURL, c.Replicas, c.Partitions = urls, 3, 1 })
	l := r.startLoad("cluster", 3, 30*time.Millisecond)
	l.awaitAccepted(t, 8)
	stopped := false
	for _, srv := range nodes {
		if srv.JetStreamIsStreamLeader("$G", events.EventsStream(0)) {
			srv.Shutdown()
			srv.WaitForShutdown()
			stopped = true
			break
		}
	}
	if !stopped {
		t.Fatal("nobody leads EVENTS_0")
	}
	l.awaitAccepted(t, 20)
	l.check()
	r.awaitReady("ready with two of three", wholly)
}
