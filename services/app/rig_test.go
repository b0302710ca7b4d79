package app

import (
	"context"
	"os"
	"testing"
	"time"
)

// stopNow stops a process in order.
func stopNow(t *testing.T, a *App) {
	t.Helper()
	bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.Stop(bounded); err != nil {
		t.Error(err)
	}
}

// postgresDir gives a data directory in which a managed Postgres can live: its server may run as another user.
func postgresDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pilot-app-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
