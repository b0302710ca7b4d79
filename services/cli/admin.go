package cli

import (
	"context"
	"fmt"
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
}

type bootstrapCmd struct {
	NATSURL string        `name:"nats-url" help:"URL of the NATS server; of the embedded one by default." default:"nats://127.0.0.1:4222" env:"PILOT_NATS_URL"`
	Name    string        `help:"Of the person, 1 to 40 of a-z, 0-9 and '-': the author of every change made with the key." required:""`
	Force   bool          `help:"Also when there are operators already."`
	Within  time.Duration `help:"Deadline." default:"30s"`
}

// Run makes the key. It writes without the sync of a process that commits in groups: a power cut in the same moment may lose
// it, and then it is made again.
func (c *bootstrapCmd) Run(s *session) error {
	ctx, cancel := context.WithTimeout(s.ctx, c.Within)
	defer cancel()
	nc, _, log, err := s.adminLog(ctx, c.NATSURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	key, err := control.Bootstrap(ctx, log, c.Name, c.Force)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.stdout, key.Reveal())
	return err
}

// adminLog reaches the log of a running Pilot for a command that writes to the control plane. The caller closes the connection.
func (s *session) adminLog(ctx context.Context, url string) (*nats.Conn, jetstream.JetStream, *eventlog.Log, error) {
	nc, err := natsserver.Connect(ctx, url, natsserver.Client{Name: "pilot admin"})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w (is `pilot up` running, and --nats-url right?)", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, nil, fmt.Errorf("open jetstream: %w", err)
	}
	return nc, js, eventlog.New(js, eventlog.Options{Logger: logger("error", "console", s.stderr)}), nil
}
