package schema_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

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

// An upgrade of tables that are in use: what the version before wrote stays, a writer goes on, and every list has its index.
func TestMigrateALiveView(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	if err := schema.Migrate(t.Context(), url, schema.Default); err != nil {
		t.Fatal(err)
	}
	pool, err := schema.Open(t.Context(), url, schema.Default, postgres.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	older, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older.DownTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	began, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			if _, err := pool.Exec(context.Background(), insertMessage, fmt.Sprintf("msg_%d", n)); err != nil {
				t.Error(err)
				break
			}
			if n++; n == 100 {
				close(began)
			}
		}
		done <- n
	}()
	<-began
	if err := schema.Migrate(t.Context(), url, schema.Default); err != nil {
		t.Error(err)
	}
	stop()
	want := <-done
	var rows, indexes int
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM pg_indexes WHERE schemaname = 'pilot' AND indexname = ANY($1))`,
		[]string{"messages_list", "messages_status", "messages_category", "messages_sender", "messages_recipient", "messages_template", "messages_labels"}).
		Scan(&rows, &indexes); err != nil {
		t.Fatal(err)
	}
	if rows != want || indexes != 7 {
		t.Errorf("%d rows of %d, %d indexes", rows, want, indexes)
	}
}

const insertMessage = `INSERT INTO messages (id, partition, queued_seq, tenant_id, project_id, environment, key_id, instance_id, category, class,
	urgent, template_id, template_version, origin, source_number, correlation_id, recipient_hash, retention_days, labels, retry_of, sealed_key_id,
	stage, status, attempts, presumed, corrected, erased, created_at, last_seq)
	VALUES ($1, 0, 1, 't', 'p', 'LIVE', '', '', '', '', false, '', 0, '', '', '', '', 0, '["a"]', '', '', 'QUEUED', 'QUEUED', 0, false, false, false, now(), 1)`
