package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/migrate"
)

// importCmd brings the tables of an older system (docs/migrate.md).
type importCmd struct {
	Dir           string `arg:"" type:"existingdir" help:"Directory with tenants, projects, keys, templates and optins, each as .csv or .ndjson, as far as there are any."`
	masterKeyFile `embed:""`
	NATSURL       string        `name:"nats-url" help:"URL of the NATS server; of the embedded one by default." default:"nats://127.0.0.1:4222" env:"PILOT_NATS_URL"`
	DryRun        bool          `help:"Judge every row and say what would be done; record nothing."`
	By            string        `help:"Who does it; empty is the user of this machine." env:"PILOT_OPERATOR"`
	Reason        string        `help:"Why: kept with every change." default:"import"`
	Within        time.Duration `help:"Bound of the whole command." default:"30m"`
}

// Run prints a line for each reason to refuse a row, and the counts as the last line.
func (c *importCmd) Run(s *session) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, c.Within)
	defer cancel()
	nc, js, log, open, err := s.adminLog(ctx, c.NATSURL, c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close(ctx)) }()
	path := c.path()
	var hasher migrate.Hasher
	if master, err := keyring.LoadMaster(path); err == nil {
		kv, err := js.KeyValue(ctx, topology.BucketKeys)
		if err != nil {
			return fmt.Errorf("open bucket of keys: %w", err)
		}
		keys := keyring.New(keyring.Leader(nc, kv, 0), master, keyring.Options{})
		if err := ours(ctx, log, keys); err != nil {
			return fmt.Errorf("master key %s: %w", path, err)
		}
		hasher = keys
	} else if !errors.Is(err, os.ErrNotExist) || c.MasterKeyFile != "" {
		return fmt.Errorf("master key: %w", err)
	}
	by := c.By
	if u, err := user.Current(); by == "" && err == nil {
		by = "operator:" + u.Username
	}
	report, err := migrate.Import(ctx, os.DirFS(c.Dir), log, hasher, migrate.Options{By: by, Reason: c.Reason, DryRun: c.DryRun})
	if err != nil {
		return err
	}
	lines := json.NewEncoder(s.stdout)
	for _, f := range report.Faults {
		if err := lines.Encode(f); err != nil {
			return err
		}
	}
	if err := lines.Encode(report); err != nil {
		return err
	}
	if report.Refused > 0 {
		return fmt.Errorf("%d rows were refused: nothing was recorded", report.Refused)
	}
	return nil
}

// ours checks that a master key is that of the deployment, by a secret that was sealed under it: a hash under another key would
// fit nothing.
func ours(ctx context.Context, log *eventlog.Log, keys *keyring.Keyring) error {
	c, err := migrate.Read(ctx, log)
	if err != nil {
		return err
	}
	for _, in := range c.Instances() {
		_, err := control.NewSecrets(keys).Open(ctx, in.ID, in.GatewayKey)
		return err
	}
	return nil
}
