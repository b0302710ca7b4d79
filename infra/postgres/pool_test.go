package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"pilotstatus.dev/infra/postgres"
)

func TestPoolBoundsItsSessions(t *testing.T) {
	t.Parallel()
	m := start(t, quick(dataDir(t)))
	show := []string{"application_name", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "search_path"}
	for name, c := range map[string]struct {
		url      string
		settings postgres.Settings
		want     []string
	}{
		"defaults": {m.URL(), postgres.Settings{}, []string{"pilot", "5s", "2s", "10s", `"$user", public`}},
		"settings": {
			m.URL(),
			postgres.Settings{ApplicationName: "projector", SearchPath: "v2,public", StatementTimeout: -1, LockTimeout: time.Second, IdleInTx: time.Minute},
			[]string{"projector", "0", "1s", "1min", "v2,public"},
		},
		"url wins": {m.URL() + "&statement_timeout=1234", postgres.Settings{StatementTimeout: time.Hour}, []string{"pilot", "1234ms", "2s", "10s", `"$user", public`}},
	} {
		pool, err := postgres.Open(t.Context(), c.url, c.settings)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, setting := range show {
			var value string
			if err := pool.QueryRow(t.Context(), "select current_setting($1)", setting).Scan(&value); err != nil {
				t.Fatal(err)
			}
			got = append(got, value)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		pool.Close()
	}

	pool, err := postgres.Open(t.Context(), m.URL(), postgres.Settings{StatementTimeout: 50 * time.Millisecond, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	_, err = pool.Exec(t.Context(), "select pg_sleep(30)")
	if ended, ok := errors.AsType[*pgconn.PgError](err); !ok || ended.Code != "57014" {
		t.Errorf("slow statement: %v, want query_canceled", err)
	}
}

func TestOpenNeedsNoServerAndKeepsThePassword(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), "postgres://u:canary@127.0.0.1:1/x", postgres.Settings{})
	if err != nil {
		t.Fatalf("open without a server: %v", err)
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := pool.Ping(ctx); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("ping = %v", err)
	}
	for _, url := range []string{"postgres://u:canary@h:port/x", "postgres://u:canary@127.0.0.1/x?pool_max_conns=no"} {
		if _, err := postgres.Open(t.Context(), url, postgres.Settings{}); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("open = %v", err)
		}
	}
}
