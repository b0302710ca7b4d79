package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
)

// degrades says what does not work while a role is unwell, where it is not the role itself.
var degrades = map[string]string{"dispatcher": "sending", "projector": "reads", "deliveries": "webhooks", "fanout": "webhooks", "correlator": "receipts", "reconciler": "receipts"}

// partPartitions is the name of the part that looks at partitions and of its check.
const partPartitions = "partitions"

// roleHealth is what a role knows of itself beyond whether its parts run. Each field may be nil.
type roleHealth struct {
	// work says why the role does nothing in a partition, and why it does nothing at all.
	work func() (map[events.Partition]error, error)
	// some says what else is wrong, while the role does its work.
	some func() error
}

// health lists the checks of this process: the log and the control plane, without which nothing works, what is wrong with single
// partitions, and every role it runs. None of them asks anybody, so that a probe is answered at once.
func (a *App) health() []api.Check {
	checks := []api.Check{
		{Name: "log", Run: func(context.Context) error { return a.nothingAccepted() }},
		{Name: partPartitions, Degrades: "sending", Run: func(context.Context) error {
			failed, _ := a.appends.failures(a.look.answered)
			return errors.Join(a.sup.check(partPartitions, nil), joined(a.look.away()), joined(failed))
		}},
		{Name: partHistory, Degrades: "sending", Run: func(context.Context) error {
			return errors.Join(a.sup.check(partHistory, nil), joined(a.guard.held()))
		}},
		{Name: "control", Run: func(context.Context) error { return errors.Join(a.sup.check("control", nil), a.p.feed.Current()) }},
	}
	for _, role := range a.sup.roles() {
		if slices.ContainsFunc(checks, func(c api.Check) bool { return c.Name == role }) {
			continue
		}
		what := degrades[role]
		if what == "" {
			what = role
		}
		checks = append(checks, api.Check{Name: role, Degrades: what, Run: func(context.Context) error {
			err := a.idle(role, nil)
			if some := a.ready[role].some; some != nil {
				err = errors.Join(err, some())
			}
			return err
		}})
	}
	return checks
}

// nothingAccepted says why no partition takes anything: all are away or held, the disk failed, or takes no more. While one accepts, a
// load balancer must not take out every process for the others.
func (a *App) nothingAccepted() error {
	var err error
	if apart := a.apart(); len(apart) == len(a.p.partitions()) {
		err = joined(apart)
	}
	if a.p.commit != nil {
		err = errors.Join(err, a.p.commit.Err())
	}
	_, failed := a.appends.failures(a.look.answered)
	return errors.Join(err, failed)
}

// apart says of each partition that takes no part, whatever this process does, why: it is away, or held by the guard.
func (a *App) apart() map[events.Partition]error {
	out := a.look.away()
	maps.Copy(out, a.guard.held())
	return out
}

// idle says where a role does nothing, except in some partitions.
func (a *App) idle(role string, except map[events.Partition]error) error {
	err := a.sup.check(role, except)
	work := a.ready[role].work
	if work == nil {
		return err
	}
	by, whole := work()
	maps.DeleteFunc(by, func(p events.Partition, _ error) bool { return except[p] != nil })
	return errors.Join(err, whole, joined(by))
}

// joined is one error of those of partitions, in their order.
func joined(by map[events.Partition]error) error {
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(by)) {
		errs = append(errs, by[p])
	}
	return errors.Join(errs...)
}

// probes serves /metrics, and /livez and /readyz for processes without an API: 200 while each role does its work in all partitions that
// take part. One that is away or held concerns no single process: it is named, and fails none. Neither does an instance that is stopped.
func (a *App) probes() http.Handler {
	checks := a.health()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.handler())
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status, text := http.StatusOK, ""
		for _, c := range checks {
			word := "ok"
			if err := c.Run(r.Context()); err != nil {
				word = "err"
				a.log.Warn().Err(err).Str("check", c.Name).Msg("not ready")
				if c.Degrades == "" || !a.partial(c.Name) {
					status = http.StatusServiceUnavailable
				}
			}
			text += fmt.Sprintf("%s %s\n", c.Name, word)
		}
		plain(w, status, text)
	})
	return mux
}

// partial reports that what a check says concerns single partitions or instances only.
func (a *App) partial(check string) bool {
	return check == partPartitions || check == partHistory || a.idle(check, a.apart()) == nil
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("content-type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the prober has gone: nobody to tell
}
