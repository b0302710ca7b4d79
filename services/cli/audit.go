package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/groupcommit"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/projections/audit"
	"pilotstatus.dev/projections/schema"
	"pilotstatus.dev/services/bench"
)

// stores says where the log and Postgres are. What runs in the data directory is used as it runs; what does not is started for the
// time of the command.
type stores struct {
	DataDir      string `help:"Directory of the embedded server and the managed Postgres." default:".pilot" env:"PILOT_DATA_DIR" type:"path"`
	NATSURL      string `name:"nats-url" help:"URL of the NATS server; empty is the one of the data directory." env:"PILOT_NATS_URL"`
	NATSPort     int    `name:"nats-port" help:"Port of a running embedded server." default:"4222" env:"PILOT_NATS_PORT"`
	PostgresURL  string `name:"postgres-url" help:"URL of Postgres; empty is the managed one of the data directory." env:"PILOT_POSTGRES_URL"`
	PostgresPort int    `name:"postgres-port" help:"Port for a managed Postgres that is started; 0 takes a free one." default:"0" env:"PILOT_POSTGRES_PORT"`
	Schema       string `help:"Schema of the live views." default:"pilot" env:"PILOT_SCHEMA"`
	LogLevel     string `help:"Least level that is logged." enum:"debug,info,warn,error" default:"error" env:"PILOT_LOG_LEVEL"`
}

// openStores bounds reaching what a command reads, closeStores letting go of it.
const (
	openStores  = 2 * time.Minute
	closeStores = 30 * time.Second
)

// closers are run in reverse.
type closers []func(context.Context) error

func (c closers) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeStores)
	defer cancel()
	var err error
	for i := len(c) - 1; i >= 0; i-- {
		err = errors.Join(err, c[i](ctx))
	}
	return err
}

// readOnly lets the deployment be read and not made.
type readOnly struct{ *eventlog.Log }

func (readOnly) AppendExpecting(context.Context, events.Event, uint64) (uint64, error) {
	return 0, errors.New("there is no deployment here")
}

// openLog reaches the log and says which partitions it has.
func (s stores) openLog(ctx context.Context, log zerolog.Logger) (_ *eventlog.Log, _ []events.Partition, c closers, err error) {
	ctx, cancel := context.WithTimeout(ctx, openStores)
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close(ctx))
		}
	}()
	url := s.NATSURL
	if url == "" {
		dir := filepath.Join(s.DataDir, "nats")
		if _, err := os.Stat(dir); err != nil {
			return nil, nil, nil, fmt.Errorf("find the log (--data-dir, --nats-url): %w", err)
		}
		srv, err := natsserver.Start(ctx, natsserver.Config{StoreDir: dir, Port: natsserver.RandomPort, Logger: log})
		switch {
		case errors.Is(err, natsserver.ErrStoreInUse):
			url = fmt.Sprintf("nats://%s:%d", natsserver.Loopback, s.NATSPort)
		case err != nil:
			return nil, nil, nil, err
		default:
			c = append(c, srv.Stop)
			url = srv.ClientURL()
		}
	}
	nc, err := natsserver.Connect(ctx, url, natsserver.Client{Name: "pilot operator"})
	if err != nil {
		return nil, nil, c, err
	}
	c = append(c, func(ctx context.Context) error { return natsserver.Drain(ctx, nc) })
	opts := eventlog.Options{Logger: log}
	if nc.ConnectedServerName() == natsserver.GroupName {
		syncer, more, err := s.openSync()
		if err != nil {
			return nil, nil, c, err
		}
		opts.Durability = syncer
		c = append(c, more...)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, nil, c, fmt.Errorf("open jetstream: %w", err)
	}
	l := eventlog.New(js, opts)
	deployment, err := topology.EnsureDeployment(ctx, readOnly{l}, 0, time.Time{})
	if err != nil {
		return nil, nil, c, err
	}
	parts := make([]events.Partition, deployment.Partitions)
	for i := range parts {
		parts[i] = events.Partition(i)
	}
	return l, parts, c, nil
}

// openSync syncs the store of a running server that commits in groups: what is read from it may not be on disk yet, and a view
// that is made from it must not be ahead of the log after a power cut.
func (s stores) openSync() (*groupcommit.Syncer, closers, error) {
	if s.NATSURL != "" {
		return nil, nil, errors.New("the server of --nats-url commits in groups: leave it out and name its --data-dir")
	}
	return syncStore(s.DataDir)
}

// syncStore syncs the file system of the store in a data directory.
func syncStore(dir string) (*groupcommit.Syncer, closers, error) {
	disk, err := groupcommit.Open(filepath.Join(dir, "nats"))
	if err != nil {
		return nil, nil, err
	}
	syncer := groupcommit.Start(disk.Sync, groupcommit.Options{})
	return syncer, closers{func(context.Context) error { return disk.Close() }, syncer.Close}, nil
}

// openPostgres gives the URL of Postgres.
func (s stores) openPostgres(ctx context.Context, log zerolog.Logger) (string, closers, error) {
	if s.PostgresURL != "" {
		return s.PostgresURL, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openStores)
	defer cancel()
	dir := filepath.Join(s.DataDir, "postgres")
	m, err := postgres.Start(ctx, postgres.ManagedConfig{DataDir: dir, Port: s.PostgresPort, Logger: log})
	if errors.Is(err, postgres.ErrInUse) {
		url, err := runningPostgres(dir)
		return url, nil, err
	}
	if err != nil {
		return "", nil, err
	}
	return m.URL(), closers{m.Stop}, nil
}

// runningPostgres gives the URL of a managed server that another process runs, from the files it keeps (docs/runbook.md).
func runningPostgres(dir string) (string, error) {
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	if err != nil {
		return "", fmt.Errorf("find the managed Postgres (--postgres-url): %w", err)
	}
	cluster := filepath.Join(dir, "cluster")
	if place, err := os.ReadFile(filepath.Join(dir, "place")); err == nil {
		cluster = strings.TrimSpace(string(place))
	}
	pid, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if err != nil {
		return "", fmt.Errorf("find the managed Postgres (--postgres-url): %w", err)
	}
	lines := strings.Split(string(pid), "\n")
	if len(lines) < 4 {
		return "", errors.New("find the managed Postgres (--postgres-url): it is starting")
	}
	return fmt.Sprintf("postgres://pilot:%s@127.0.0.1:%s/pilot?sslmode=disable", strings.TrimSpace(string(password)), strings.TrimSpace(lines[3])), nil
}

type auditCmd struct {
	Message auditMessageCmd `cmd:"" help:"Tell the life of a message from the log alone: events, positions, the fold after each. Postgres is not needed."`
	Verify  auditVerifyCmd  `cmd:"" help:"Read the whole log and compare it with every row of the views and with the digests that were kept. Ends with 1 when it finds anything."`
}

type auditMessageCmd struct {
	stores `embed:""`
	ID     string        `arg:"" help:"Message id."`
	JSON   bool          `name:"json" help:"Print JSON."`
	Within time.Duration `help:"Bound of the whole search." default:"5m"`
}

// Run prints a story.
func (c *auditMessageCmd) Run(s *session) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, c.Within)
	defer cancel()
	l, _, open, err := c.openLog(ctx, logger(c.LogLevel, "console", s.stderr))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close(ctx)) }()
	story, err := audit.Message(ctx, l, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		enc := json.NewEncoder(s.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(story)
	}
	return printStory(s.stdout, story)
}

func printStory(out io.Writer, story audit.Story) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s  instance %s, tenant %s, log read up to %d:%d\n\n", story.MessageID, story.Instance, story.Tenant, story.Partition, story.Head)
	text.WriteString("POSITION\tSTORED\tEVENT\tATTEMPT\tSTAGE\tSTATUS\tATTEMPTS\tSUMMARY\n")
	for _, e := range story.Events {
		attempt := ""
		if e.Attempt > 0 {
			attempt = strconv.Itoa(e.Attempt)
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.Position, e.Stored.Format("2006-01-02T15:04:05.000Z"), e.Event, attempt, e.Stage, e.Status, e.Attempts, e.Summary)
	}
	return aligned(out, text.String())
}

// aligned prints lines of cells, which tabs separate, as columns.
func aligned(out io.Writer, text string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return w.Flush()
}

type auditVerifyCmd struct {
	stores  `embed:""`
	LogOnly bool `help:"Verify the log alone, without Postgres."`
	Limit   int  `help:"Most findings that are printed; all are counted." default:"100"`
}

// errFindings makes the process end with 1.
var errFindings = errors.New("the audit found something")

// Run prints findings and, last, a line of JSON.
func (c *auditVerifyCmd) Run(s *session) (err error) {
	log := logger(c.LogLevel, "console", s.stderr)
	l, parts, open, err := c.openLog(s.ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close(s.ctx)) }()
	cfg := audit.Config{Log: l, Partitions: parts, OnProgress: func(read, of uint64) {
		fmt.Fprintf(s.stderr, "read %d of %d events\n", read, of)
	}}
	if !c.LogOnly {
		url, more, err := c.openPostgres(s.ctx, log)
		if err != nil {
			return err
		}
		open = append(open, more...)
		pool, err := schema.Open(s.ctx, url, c.Schema, postgres.Settings{
			ApplicationName: "pilot audit", StatementTimeout: -1, IdleInTx: -1, MaxConns: 8,
		})
		if err != nil {
			return err
		}
		open = append(open, func(context.Context) error { pool.Close(); return nil })
		cfg.Pool = pool
	}
	var table strings.Builder
	printed := 0
	cfg.OnFinding = func(f audit.Finding) {
		if printed++; printed == 1 {
			table.WriteString("KIND\tPLACE\tTABLE\tMESSAGE\tDETAIL\n")
		}
		if printed <= c.Limit {
			fmt.Fprintf(&table, "%s\t%s\t%s\t%s\t%s\n", f.Kind, f.Place(), f.Table, f.MessageID, f.Detail)
		}
	}
	report, err := audit.Verify(s.ctx, cfg)
	if printErr := aligned(s.stdout, table.String()); err == nil {
		err = printErr
	}
	if err != nil {
		return err
	}
	_, peak := bench.Memory("self")
	line, err := json.Marshal(struct {
		audit.Report
		PeakMiB float64 `json:"peakMiB"`
	}{report, peak})
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	fmt.Fprintf(s.stdout, "%s\n", line)
	if report.Findings > 0 {
		return errFindings
	}
	return nil
}
