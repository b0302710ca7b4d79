package schema_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/schema"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// columns lists the columns and indexes of every schema of ours.
func columns(t *testing.T, url string) map[string]string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT table_schema, string_agg(table_name || '.' || column_name || ' ' || data_type, E'\n' ORDER BY table_name, ordinal_position)
		FROM information_schema.columns WHERE table_schema NOT IN ('pg_catalog', 'information_schema') GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var name, list string
	if _, err := pgx.ForEachRow(rows, []any{&name, &list}, func() error { out[name] = list; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMigrateFromNothingAndAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	if err := schema.Migrate(t.Context(), url, schema.Default); err != nil {
		t.Fatal(err)
	}
	first := columns(t, url)
	for _, table := range []string{"messages.", "timeline.", "attempts.", "checkpoints."} {
		if !strings.Contains(first[schema.Default], table) {
			t.Errorf("no table %s", table)
		}
	}
	if err := schema.Migrate(t.Context(), url, schema.Default); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, columns(t, url)); diff != "" {
		t.Errorf("a second run changed something:\n%s", diff)
	}
}

func TestSchemasStandSideBySide(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	var boots sync.WaitGroup
	for range 3 { // several processes start at once
		for _, name := range []string{"pilot", "pilot_next"} {
			boots.Go(func() {
				if err := schema.Migrate(t.Context(), url, name); err != nil {
					t.Error(err)
				}
			})
		}
	}
	boots.Wait()
	got := columns(t, url)
	if got["pilot"] == "" || got["pilot"] != got["pilot_next"] || got["public"] != "" {
		t.Errorf("schemas: %v", got)
	}
	pool, err := schema.Open(t.Context(), url, "pilot_next", postgres.Settings{SearchPath: "public"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `INSERT INTO checkpoints (view, partition, seq, event_id) VALUES ('messages', 0, 5, '')`); err != nil {
		t.Fatal(err)
	}
	var live, next int
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pilot.checkpoints), (SELECT count(*) FROM pilot_next.checkpoints)`).Scan(&live, &next); err != nil {
		t.Fatal(err)
	}
	if live != 0 || next != 1 {
		t.Errorf("rows: %d live, %d next", live, next)
	}
}

func TestAURLWithAnotherSearchPathIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	if pool, err := schema.Open(t.Context(), url+sep+"search_path=public", schema.Default, postgres.Settings{}); err == nil {
		pool.Close()
		t.Error("opened")
	}
}

func TestOnlyPlainNames(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	for _, name := range []string{"", `a"b`, "Pilot", "a,b", "9", strings.Repeat("a", 64)} {
		if err := schema.Migrate(t.Context(), url, name); err == nil {
			t.Errorf("migrated %q", name)
		}
		if pool, err := schema.Open(t.Context(), url, name, postgres.Settings{}); err == nil {
			pool.Close()
			t.Errorf("opened %q", name)
		}
	}
}
