package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/services/control"
)

// adminCmd is what operators do without the API: everything else is there (docs/operate.md).
type adminCmd struct {
	Bootstrap bootstrapCmd `cmd:"" help:"Make the first operator's key in a running deployment, and print it once."`
	Import    importCmd    `cmd:"" help:"Bring tenants, projects, keys, templates and opt-ins of an older system from CSV or NDJSON files."`
	MasterKey masterKeyCmd `cmd:"" name:"master-key" help:"Replace the master key, step by step, while messages go on."`
}

type bootstrapCmd struct {
	NATSURL string        `name:"nats-url" help:"URL of the NATS server; of the embedded one by default." default:"nats://127.0.0.1:4222" env:"PILOT_NATS_URL"`
	DataDir string        `help:"Directory of the running server: where it commits in groups, its store is synced before the key is printed." default:".pilot" env:"PILOT_DATA_DIR" type:"path"`
	Name    string        `help:"Of the person, 1 to 40 of a-z, 0-9 and '-': the author of every change made with the key." required:""`
	Force   bool          `help:"Also when there are operators already."`
	Within  time.Duration `help:"Deadline." default:"30s"`
}

// Run makes the key.
func (c *bootstrapCmd) Run(s *session) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, c.Within)
	defer cancel()
	_, _, log, open, err := s.adminLog(ctx, c.NATSURL, c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close(ctx)) }()
	key, err := control.Bootstrap(ctx, log, c.Name, c.Force)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.stdout, key.Reveal())
	return err
}

// adminLog reaches the log of a running Pilot for a command that writes to the control plane. What it writes to a server that commits in
// groups is on disk before the command says so, where that server's store is at hand; where it is not, the command says that a power cut
// in the same moment may take it back.
func (s *session) adminLog(ctx context.Context, url, dataDir string) (_ *nats.Conn, _ jetstream.JetStream, _ *eventlog.Log, c closers, err error) {
	nc, err := natsserver.Connect(ctx, url, natsserver.Client{Name: "pilot admin"})
	if err != nil {
		return nil, nil, nil, nil, fmt.Errorf("%w (is `pilot up` running, and --nats-url right?)", err)
	}
	c = closers{func(context.Context) error { nc.Close(); return nil }}
	opts := eventlog.Options{Logger: logger("error", "console", s.stderr)}
	if nc.ConnectedServerName() == natsserver.GroupName {
		if _, err := os.Stat(filepath.Join(dataDir, "nats")); err != nil {
			fmt.Fprintln(s.stderr, "pilot: the server commits in groups and its store is not in --data-dir: a power cut in this moment may take back what is recorded now")
		} else {
			syncer, more, err := syncStore(dataDir)
			if err != nil {
				return nil, nil, nil, nil, errors.Join(err, c.close(ctx))
			}
			opts.Durability = syncer
			c = append(c, more...)
		}
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, nil, nil, nil, errors.Join(fmt.Errorf("open jetstream: %w", err), c.close(ctx))
	}
	return nc, js, eventlog.New(js, opts), c, nil
}
