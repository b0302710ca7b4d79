package control_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/streamtest"
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
	l := streamtest.New(t, 1, eventlog.Options{})
	return &rig{server: l.Server, conn: l.Conn, log: l.Events, keys: l.Keys}
}

func tenant(id, name string) events.Tenant { return events.Tenant{ID: id, Name: name} }
