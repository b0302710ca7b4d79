package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/services/app"
)

// Promise P7: with Postgres down for all of 100 sends, all are accepted, sent, receipted and told; afterwards the view is complete.
func TestP7PostgresStoppedFor100Sends(t *testing.T) {
	t.Parallel()
	var pg *postgres.Managed
	r := newRig(t, func(c *app.Config) {
		pg = pgtest.Server(t, nil)
		c.PostgresURL = pg.URL()
	})
	r.awaitStatus(r.send("before the outage"), "READ")
	if err := pg.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 100 {
		ids = append(ids, r.send(fmt.Sprintf("outage %d", i)))
	}
	eventually(t, "all sent", func() bool { return r.ledger("outage ") == len(ids) }, func() string { return fmt.Sprint(r.ledger("outage ")) })
	eventually(t, "all told", func() bool {
		for _, id := range ids {
			if count(r.hooks(id), "message.read") == 0 {
				return false
			}
		}
		return true
	}, nil)
	if status, out := r.do(http.MethodGet, "/v1/messages/"+ids[0], r.keys.Own, nil); status != http.StatusServiceUnavailable {
		t.Errorf("read without Postgres: %d %v", status, out)
	}
	if status, out := r.do(http.MethodGet, "/v1/messages", r.keys.Own, nil); status != http.StatusServiceUnavailable {
		t.Errorf("list without Postgres: %d %v", status, out)
	}
	if status, out := r.do(http.MethodGet, "/readyz?verbose", "", nil); status != http.StatusOK || out["status"] != "degraded" {
		t.Errorf("ready without Postgres: %d %v", status, out)
	}
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		r.awaitStatus(id, "READ")
		if got := r.timeline(id); len(got) != 6 {
			t.Fatalf("timeline %v", got)
		}
	}
}

// A restart loses nothing and sends nothing twice; what was pending leaves, also what was scheduled.
func TestRestartGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 60, TextContains: "restart"})
	var ids []string
	for i := range 30 {
		ids = append(ids, r.send(fmt.Sprintf("restart %d", i)))
	}
	scheduled := r.send("restart scheduled", func(m map[string]any) {
		m["deliverAt"] = time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
	})
	addr := r.app.URLs().Ingest
	r.stop()
	r.cfg.IngestAddr = addr[len("http://"):] // the gateway goes on posting there
	r.start()
	for _, id := range append(ids, scheduled) {
		r.await(id, "DISPATCHED or more", func(m map[string]any) bool { return m["stage"] == "DISPATCHED" || m["sentAt"] != nil })
	}
	if n := r.ledger("restart "); n != len(ids)+1 {
		t.Fatalf("ledger %d for %d messages", n, len(ids)+1)
	}
}

// A deployment whose master key is gone must not get a new one: nothing sealed could be read, and nobody would notice.
func TestK1LostMasterKeyIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.awaitStatus(r.send("sealed"), "READ")
	r.stop()
	if err := os.Remove(r.cfg.MasterKeyPath()); err != nil {
		t.Fatal(err)
	}
	_, err := app.Start(t.Context(), r.cfg, app.Roles(), r.logger())
	if err == nil || !strings.Contains(err.Error(), "master key") {
		t.Fatalf("started all the same: %v", err)
	}
	if _, err := os.Stat(r.cfg.MasterKeyPath()); err == nil {
		t.Error("a new master key was made")
	}
}
