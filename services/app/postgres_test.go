package app

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A managed Postgres that dies is started again on the same port, and the pool finds it.
func TestManagedPostgresIsKeptAlive(t *testing.T) {
	t.Parallel()
	cfg, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(postgresDir(t))
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
