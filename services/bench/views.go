package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/services/app"
)

const (
	logInstances = 200  // of a log that is made up
	liveRate     = 200  // events/s that arrive while a live view is replaced
	near         = 2000 // what a rebuild may lack in each partition (rebuild.Config)
	tenth        = 10   // the small log is this part of the large one, to see that memory does not grow with it
)

// rebuilt and audited are what the commands say at their end, as far as it is a figure.
type rebuilt struct {
	Events          uint64
	EventsPerSecond float64
	HeldMS          float64
	PeakMiB         float64
}

type audited struct {
	Events   uint64
	Findings int
	PeakMiB  float64
}

// views measures `pilot projections rebuild` and `pilot audit verify` as commands of their own, on a log of a tenth of the
// events and then on all of them. Server and Postgres are in other processes: what a command held is its own.
func views(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) (err error) {
	m, err := newMade(ctx, dir, logInstances, true, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	for _, part := range []struct {
		events       int
		name, schema string
	}{{s.Events / tenth, "_tenth", "tenth"}, {s.Events, "", m.cfg.Schema}} {
		began, had := time.Now(), m.stored()
		if err := m.fill(ctx, part.events, (*teller).step); err != nil {
			return err
		}
		if err := say(Figure{"log_made" + part.name, float64(m.stored()-had) / time.Since(began).Seconds(), "events/s"}); err != nil {
			return err
		}
		if err := m.up(ctx, natsserver.SyncAlways); err != nil {
			return err
		}
		if err := m.measure(ctx, s, part.name, part.schema, say); err != nil {
			return err
		}
		if err := m.down(ctx); err != nil {
			return err
		}
	}
	if !s.wants(Rebuild) {
		return nil
	}
	return m.replace(ctx, s, say)
}

// commandArgs says where a command finds log and views.
func (m *made) commandArgs(schema string) []string {
	return []string{
		"--data-dir", filepath.Join(m.cfg.DataDir, "command"), "--nats-url", m.app.URLs().NATS, "--postgres-url", m.cfg.PostgresURL, "--schema", schema,
	}
}

// measure makes the views in an empty schema, and audits the log with them.
func (m *made) measure(ctx context.Context, s Settings, suffix, schema string, say func(...Figure) error) error {
	made, _, err := command[rebuilt](ctx, s.Binary, append([]string{"projections", "rebuild"}, m.commandArgs(schema)...)...)
	if err != nil {
		return err
	}
	// Without a projector on the live view a rebuild ends near the end of the log.
	if made.Events+near*uint64(len(m.tellers)) < m.stored() {
		return fmt.Errorf("the views were made from %d of %d events", made.Events, m.stored())
	}
	if s.wants(Rebuild) {
		if err := say(Figure{"rebuild" + suffix, made.EventsPerSecond, "events/s"}, Figure{"rebuild_peak_rss" + suffix, made.PeakMiB, "MiB"}); err != nil {
			return err
		}
	}
	if !s.wants(Audit) {
		return nil
	}
	said, elapsed, err := command[audited](ctx, s.Binary, append([]string{"audit", "verify"}, m.commandArgs(schema)...)...)
	if err != nil {
		return err
	}
	if said.Events != m.stored() || said.Findings > 0 {
		return fmt.Errorf("the audit read %d of %d events and found %d faults", said.Events, m.stored(), said.Findings)
	}
	return say(Figure{"audit" + suffix, float64(said.Events) / elapsed.Seconds(), "events/s"}, Figure{"audit_peak_rss" + suffix, said.PeakMiB, "MiB"})
}

// replace puts new views in the place of live ones, while events arrive and a projector follows them.
func (m *made) replace(ctx context.Context, s Settings, say func(...Figure) error) error {
	if err := m.up(ctx, natsserver.SyncAlways, app.RoleProjector); err != nil {
		return err
	}
	tctx, cancel := context.WithCancel(ctx)
	defer cancel()
	traffic, tctx := errgroup.WithContext(tctx)
	traffic.Go(func() error { return m.keepTelling(tctx, liveRate) })
	made, elapsed, err := command[rebuilt](tctx, s.Binary, append([]string{"projections", "rebuild"}, m.commandArgs(m.cfg.Schema)...)...)
	cancel()
	if err := errors.Join(traffic.Wait(), err); err != nil {
		return err
	}
	if err := m.down(ctx); err != nil {
		return err
	}
	return say(Figure{"rebuild_live", made.EventsPerSecond, "events/s"}, Figure{"rebuild_live_whole", elapsed.Seconds(), "s"},
		Figure{"rebuild_live_held", made.HeldMS, "ms"}, Figure{"rebuild_live_peak_rss", made.PeakMiB, "MiB"})
}
