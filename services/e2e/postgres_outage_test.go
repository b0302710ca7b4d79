package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
)

// Fault catalogue P2: Postgres is killed again and again while it writes. Sending does not notice, and the view ends up complete,
// each event once.
func TestP2PostgresKilledInALoop(t *testing.T) {
	t.Parallel()
	var pg *postgres.Managed
	r := newRig(t, func(c *app.Config) {
		pg = pgtest.Server(t, nil)
		c.PostgresURL = pg.URL()
	})
	l := r.startLoad("killed", 3, 30*time.Millisecond)
	for round := range 3 {
		l.awaitAccepted(t, 10*(round+1))
		if err := pg.Kill(); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			r.awaitReady("reads do not work", func(got readiness) bool {
				return got.status == http.StatusOK && got.word == "degraded" && slices.Contains(got.degraded, "reads") && slices.Contains(got.failing, "postgres")
			})
		}
		l.awaitAccepted(t, 10*(round+1)+5)
		if err := pg.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.end()
	if _, refused := l.counts(); refused > 0 {
		t.Errorf("%d sends were not accepted", refused)
	}
	l.check()
	want := []string{
		"dispatch.accepted", "dispatch.started", "message.queued", "receipt.delivered", "receipt.read", "receipt.sent",
	}
	for _, id := range l.accepted {
		var got []string
		eventually(t, "the whole timeline", func() bool {
			got = slices.Sorted(slices.Values(r.timeline(id)))
			return len(got) >= len(want)
		}, func() string { return toJSON(got) })
		if !slices.Equal(got, want) {
			t.Errorf("timeline of %s: %v", id, got)
		}
	}
	r.awaitReady("ready", wholly)
}

// Fault catalogue P7: Postgres only reads. Sending goes on, a read of what the view has not got is answered 503 and never that
// it does not exist; the view catches up by itself.
func TestP7PostgresReadOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *app.Config) { c.ReadYourWrite = 300 * time.Millisecond })
	r.awaitStatus(r.send("writable"), "READ")
	r.readOnly(true)
	id := r.send("not written down")
	r.awaitLedger("not written down", 1)
	eventually(t, "told", func() bool { return count(r.hooks(id), "message.read") > 0 }, nil)
	if status, out := r.do(http.MethodGet, "/v1/messages/"+id, r.keys.Own, nil); status != http.StatusServiceUnavailable {
		t.Errorf("a read of what the view has not got: %d %v", status, out)
	}
	if got := r.ready(); got.status != http.StatusOK || got.word != "degraded" || !slices.Contains(got.degraded, "reads") {
		t.Errorf("ready with a Postgres that only reads: %+v", got)
	}
	r.readOnly(false)
	r.awaitStatus(id, "READ")
	r.once([]string{"not written down"})
	r.awaitReady("ready", wholly)
}

// readOnly changes the database for everyone who connects, and ends the connections that there are.
func (r *rig) readOnly(on bool) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.cfg.PostgresURL)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	setting := "off"
	if on {
		setting = "on"
	}
	for _, sql := range []string{
		`SET default_transaction_read_only = off`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = ` + setting + `', current_database()); END $$`,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
	} {
		if _, err := conn.Exec(r.t.Context(), sql); err != nil {
			r.t.Fatal(err)
		}
	}
}
