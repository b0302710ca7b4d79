package natsserver_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"pilotstatus.dev/infra/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg natsserver.Config) *natsserver.Server {
	t.Helper()
	if cfg.StoreDir == "" {
		cfg.StoreDir = t.TempDir()
	}
	s, err := natsserver.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *natsserver.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func drain(t *testing.T, nc *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := natsserver.Drain(ctx, nc); err != nil {
		t.Error(err)
	}
}

func stream(t *testing.T, nc *nats.Conn) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return js, st
}

func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	for _, policy := range []natsserver.Sync{"", natsserver.SyncAlways, natsserver.SyncDefault, natsserver.SyncGroup} {
		dir := t.TempDir()
		first := start(t, natsserver.Config{StoreDir: dir, Port: natsserver.RandomPort, Sync: policy})
		nc, err := first.Connect(natsserver.Client{})
		if err != nil {
			t.Fatal(err)
		}
		js, _ := stream(t, nc)
		for range 3 {
			if _, err := js.Publish(t.Context(), "s.a", []byte("kept")); err != nil {
				t.Fatal(err)
			}
		}
		drain(t, nc)
		stop(t, first)

		second := start(t, natsserver.Config{StoreDir: dir, Port: natsserver.RandomPort, Sync: policy})
		nc, err = second.Connect(natsserver.Client{})
		if err != nil {
			t.Fatal(err)
		}
		_, st := stream(t, nc)
		msg, err := st.GetMsg(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		if string(msg.Data) != "kept" {
			t.Fatalf("message 3 = %q", msg.Data)
		}
		if named := nc.ConnectedServerName() == natsserver.GroupName; named != (policy == natsserver.SyncGroup) {
			t.Errorf("under %q the server calls itself %q", policy, nc.ConnectedServerName())
		}
		drain(t, nc)
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port

	_, err = natsserver.Start(t.Context(), natsserver.Config{StoreDir: t.TempDir(), Port: port})
	if !errors.Is(err, natsserver.ErrPortTaken) {
		t.Fatalf("error = %v, want ErrPortTaken", err)
	}
	for _, want := range []string{l.Addr().String(), "--nats-port", "PILOT_NATS_PORT"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
}

func TestStoreInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, natsserver.Config{StoreDir: dir, Port: natsserver.RandomPort})
	_, err := natsserver.Start(t.Context(), natsserver.Config{StoreDir: dir, Port: natsserver.RandomPort})
	if !errors.Is(err, natsserver.ErrStoreInUse) {
		t.Fatalf("error = %v, want ErrStoreInUse", err)
	}
}

func TestRefusedConfigs(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]natsserver.Config{
		"no directory": {},
		"sync":         {StoreDir: t.TempDir(), Sync: "sometimes"},
		"port":         {StoreDir: t.TempDir(), Port: 70000},
		"low port":     {StoreDir: t.TempDir(), Port: -2},
	} {
		if _, err := natsserver.Start(t.Context(), cfg); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := natsserver.Start(ctx, natsserver.Config{StoreDir: dir, Port: natsserver.RandomPort})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v, want context.Canceled", err)
	}
	start(t, natsserver.Config{StoreDir: dir, Port: natsserver.RandomPort}) // the lock is free again
}

func TestStreamsMayHaveManyConsumersAndLargeMessages(t *testing.T) {
	t.Parallel()
	s := start(t, natsserver.Config{Port: natsserver.RandomPort, Sync: natsserver.SyncDefault})
	nc, err := s.Connect(natsserver.Client{})
	if err != nil {
		t.Fatal(err)
	}
	defer drain(t, nc)
	_, st := stream(t, nc)
	info, err := st.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Config.MaxConsumers != -1 {
		t.Errorf("MaxConsumers = %d, want unlimited", info.Config.MaxConsumers)
	}
	if got := nc.MaxPayload(); got != 1<<20 {
		t.Errorf("MaxPayload = %d, want 1 MiB", got)
	}
}

func TestWarningsReachTheLogger(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	s := start(t, natsserver.Config{Port: natsserver.RandomPort, Logger: zerolog.New(&out)})
	stop(t, s)
	if got := out.String(); !strings.Contains(got, `"source":"nats-server"`) || !strings.Contains(got, "Server is ready") {
		t.Errorf("log = %s", got)
	}
}

func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, natsserver.Config{Port: natsserver.RandomPort})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v, want context.Canceled", err)
	}
	stop(t, s) // waits for the first
}

// syncBuffer is a bytes.Buffer for concurrent writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
