// Package cli is the command line of Pilot: it reads flags and environment, and calls what does the work.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/heap"
	"pilotstatus.dev/services/app"
)

// commands is the grammar.
type commands struct {
	Up         upCmd   `cmd:"" help:"Run every role in one process."`
	API        roleCmd `cmd:"" name:"api" help:"Run the API."`
	Dispatcher roleCmd `cmd:"" help:"Run a dispatcher."`
	Ingest     roleCmd `cmd:"" help:"Take what gateways say by webhook."`
	Correlator roleCmd `cmd:"" help:"Bind what gateways said to messages."`
	Projector  roleCmd `cmd:"" help:"Write the views in Postgres."`
	Notifier   roleCmd `cmd:"" help:"Deliver customer webhooks."`
	Reconciler roleCmd `cmd:"" help:"Ask gateways for receipts that did not come, and end what no dispatcher ends."`

	Evolutionsim simCmd         `cmd:"" help:"Run a simulated gateway, for tests and demonstrations."`
	Gateway      gatewayCmd     `cmd:"" help:"Ask what an answer of a gateway means."`
	Receipts     receiptsCmd    `cmd:"" help:"Ask what a webhook of a gateway means."`
	Demo         demoCmd        `cmd:"" help:"Start everything on free ports, send three messages, show what became of them, and stop."`
	Bench        benchCmd       `cmd:"" help:"Measure, and print JSON lines: name, value, unit."`
	Crash        crashCmd       `cmd:"" help:"Kill and stop real processes at every failpoint, and hold what becomes of the messages against the promises."`
	Projections  projectionsCmd `cmd:"" help:"Rebuild the views."`
	Audit        auditCmd       `cmd:"" help:"Ask the log: about one message, or whether all of it is whole."`
	Instance     instanceCmd    `cmd:"" help:"An operator's word for an instance."`
	Message      messageCmd     `cmd:"" help:"An operator's word for one message."`
	Admin        adminCmd       `cmd:"" help:"Make the first operator's key; import from an older system."`
	Version      versionCmd     `cmd:"" help:"Print the version."`
}

// session is what commands get beside their own flags.
type session struct {
	ctx            context.Context
	version        string
	stdout, stderr io.Writer
}

// Run executes one command line. Usage errors are returned like any other; `--help` is none.
func Run(ctx context.Context, args []string, version string, stdout, stderr io.Writer) error {
	var c commands
	exited := false
	parser, err := kong.New(&c, kong.Name("pilot"),
		kong.Description("Pilot sends WhatsApp messages for many tenants and always tells the truth about what happened to each one."),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { exited = true }), kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		return fmt.Errorf("build command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	if exited { // --help has answered
		return nil
	}
	if err != nil {
		return err
	}
	return k.Run(&session{ctx: ctx, version: version, stdout: stdout, stderr: stderr})
}

type versionCmd struct{}

func (versionCmd) Run(s *session) error {
	_, err := fmt.Fprintln(s.stdout, s.version)
	return err
}

// The settings of zerolog are of the process: they are set before anything logs.
func init() {
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.DurationFieldUnit = time.Millisecond
}

// logger makes the process's logger.
func logger(level, format string, out io.Writer) zerolog.Logger {
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		l = zerolog.InfoLevel
	}
	if format == "console" {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000", NoColor: os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(out).Level(l).With().Timestamp().Logger()
}

// roleCmd runs the one role it is named after.
type roleCmd struct {
	app.Config `embed:""`
}

// Run runs the role until a signal.
func (c *roleCmd) Run(s *session, k *kong.Context) error {
	return serve(s, c.Config, []app.Role{app.Role(k.Selected().Name)}, nil)
}

// keepHeap has the heap of a process that lasts follow its work, until it is stopped. GOGC in the environment has the last word.
func keepHeap(ctx context.Context) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { heap.Keep(ctx) })
	return func() {
		cancel()
		keeper.Wait()
	}
}

// serve starts roles and stops them when the session ends.
func serve(s *session, cfg app.Config, roles []app.Role, started func(context.Context, *app.App) (stop func(context.Context) error, err error)) (err error) {
	defer keepHeap(s.ctx)()
	log := logger(cfg.LogLevel, cfg.LogFormat, s.stderr)
	a, err := app.Start(s.ctx, cfg, roles, log)
	if err != nil {
		return err
	}
	var stopMore func(context.Context) error
	if started != nil {
		stopMore, err = started(s.ctx, a)
	}
	if err == nil {
		<-s.ctx.Done()
		log.Info().Msg("stopping")
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), cfg.StopWithin)
	defer cancel()
	stopErr := a.Stop(bounded)
	if stopMore != nil {
		stopErr = joined(stopErr, stopMore(bounded))
	}
	return joined(err, stopErr)
}
