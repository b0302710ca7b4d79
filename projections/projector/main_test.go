package projector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/schema"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// open migrates a schema and opens a pool onto it.
func open(t testing.TB, url, name string, s postgres.Settings) *pgxpool.Pool {
	t.Helper()
	if err := schema.Migrate(t.Context(), url, name); err != nil {
		t.Fatal(err)
	}
	pool, err := schema.Open(t.Context(), url, name, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// dump gives every row of every table as JSON, in a fixed order; only the time of the last write is left out.
func dump(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	var out strings.Builder
	for _, table := range []string{"messages", "timeline", "attempts", "quota_usage", "checkpoints"} {
		rows, err := pool.Query(context.Background(), fmt.Sprintf(
			`SELECT (to_jsonb(x) - 'updated_at')::text FROM %s x ORDER BY 1`, table))
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Fatal(err)
			}
			out.WriteString(table + " " + row + "\n")
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func truncate(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), `TRUNCATE messages, timeline, attempts, quota_usage, checkpoints`); err != nil {
		t.Fatal(err)
	}
}
