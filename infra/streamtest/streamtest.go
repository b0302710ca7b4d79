// Package streamtest gives a test a log of its own: a real server on a loopback port with every stream and bucket, and a keyring.
package streamtest

import (
	"cmp"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/topology"
)

// Log is what a test works with. Everything is stopped when the test ends.
type Log struct {
	Server     *natsserver.Server
	Conn       *nats.Conn
	JetStream  jetstream.JetStream
	Deployment topology.Deployment
	Events     *eventlog.Log
	Leases     *eventlog.Leases
	Keys       *keyring.Keyring
}

const (
	startWithin = time.Minute
	stopWithin  = 30 * time.Second
)

// New starts one with the given number of partitions.
func New(t testing.TB, partitions int, opts eventlog.Options) *Log {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	server, err := natsserver.Start(ctx, natsserver.Config{StoreDir: t.TempDir(), Port: natsserver.RandomPort, Sync: natsserver.SyncDefault})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := server.Connect(natsserver.Client{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, nc, server) })
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	d := topology.Deployment{Partitions: partitions, Replicas: 1}
	if _, err := topology.Ensure(ctx, js, d); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, topology.BucketKeys)
	if err != nil {
		t.Fatal(err)
	}
	master, err := keyring.CreateMaster(filepath.Join(t.TempDir(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	// A machine that stands still for some seconds is none that gives no answer: tests read once and believe what they hear.
	opts.TryTimeout = cmp.Or(opts.TryTimeout, 5*time.Second)
	log := eventlog.New(js, opts)
	return &Log{
		Server: server, Conn: nc, JetStream: js, Deployment: d, Events: log, Leases: eventlog.NewLeases(log, d),
		Keys: keyring.New(kv, master, keyring.Options{}),
	}
}

// stop waits for the connection to be closed before it stops the server, so that no goroutine of it is left.
func stop(t testing.TB, nc *nats.Conn, server *natsserver.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if !nc.IsClosed() {
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		select {
		case <-closed:
		case <-ctx.Done():
			t.Error("the connection does not close")
		}
	}
	if err := server.Stop(ctx); err != nil {
		t.Errorf("stop server: %v", err)
	}
}

// GroupEnd gives the sequence of the last event of an instance's fenced group, 0 where there is none: what the next one is appended with.
func GroupEnd(ctx context.Context, log *eventlog.Log, p events.Partition, instance string) (uint64, error) {
	rec, err := log.LastBySubject(ctx, events.EventsStream(p), events.DispatchFilter(p, instance))
	if events.CodeOf(err) == events.CodeNotFound {
		return 0, nil
	}
	return rec.Position.Sequence, err
}
