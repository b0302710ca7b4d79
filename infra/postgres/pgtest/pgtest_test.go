package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	first, second := pgtest.Database(t), pgtest.Database(t)
	if _, err := connect(t, first).Exec(t.Context(), "create table x (n int)"); err != nil {
		t.Fatal(err)
	}
	var tables int
	err := connect(t, second).QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'public'").Scan(&tables)
	if err != nil || tables != 0 {
		t.Errorf("tables = %d, %v", tables, err)
	}
}

func TestDatabaseIsDroppedThoughInUse(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("user", func(t *testing.T) {
		url = pgtest.Database(t)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn // left open on purpose; the server ends it
	})
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the database outlived its test")
	}
}

func TestServerComesBackOnItsPort(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	pool, err := postgres.Open(t.Context(), server.URL(), postgres.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	// Servers of tests do not wait for the disk: what is to outlive a kill says so.
	if _, err := pool.Exec(t.Context(), "begin; set local synchronous_commit = on; create table kept (n int); commit"); err != nil {
		t.Fatal(err)
	}
	for name, down := range map[string]func() error{
		"stop": func() error { return server.Stop(t.Context()) },
		"kill": server.Kill,
	} {
		if err := down(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := pool.Ping(ctx); err == nil {
			t.Errorf("%s: the server answers", name)
		}
		cancel()
		if err := server.Start(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := pool.Exec(t.Context(), "select * from kept"); err != nil {
			t.Errorf("%s: the pool found no table on the old port: %v", name, err)
		}
	}
}
