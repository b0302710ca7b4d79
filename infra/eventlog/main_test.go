package eventlog_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/loopback"
	"pilotstatus.dev/infra/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	instance = "inst-1"
	part     = events.Partition(0)
)

var lane = events.Lane{Instance: instance, Class: events.ClassOTP, Tenant: "acme", Slot: 0}

// node is a server whose store and port outlive its restarts.
type node struct {
	t    testing.TB
	dir  string
	addr netip.AddrPort
	srv  *server.Server
}

func startNode(t testing.TB) *node {
	t.Helper()
	addrs, err := loopback.Addresses(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: t.TempDir(), addr: addrs[0]}
	n.start()
	t.Cleanup(n.stop)
	return n
}

func (n *node) start() {
	n.t.Helper()
	if err := loopback.Left(n.t.Context(), n.addr.String()); err != nil {
		n.t.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "n1", Host: "127.0.0.1", Port: int(n.addr.Port()), JetStream: true, StoreDir: n.dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	go srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		n.t.Fatal("server does not start")
	}
	n.srv = srv
}

func (n *node) stop() {
	n.srv.Shutdown()
	n.srv.WaitForShutdown()
}

func (n *node) url() string { return "nats://" + n.addr.String() }

func dial(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if nc.IsClosed() {
			return
		}
		done := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-done
	})
	return nc
}

// fast repeats soon what fails, and gives nothing up that a machine which stands still for some seconds will yet answer.
var fast = eventlog.Options{
	TryTimeout: 5 * time.Second, BackoffMin: 5 * time.Millisecond, BackoffMax: 50 * time.Millisecond, Heartbeat: 500 * time.Millisecond,
}

// world is a server with the streams of one partition, a log over it, and a JetStream context for what the log hides.
type world struct {
	node *node
	nc   *nats.Conn
	js   jetstream.JetStream
	log  *eventlog.Log
}

func newWorld(t testing.TB) *world {
	t.Helper()
	n := startNode(t)
	nc := dial(t, n.url())
	w := &world{node: n, nc: nc, js: jets(t, nc)}
	w.log = eventlog.New(w.js, fast)
	w.create(t, topology.Deployment{Partitions: 1}, events.StreamControl, events.EventsStream(part), events.HooksStream(0), topology.BucketLeases)
	return w
}

func (w *world) create(t testing.TB, d topology.Deployment, names ...string) {
	t.Helper()
	for _, r := range topology.Table(d) {
		for _, name := range names {
			if r.Name == name {
				if _, err := topology.Create(t.Context(), w.js, r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func jets(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func queued(id string) events.Event {
	return events.Event{
		Envelope: events.Envelope{ID: id, Type: events.TypeMessageQueued, Source: "pilot/test", Time: epoch, Subject: id, TenantID: lane.Tenant},
		Address:  events.QueuedSubject(part, lane),
		Body:     &events.MessageQueued{Project: "p", Category: events.OTP},
	}
}

func started(id, nonce string) events.Event {
	return events.Event{
		Envelope: events.Envelope{ID: id, Type: events.TypeDispatchStarted, Source: "pilot/test", Time: epoch, Subject: "m1", Attempt: 1, Nonce: nonce},
		Address:  events.EventSubject(part, instance, events.GroupDispatch, "started"),
		Body:     &events.DispatchStarted{Call: "sendText"},
	}
}

func closed(id string) events.Event {
	return events.Event{
		Envelope: events.Envelope{ID: id, Type: events.TypeDispatchClosed, Source: "pilot/test", Time: epoch},
		Address:  events.EventSubject(part, instance, events.GroupDispatch, "closed"),
		Body:     &events.DispatchClosed{Reason: events.ClosedExpired, Messages: []events.ClosedMessage{{ID: "m1", QueuedSeq: 1}}},
	}
}

func (w *world) append(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := w.log.Append(t.Context(), queued(id)); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) lastSeq(t testing.TB) uint64 {
	t.Helper()
	seq, err := w.log.LastSequence(t.Context(), events.EventsStream(part))
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func wantCode(t testing.TB, err error, code events.Code) {
	t.Helper()
	if got := events.CodeOf(err); got != code {
		t.Fatalf("error = %v (code %q), want code %q", err, got, code)
	}
}

// eventually polls until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	awaittest.Eventually(t, 20*time.Second, 5*time.Millisecond, what, cond, nil)
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// deaf is a proxy that can stop bringing the server's answers while it still carries what the client sends.
type deaf struct {
	l      net.Listener
	target string
	wg     sync.WaitGroup

	mu    sync.Mutex
	muted bool
	conns []net.Conn
}

func newDeaf(t testing.TB, n *node) *deaf {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{l: l, target: n.srv.Addr().String()}
	d.wg.Go(d.accept)
	t.Cleanup(func() {
		l.Close()
		d.hear()
		d.wg.Wait()
	})
	return d
}

func (d *deaf) url() string { return "nats://" + d.l.Addr().String() }

func (d *deaf) accept() {
	for {
		client, err := d.l.Accept()
		if err != nil {
			return
		}
		srv, err := net.Dial("tcp", d.target)
		if err != nil {
			client.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, client, srv)
		d.mu.Unlock()
		d.wg.Go(func() { _, _ = io.Copy(srv, client); srv.Close() })
		d.wg.Go(func() { d.answers(client, srv) })
	}
}

func (d *deaf) answers(client, srv net.Conn) {
	defer client.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := srv.Read(buf)
		if err != nil {
			return
		}
		d.mu.Lock()
		muted := d.muted
		d.mu.Unlock()
		if muted {
			continue // lost on the way
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (d *deaf) mute() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.muted = true
}

// hear brings answers again, over new connections.
func (d *deaf) hear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.muted = false
	for _, c := range d.conns {
		c.Close()
	}
	d.conns = nil
}
