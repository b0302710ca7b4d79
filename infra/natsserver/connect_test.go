package natsserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"pilotstatus.dev/infra/loopback"
	"pilotstatus.dev/infra/natsserver"
)

func TestConnectByURL(t *testing.T) {
	t.Parallel()
	s := start(t, natsserver.Config{Port: natsserver.RandomPort})
	nc, err := natsserver.Connect(t.Context(), s.ClientURL(), natsserver.Client{Name: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	defer drain(t, nc)
	if got := nc.Opts.Name; got != "reader" {
		t.Errorf("name = %q", got)
	}
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		t.Error(err)
	}
}

func TestConnectWaitsForTheServerAndReconnects(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	address := "nats://127.0.0.1:" + strconv.Itoa(port)
	type result struct {
		nc  *nats.Conn
		err error
	}
	got := make(chan result, 1)
	lost := make(chan struct{}, 100)
	go func() {
		nc, err := natsserver.Connect(t.Context(), address, natsserver.Client{
			OnError: func(error) {
				select {
				case lost <- struct{}{}:
				default:
				}
			},
		})
		got <- result{nc, err}
	}()
	dir := t.TempDir()
	first := start(t, natsserver.Config{StoreDir: dir, Port: port})
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer drain(t, r.nc)
	reconnected := r.nc.StatusChanged(nats.CONNECTED)
	stop(t, first)
	<-lost
	if err := r.nc.Publish("a", nil); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("publish without a server: error = %v, want ErrReconnectBufExceeded", err)
	}
	if err := loopback.Left(t.Context(), strings.TrimPrefix(address, "nats://")); err != nil {
		t.Fatal(err)
	}
	start(t, natsserver.Config{StoreDir: dir, Port: port})
	select {
	case <-reconnected:
	case <-time.After(20 * time.Second):
		t.Fatal("did not reconnect")
	}
	if err := r.nc.FlushTimeout(5 * time.Second); err != nil {
		t.Error(err)
	}
}

func TestConnectGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := natsserver.Connect(ctx, "nats://user:canary@127.0.0.1:"+strconv.Itoa(freePort(t)), natsserver.Client{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error = %v, want a deadline", err)
	}
	_, err = natsserver.Connect(ctx, "nats://user:canary@127.0.0.1:bad", natsserver.Client{})
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Fatalf("error = %v, want one without the password", err)
	}
}

func TestPermissionViolationsAndBadCredentials(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{
		Host: natsserver.Loopback, Port: -1, NoSigs: true, NoLog: true,
		Users: []*server.User{{
			Username: "reader", Password: "secret",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"evt.>"}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
	_, err = natsserver.Connect(t.Context(), srv.ClientURL(), natsserver.Client{Options: []nats.Option{nats.UserInfo("reader", "wrong")}})
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Fatalf("error = %v, want ErrAuthorization at once", err)
	}

	reported := make(chan error, 1)
	nc, err := natsserver.Connect(t.Context(), srv.ClientURL(), natsserver.Client{
		OnError: func(err error) { reported <- err },
		Options: []nats.Option{nats.UserInfo("reader", "secret")},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer drain(t, nc)
	if err := nc.Publish("evt.x", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-reported; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("reported = %v, want a permission violation", err)
	}
}

func TestDrainOfAClosedConnection(t *testing.T) {
	t.Parallel()
	s := start(t, natsserver.Config{Port: natsserver.RandomPort})
	nc, err := s.Connect(natsserver.Client{})
	if err != nil {
		t.Fatal(err)
	}
	drain(t, nc)
	if !nc.IsClosed() {
		t.Error("drained connection is open")
	}
	drain(t, nc)
	drain(t, nil)
}

func TestWriteContext(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, address := range []string{"nats://127.0.0.1:4222", "nats://127.0.0.1:4333"} {
		path, err := natsserver.WriteContext(home, address)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]string
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		if doc["url"] != address {
			t.Errorf("url = %q, want %q", doc["url"], address)
		}
		if path != filepath.Join(home, "nats", "context", "pilot.json") {
			t.Errorf("path = %q", path)
		}
	}
	files, err := os.ReadDir(filepath.Join(home, "nats", "context"))
	if err != nil || len(files) != 1 {
		t.Errorf("files left = %v, %v", files, err)
	}
}

func TestWriteContextLeavesAForeignOne(t *testing.T) {
	t.Parallel()
	for _, foreign := range []string{`{"description":"mine","url":"nats://elsewhere"}`, `not json`} {
		home := t.TempDir()
		path := filepath.Join(home, "nats", "context", "pilot.json")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(foreign), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := natsserver.WriteContext(home, "nats://127.0.0.1:4222"); !errors.Is(err, natsserver.ErrForeignContext) {
			t.Errorf("error = %v, want ErrForeignContext", err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != foreign {
			t.Errorf("file = %q, %v", raw, err)
		}
	}
}

func TestConfigHome(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", "/x")
	if dir, err := natsserver.ConfigHome(); err != nil || dir != "/x" {
		t.Errorf("ConfigHome = %q, %v", dir, err)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "/home/me")
	if dir, err := natsserver.ConfigHome(); err != nil || dir != "/home/me/.config" {
		t.Errorf("ConfigHome = %q, %v", dir, err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	addrs, err := loopback.Addresses(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return int(addrs[0].Port())
}
