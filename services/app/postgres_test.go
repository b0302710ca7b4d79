package app

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A managed Postgres that dies is started again on the same port, and the pool finds it.
func TestManagedPostgresIsKeptAlive(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pilot-app-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	cfg, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(dir)
	p := &platform{cfg: cfg, log: zerolog.Nop()}
	if err := p.openPostgres(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.keepPostgres(ctx) }()
	if err := p.managed.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.pool.Ping(t.Context()) != nil {
		if time.Now().After(deadline) {
			t.Fatal("Postgres did not come back")
		}
		<-tick.C
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	bounded, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := p.close(bounded); err != nil {
		t.Error(err)
	}
}
