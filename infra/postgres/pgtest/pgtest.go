// Package pgtest gives tests a real Postgres: one server a test package, one empty database a test.
//
// It promises that no test sees another's rows and that nothing is left behind. A package that uses it writes
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// It works as root and as any other user. Where no PostgreSQL is installed tests fail and say what to install.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"pilotstatus.dev/infra/postgres"
)

const limit = time.Minute

// shared is the package's server, made by the first test that wants it.
var shared struct {
	once   sync.Once
	server *postgres.Managed
	dir    string
	err    error
}

// Main runs the package's tests, stops the server, looks for leaked goroutines and exits.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(thenStop{m}, options...)
}

type thenStop struct{ m *testing.M }

func (s thenStop) Run() int {
	code := s.m.Run()
	if shared.server == nil {
		return code
	}
	if err := remove(shared.server, shared.dir); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

// Database makes an empty database and returns its URL; it is dropped, with whoever still uses it, when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.dir, shared.err = start(nil) })
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	name := "t_" + strings.ToLower(rand.Text())
	if err := admin("create database " + pgx.Identifier{name}.Sanitize()); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := admin("drop database " + pgx.Identifier{name}.Sanitize() + " with (force)"); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return shared.server.DatabaseURL(name)
}

// Server starts a server of the test's own, for tests that stop, kill and start it; it is removed when the test ends.
// The parameters are added to its settings.
func Server(t testing.TB, parameters map[string]string) *postgres.Managed {
	t.Helper()
	server, dir, err := start(parameters)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := remove(server, dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return server
}

func start(parameters map[string]string) (*postgres.Managed, string, error) {
	dir, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		return nil, "", err
	}
	// Root's server runs as somebody else, who must come through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	settings := map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
		"max_connections": "200", "shared_buffers": "32MB",
	}
	for name, value := range parameters {
		settings[name] = value
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	server, err := postgres.Start(ctx, postgres.ManagedConfig{
		DataDir: filepath.Join(dir, "data"), Parameters: settings, Logger: zerolog.Nop(),
	})
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	return server, dir, nil
}

func remove(server *postgres.Managed, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return errors.Join(server.Remove(ctx), os.RemoveAll(dir))
}

func admin(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, shared.server.DatabaseURL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
