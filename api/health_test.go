package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestReadyz(t *testing.T) {
	t.Parallel()
	holds := func(context.Context) error { return nil }
	fails := func(context.Context) error { return errors.New("the reason is for the log") }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		log, views func(context.Context) error
		status     int
		body       string
	}{
		"ready":      {holds, holds, 200, `{"status":"ready","degraded":[],"checks":[{"name":"log","status":"ok"},{"name":"postgres","status":"ok"}]}`},
		"no reads":   {holds, fails, 200, `{"status":"degraded","degraded":["reads"],"checks":[{"name":"log","status":"ok"},{"name":"postgres","status":"err"}]}`},
		"no log":     {fails, holds, 503, `{"status":"not_ready","degraded":[],"checks":[{"name":"log","status":"err"},{"name":"postgres","status":"ok"}]}`},
		"both":       {fails, fails, 503, `{"status":"not_ready","degraded":["reads"],"checks":[{"name":"log","status":"err"},{"name":"postgres","status":"err"}]}`},
		"log hangs":  {hangs, holds, 503, `{"status":"not_ready","degraded":[],"checks":[{"name":"log","status":"err"},{"name":"postgres","status":"ok"}]}`},
		"reads hang": {holds, hangs, 200, `{"status":"degraded","degraded":["reads"],"checks":[{"name":"log","status":"ok"},{"name":"postgres","status":"err"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.CheckTimeout = 20 * time.Millisecond
			f.checks = []Check{{Name: "log", Run: c.log}, {Name: "postgres", Degrades: "reads", Run: c.views}}
			f.start()
			for _, verbose := range []string{"?verbose", "?verbose=1"} {
				if r := f.get("/readyz"+verbose, ""); r.status != c.status || strings.TrimSpace(string(r.body)) != c.body {
					t.Errorf("%d %s", r.status, r.body)
				}
			}
			if r := f.get("/readyz", ""); r.status != c.status || strings.Contains(string(r.body), "checks") {
				t.Errorf("%d %s", r.status, r.body)
			}
			if r := f.get("/livez", ""); r.status != http.StatusOK {
				t.Errorf("livez depends on something outside: %d", r.status)
			}
		})
	}
}
