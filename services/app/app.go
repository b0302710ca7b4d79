package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/courtesy"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/demo"
)

// App is a running process: the platform and the roles on it. Make it with Start, end it with Stop.
type App struct {
	p       *platform
	sup     *supervisor
	roles   []Role
	log     zerolog.Logger
	urls    URLs
	metrics metrics
	ready   map[string]roleHealth // of roles that know more than whether they run
	look    *lookout
	guard   *guard
	appends appendHealth
}

// URLs are the addresses at which a process can be reached; empty for what it does not run.
type URLs struct {
	API, Admin, Ingest, Metrics, NATS, Postgres string // Admin is API unless operators have an address of their own
}

// Start brings up the platform and the roles, in the order they need each other, and returns when all have been started.
// What was started is stopped again when something fails.
func Start(ctx context.Context, cfg Config, roles []Role, log zerolog.Logger) (_ *App, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Log(log, roles)
	ctx, cancel := context.WithTimeout(ctx, cfg.StartWithin)
	defer cancel()
	a := &App{p: &platform{cfg: cfg, log: log, courtesy: courtesy.New(cfg.CodePatience)}, sup: newSupervisor(log), roles: roles, log: log, metrics: newMetrics(), ready: map[string]roleHealth{}}
	a.p.onSync, a.p.onStuck = a.metrics.sync, a.metrics.stuckReader
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.StopWithin)
			defer cancel()
			err = errors.Join(err, a.Stop(stop))
		}
	}()
	if err := a.p.openLog(ctx); err != nil {
		return nil, err
	}
	a.urls.NATS = cfg.NATSURL
	if a.p.server != nil {
		a.urls.NATS = a.p.server.ClientURL()
	}
	if cfg.ContextFile {
		a.writeContext()
	}
	a.look = newLookout(a.p.partitions(), func(ctx context.Context, p events.Partition) error {
		_, err := a.p.events.LastSequence(ctx, events.EventsStream(p))
		return err
	})
	a.sup.start(ctx, partPartitions, a.look.run)
	if err := a.followControl(ctx); err != nil {
		return nil, err
	}
	if a.needs(RoleAPI, RoleProjector, RoleCorrelator, RoleReconciler) {
		if err := a.p.openPostgres(ctx); err != nil {
			return nil, err
		}
		a.urls.Postgres = a.p.postgresURL
		if a.p.managed != nil {
			a.sup.start(ctx, "managed-postgres", a.p.keepPostgres)
		}
	}
	a.startGuard(ctx)
	for _, r := range Roles() {
		if !slices.Contains(roles, r) {
			continue
		}
		if err := starters[r](ctx, a); err != nil {
			return nil, fmt.Errorf("start %s: %w", r, err)
		}
	}
	if cfg.MetricsAddr != "" {
		if a.urls.Metrics, err = a.serve(ctx, "metrics", cfg.MetricsAddr, a.probes()); err != nil {
			return nil, err
		}
	}
	log.Info().Str("api", a.urls.API).Str("ingest", a.urls.Ingest).Msg("started")
	return a, nil
}

func (a *App) needs(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(a.roles, r) })
}

// followControl starts the catalog and waits until it is whole.
func (a *App) followControl(ctx context.Context) error {
	log, err := a.p.logFor(ctx, "control", urgent)
	if err != nil {
		return err
	}
	a.p.feed = control.NewFeed(log, control.Settings{Logger: a.log})
	a.sup.start(ctx, "control", a.p.feed.Run)
	select {
	case <-a.p.feed.Ready():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("read the control plane: %w", context.Cause(ctx))
	}
}

// writeContext makes `nats --context pilot` work; without it everything else does.
func (a *App) writeContext() {
	home, err := natsserver.ConfigHome()
	var path string
	if err == nil {
		path, err = natsserver.WriteContext(home, a.urls.NATS)
	}
	if err != nil {
		a.log.Warn().Err(err).Msg("the nats CLI context was not written")
		return
	}
	a.log.Info().Str("file", path).Msg("nats CLI context written")
}

// URLs gives the addresses of the process.
func (a *App) URLs() URLs { return a.urls }

// Control gives what first data is written with.
func (a *App) Control() demo.Control {
	return demo.Control{Log: a.p.events, Feed: a.p.feed, Secrets: a.p.secrets}
}

// Events gives the log, for who measures or audits.
func (a *App) Events() *eventlog.Log { return a.p.events }

// Partitions lists the partitions of the deployment.
func (a *App) Partitions() []events.Partition { return a.p.partitions() }

// Stop stops the roles in reverse order, then the platform; what does not stop until ctx ends is named in the error.
func (a *App) Stop(ctx context.Context) error {
	began := time.Now()
	err := errors.Join(a.sup.stopAll(ctx), a.p.close(ctx))
	a.log.Info().Err(err).Dur("elapsed", time.Since(began)).Msg("stopped")
	return err
}

// serve runs an HTTP server as a part. It listens at once, so that a taken address is an error of the start.
func (a *App) serve(ctx context.Context, name, addr string, h http.Handler) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for %s (--%s-addr): %w", name, name, err)
	}
	bound := l.Addr().String()
	a.sup.start(ctx, name+"-http", func(ctx context.Context) error {
		if l == nil { // started again
			var err error
			if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", bound); err != nil {
				return err
			}
		}
		listener := l
		l = nil
		srv := api.NewServer(bound, h)
		done := make(chan error, 1)
		go func() { done <- srv.Serve(listener) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpDrain)
			defer cancel()
			err := srv.Shutdown(bounded)
			if err != nil {
				err = errors.Join(err, srv.Close())
			}
			if end := <-done; !errors.Is(end, http.ErrServerClosed) {
				err = errors.Join(err, end)
			}
			return err
		}
	})
	return "http://" + bound, nil
}

// httpDrain is how long requests under way may take when a server stops.
const httpDrain = 10 * time.Second
