package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
)

type demoCmd struct {
	Within   time.Duration `help:"Bound of the whole demonstration." default:"60s"`
	LogLevel string        `help:"Least level that is logged." enum:"debug,info,warn,error" default:"error" env:"PILOT_LOG_LEVEL"`
}

// Run plays the demonstration in a temporary directory and leaves nothing behind.
func (c *demoCmd) Run(s *session) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, c.Within)
	defer cancel()
	dir, err := scratch("pilot-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, err := app.Defaults()
	if err != nil {
		return err
	}
	cfg.Local(dir)
	log := logger(c.LogLevel, "console", s.stderr)
	sim, err := demo.StartSim(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer sim.Close()
	a, err := app.Start(ctx, cfg, app.Roles(), log)
	if err != nil {
		return err
	}
	stop := func(what func(context.Context) error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.StopWithin)
		defer cancel()
		err = errors.Join(err, what(bounded))
	}
	defer stop(a.Stop)
	stage, err := demo.SetUp(ctx, a.Control(), demo.Outside{GatewayURL: sim.URL(), GatewayKey: sim.APIKey(), HookAddr: "127.0.0.1:0"}, log)
	if err != nil {
		return err
	}
	defer stop(stage.Close)
	player := demo.Player{API: a.URLs().API, Ledger: stage.Gateway + "/sim/ledger", Stage: stage, Out: s.stdout, Within: c.Within}
	result, err := player.Play(ctx)
	if err != nil {
		return err
	}
	line, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	fmt.Fprintf(s.stdout, "\n%s\n", line)
	if !result.Good() {
		return errors.New("the demonstration did not end as it should")
	}
	return nil
}

// scratch makes a temporary directory that the user Postgres runs as can reach.
func scratch(prefix string) (string, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", fmt.Errorf("make a temporary directory: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // others may pass through, not look
		return "", fmt.Errorf("open the temporary directory: %w", err)
	}
	return dir, nil
}
