package control_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a real server with CONTROL and the keys bucket.
type rig struct {
	server *natsserver.Server
	conn   *nats.Conn
	log    *eventlog.Log
	keys   *keyring.Keyring
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server, err := natsserver.Start(ctx, natsserver.Config{StoreDir: t.TempDir(), Port: natsserver.RandomPort, Sync: natsserver.SyncDefault})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := server.Connect(natsserver.Client{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		select {
		case <-closed:
		case <-ctx.Done():
			t.Error("the connection does not close")
		}
		if err := server.Stop(ctx); err != nil {
			t.Errorf("stop server: %v", err)
		}
	})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.EnsureControl(ctx, js, topology.Deployment{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: topology.BucketKeys})
	if err != nil {
		t.Fatal(err)
	}
	master, err := keyring.CreateMaster(filepath.Join(t.TempDir(), "master.json"))
	if err != nil {
		t.Fatal(err)
	}
	return &rig{
		server: server, conn: nc, keys: keyring.New(kv, master, keyring.Options{}),
		log: eventlog.New(js, eventlog.Options{Logger: zerolog.Nop(), TryTimeout: 300 * time.Millisecond}),
	}
}

func tenant(id, name string) events.Tenant { return events.Tenant{ID: id, Name: name} }
