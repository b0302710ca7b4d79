package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/courtesy"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/snapshots"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/projections/schema"
	"pilotstatus.dev/projections/views"
	"pilotstatus.dev/services/control"
)

// platform is what roles stand on: the log, the keys, the control plane and Postgres.
type platform struct {
	cfg Config
	log zerolog.Logger

	server     *natsserver.Server // nil with an external one
	commit     *commit            // nil unless the embedded server commits in groups
	courtesy   *courtesy.Courtesy // of work in the background; nil: it waits for nobody
	onSync     func(elapsed time.Duration, waiters int)
	onStuck    func(stream string)
	conns      []*nats.Conn
	deployment topology.Deployment
	events     *eventlog.Log
	leases     *eventlog.Leases
	keys       *keyring.Keyring
	secrets    control.Secrets
	feed       *control.Feed

	managed     *postgres.Managed // nil with an external one, or without a role that needs it
	postgresURL string
	pool        *pgxpool.Pool
	views       *views.Views
}

// openLog starts or reaches NATS, and makes sure that the topology is what the table says.
func (p *platform) openLog(ctx context.Context) error {
	if p.cfg.NATSURL == "" {
		port := p.cfg.NATSPort
		if port == 0 {
			port = natsserver.RandomPort
		}
		store := filepath.Join(p.cfg.DataDir, "nats")
		policy, err := p.openCommit(store)
		if err != nil {
			return err
		}
		srv, err := natsserver.Start(ctx, natsserver.Config{StoreDir: store, Port: port, Sync: policy, Logger: p.log})
		if err != nil {
			return err
		}
		p.server = srv
	}
	nc, err := p.connect(ctx, "main")
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	p.events = p.logOver(js, urgent)
	first := topology.Deployment{Partitions: p.cfg.Partitions, Replicas: p.cfg.Replicas, LaneCap: p.cfg.LaneCap}
	if _, err := topology.EnsureControl(ctx, js, first); err != nil {
		return fmt.Errorf("ensure control: %w", err)
	}
	recorded, err := topology.EnsureDeployment(ctx, p.events, p.cfg.Partitions, time.Now())
	if err != nil {
		return err
	}
	p.deployment = first
	p.deployment.Partitions = recorded.Partitions
	changes, err := topology.Ensure(ctx, js, p.deployment)
	if err != nil {
		return fmt.Errorf("ensure topology: %w", err)
	}
	made := 0
	for _, c := range changes {
		if c.Unseen {
			p.log.Error().Str("stream", c.Name).Msg("a partition gives no answer: the others go on, and its stream is not compared with what it should be")
		} else {
			made++
		}
	}
	if made > 0 {
		p.log.Info().Int("changes", made).Msg("topology made")
	}
	p.leases = eventlog.NewLeases(p.events, p.deployment)
	return p.openKeys(ctx, nc, js)
}

// connect opens a connection of its own: a busy reader does not delay another part's acknowledgements. The embedded server is
// reached through its loopback socket too: the in-process pipe has no buffer, and with many goroutines on one connection it
// gave a third of the throughput (docs/architecture.md).
func (p *platform) connect(ctx context.Context, name string) (*nats.Conn, error) {
	client := natsserver.Client{Name: "pilot " + name, OnError: func(err error) {
		p.log.Warn().Err(err).Str("connection", name).Msg("nats")
	}}
	url := p.cfg.NATSURL
	if p.server != nil {
		url = p.server.ClientURL()
	}
	nc, err := natsserver.Connect(ctx, url, client)
	if err != nil {
		return nil, err
	}
	p.conns = append(p.conns, nc)
	if p.server == nil && nc.ConnectedServerName() == natsserver.GroupName {
		return nil, errForeignCommit
	}
	return nc, nil
}

// haste says how a part of the process waits for the disk under group commit, and for codes that are on their way.
type haste int

const (
	urgent  haste = iota // a customer's request or a call hangs on it
	patient              // it lets these go first
)

// logFor gives a log over a connection of its own.
func (p *platform) logFor(ctx context.Context, name string, h haste) (*eventlog.Log, error) {
	nc, err := p.connect(ctx, name)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return p.logOver(js, h), nil
}

func (p *platform) logOver(js jetstream.JetStream, h haste) *eventlog.Log {
	opts := eventlog.Options{Logger: p.log, OnStuck: p.onStuck}
	if h == patient && p.courtesy != nil {
		opts.Courtesy = p.courtesy
	}
	switch {
	case p.commit == nil:
	case h == patient:
		opts.Durability = p.commit.Patient()
	default:
		opts.Durability = p.commit.Syncer
	}
	return eventlog.New(js, opts)
}

// logsFor gives a log for each partition, each over a connection of its own.
func (p *platform) logsFor(ctx context.Context, name string, h haste) ([]*eventlog.Log, error) {
	out := make([]*eventlog.Log, 0, p.deployment.Partitions)
	for _, part := range p.partitions() {
		log, err := p.logFor(ctx, name+" "+part.String(), h)
		if err != nil {
			return nil, err
		}
		out = append(out, log)
	}
	return out, nil
}

// snapshots opens the store of the dispatcher's folds over a connection of its own: a large one delays nothing else.
func (p *platform) snapshots(ctx context.Context) (*snapshots.Store, error) {
	nc, err := p.connect(ctx, "snapshots")
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return snapshots.Open(ctx, js)
}

func (p *platform) openKeys(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) error {
	path := p.cfg.MasterKeyPath()
	master, err := keyring.LoadMaster(path)
	kv, kvErr := js.KeyValue(ctx, topology.BucketKeys)
	if kvErr != nil {
		return fmt.Errorf("open bucket of keys: %w", kvErr)
	}
	if errors.Is(err, fs.ErrNotExist) && p.cfg.MasterKeyFile == "" {
		if err := noKeysYet(ctx, kv, path); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make directory of the master key: %w", err)
		}
		if master, err = keyring.CreateMaster(path); err == nil {
			p.log.Warn().Str("file", path).Msg("a master key was made: keep a copy of this file apart, without it nothing sealed can be read")
		}
	}
	if err != nil {
		return fmt.Errorf("master key: %w", err)
	}
	p.keys = keyring.New(keyring.Leader(nc, kv, 0), master, keyring.Options{})
	p.secrets = control.NewSecrets(p.keys)
	return nil
}

// noKeysYet refuses to make a master key for a deployment that has data keys: they are wrapped by another one, which is lost
// or not at its place, and nothing sealed could be read.
func noKeysYet(ctx context.Context, kv jetstream.KeyValue, path string) error {
	status, err := kv.Status(ctx)
	if err != nil {
		return fmt.Errorf("look at the bucket of keys: %w", err)
	}
	if status.Values() > 0 {
		return fmt.Errorf("master key: there is no %s, and this deployment has data keys under one: put the file back (docs/runbook.md)", path)
	}
	return nil
}

// openPostgres runs the managed server or takes the URL. It does not wait for an external one: without it messages are
// accepted, sent and told to customers all the same (promise P7).
func (p *platform) openPostgres(ctx context.Context) error {
	p.postgresURL = p.cfg.PostgresURL
	if p.postgresURL == "" {
		m, err := postgres.Start(ctx, postgres.ManagedConfig{
			DataDir: filepath.Join(p.cfg.DataDir, "postgres"), Port: p.cfg.PostgresPort, Logger: p.log,
		})
		if err != nil {
			return err
		}
		p.managed, p.postgresURL = m, m.URL()
	}
	pool, err := schema.Open(ctx, p.postgresURL, p.cfg.Schema, postgres.Settings{MaxConns: 16})
	if err != nil {
		return err
	}
	p.pool = pool
	return nil
}

// keepPostgres starts the managed server again when it ends by itself; its port stays.
func (p *platform) keepPostgres(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-p.managed.Done():
			if ctx.Err() != nil {
				break
			}
			p.log.Error().Msg("the managed Postgres ended by itself; it is started again")
			if err := p.managed.Start(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// close lets go of everything, the newest first.
func (p *platform) close(ctx context.Context) error {
	var errs []error
	if p.pool != nil {
		p.pool.Close()
	}
	if p.managed != nil {
		errs = append(errs, p.managed.Stop(ctx))
	}
	for _, nc := range p.conns {
		errs = append(errs, natsserver.Drain(ctx, nc))
	}
	if p.server != nil {
		errs = append(errs, p.server.Stop(ctx))
	}
	if p.commit != nil {
		errs = append(errs, p.commit.close(ctx))
	}
	return errors.Join(errs...)
}

// partitions lists the partitions of the deployment.
func (p *platform) partitions() []events.Partition {
	out := make([]events.Partition, p.deployment.Partitions)
	for i := range out {
		out[i] = events.Partition(i)
	}
	return out
}
