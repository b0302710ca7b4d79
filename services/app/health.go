package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// degrades says what does not work while a role is unwell, where it is not the role itself.
var degrades = map[string]string{"dispatcher": "sending", "projector": "reads", "deliveries": "webhooks", "fanout": "webhooks", "correlator": "receipts", "reconciler": "receipts"}

// health lists the checks of this process: the log and the control plane, without which nothing works, and every role it runs.
func (a *App) health(log *eventlog.Log) []api.Check {
	checks := []api.Check{
		{Name: "log", Run: func(ctx context.Context) error {
			var err error
			for _, p := range a.p.partitions() {
				_, e := log.LastSequence(ctx, events.EventsStream(p))
				err = errors.Join(err, e)
			}
			if a.p.commit != nil {
				err = errors.Join(err, a.p.commit.Err())
			}
			return errors.Join(err, a.appends.err())
		}},
		{Name: partHistory, Run: func(context.Context) error { return errors.Join(a.sup.check(partHistory), a.guard.err()) }},
		{Name: "control", Run: func(context.Context) error { return errors.Join(a.sup.check("control"), a.p.feed.Current()) }},
	}
	for _, role := range a.sup.roles() {
		if role == "control" || role == partHistory {
			continue
		}
		what := degrades[role]
		if what == "" {
			what = role
		}
		checks = append(checks, api.Check{Name: role, Degrades: what, Run: func(context.Context) error {
			if err := a.sup.check(role); err != nil || a.ready[role] == nil {
				return err
			}
			return a.ready[role]()
		}})
	}
	return checks
}

// probes serves /metrics, and /livez and /readyz for roles that have no API of their own: 200 while every check holds.
func (a *App) probes() http.Handler {
	checks := a.health(a.p.events)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.handler())
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), probeLimit)
		defer cancel()
		status, text := http.StatusOK, ""
		for _, c := range checks {
			word := "ok"
			if err := c.Run(ctx); err != nil {
				status, word = http.StatusServiceUnavailable, "err"
				a.log.Warn().Err(err).Str("check", c.Name).Msg("not ready")
			}
			text += c.Name + " " + word + "\n"
		}
		plain(w, status, text)
	})
	return mux
}

// probeLimit bounds the checks of one probe.
const probeLimit = 3 * time.Second

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("content-type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the prober has gone: nobody to tell
}
