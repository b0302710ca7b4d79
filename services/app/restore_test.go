package app

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
)

// A store that is put back from an older copy holds the partition concerned until an operator's word. The process stays in service for the
// others, and says so loudly.
func TestRestoredStoreIsNoticed(t *testing.T) {
	t.Parallel()
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	c.Local(t.TempDir())
	c.MetricsAddr, c.Partitions, c.WitnessEvery = "127.0.0.1:0", 2, 20*time.Millisecond
	p := events.PartitionOf("inst-1", c.Partitions)
	live := func(c Config, then func(*App)) {
		t.Helper()
		a, err := Start(t.Context(), c, []Role{RoleDispatcher}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		defer stopNow(t, a)
		then(a)
	}
	pause := func(a *App) {
		appendPause(t, a, p)
		eventually(t, func() bool {
			m, err := a.guard.witness.Read(p.String())
			last, lastErr := a.Events().LastSequence(t.Context(), events.EventsStream(p))
			return err == nil && lastErr == nil && m.Sequence == last
		})
	}
	store, older := filepath.Join(c.DataDir, "nats"), t.TempDir()
	live(c, pause)
	if err := os.CopyFS(older, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	live(c, pause)
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(store, os.DirFS(older)); err != nil {
		t.Fatal(err)
	}
	live(c, func(a *App) {
		eventually(t, func() bool {
			status, text := probe(t, a)
			return status == http.StatusOK && strings.Contains(text, "log ok") && strings.Contains(text, "history err") && strings.Contains(text, "dispatcher err")
		})
		if n := testutil.ToFloat64(a.metrics.held); n != 1 {
			t.Errorf("%v partitions are held, want one", n)
		}
		for _, q := range a.Partitions() {
			if err := a.guard.admit(events.EventSubject(q, "inst-1", events.GroupEvidence, "late")); (err != nil) != (q == p) {
				t.Errorf("an append to partition %s: %v", q, err)
			}
		}
	})
	c.AcceptLog = []string{fmt.Sprintf("%s:1", p)}
	well := func(a *App) {
		eventually(t, func() bool { status, _ := probe(t, a); return status == http.StatusOK })
	}
	live(c, well)
	c.AcceptLog = nil
	live(c, well)
}

func appendPause(t *testing.T, a *App, p events.Partition) {
	t.Helper()
	_, err := a.Events().Append(t.Context(), events.Event{
		Address:  events.EventSubject(p, "inst-1", events.GroupInstance, "paused"),
		Envelope: events.Envelope{ID: uuid.NewString(), Type: events.TypeInstancePaused, Source: "pilot/test", Time: time.Now().UTC()},
		Body:     &events.InstanceChanged{By: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func probe(t *testing.T, a *App) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URLs().Metrics+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	awaittest.Eventually(t, time.Minute, 20*time.Millisecond, "what the test waits for", ok, nil)
}
