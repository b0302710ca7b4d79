package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/services/app"
)

// masterKeyCmd replaces the master key while messages go on (docs/operate.md).
type masterKeyCmd struct {
	Show   masterKeyShowCmd   `cmd:"" help:"Show the ids of the keys in the file, which one is active, and how many data keys each wraps."`
	Add    masterKeyAddCmd    `cmd:"" help:"Add a key that is not active yet, and print its id: each process loads it before one uses it."`
	Use    masterKeyUseCmd    `cmd:"" help:"Make a key the active one: processes that load the file from now on wrap with it."`
	Rewrap masterKeyRewrapCmd `cmd:"" help:"Wrap anew, under the active key, the data keys that others wrap. What they sealed stays as it is."`
	Remove masterKeyRemoveCmd `cmd:"" help:"Take a key out of the file; refused when it is active or wraps a data key. Keep a copy of the file as it was."`
}

// masterKeyFile says where the file is.
type masterKeyFile struct {
	DataDir       string `help:"Directory of the running server, and of the master key." default:".pilot" env:"PILOT_DATA_DIR" type:"path"`
	MasterKeyFile string `name:"master-key-file" help:"File of the master key; empty is master.key in the data directory." env:"PILOT_MASTER_KEY_FILE"`
}

func (f masterKeyFile) path() string {
	return app.Config{DataDir: f.DataDir, MasterKeyFile: f.MasterKeyFile}.MasterKeyPath()
}

type masterKeyAddCmd struct {
	masterKeyFile `embed:""`
}

// Run adds a key.
func (c *masterKeyAddCmd) Run(s *session) error {
	var added string
	if _, err := keyring.ChangeMaster(c.path(), func(m *keyring.Master) (next *keyring.Master, _ error) {
		next, added = m.WithNew()
		return next, nil
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(s.stdout, added)
	return err
}

type masterKeyUseCmd struct {
	masterKeyFile `embed:""`
	ID            string `arg:"" help:"Id of a key in the file."`
}

// Run makes a key the active one.
func (c *masterKeyUseCmd) Run(*session) error {
	_, err := keyring.ChangeMaster(c.path(), func(m *keyring.Master) (*keyring.Master, error) { return m.WithActive(c.ID) })
	return err
}

// masterKeyDeployment is the file beside the deployment whose data keys it wraps.
type masterKeyDeployment struct {
	masterKeyFile `embed:""`
	NATSURL       string        `name:"nats-url" help:"URL of the NATS server; of the embedded one by default." default:"nats://127.0.0.1:4222" env:"PILOT_NATS_URL"`
	Within        time.Duration `help:"Bound of the whole command." default:"30m"`
}

// with opens the bucket of data keys for do.
func (c masterKeyDeployment) with(s *session, do func(context.Context, jetstream.KeyValue, *eventlog.Log) error) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, c.Within)
	defer cancel()
	_, js, log, open, err := s.adminLog(ctx, c.NATSURL, c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close(ctx)) }()
	kv, err := js.KeyValue(ctx, topology.BucketKeys)
	if err != nil {
		return fmt.Errorf("open bucket of keys: %w", err)
	}
	return do(ctx, kv, log)
}

type masterKeyShowCmd struct {
	masterKeyDeployment `embed:""`
}

// masterKeyLine is what is printed of a key. One that wraps data keys and is not in the file is missing.
type masterKeyLine struct {
	ID       string `json:"id"`
	Active   bool   `json:"active"`
	Missing  bool   `json:"missing,omitempty"`
	DataKeys int    `json:"dataKeys"`
}

// Run prints a line for each key of the file, and for each other one that wraps something.
func (c *masterKeyShowCmd) Run(s *session) error {
	master, err := keyring.LoadMaster(c.path())
	if err != nil {
		return err
	}
	return c.with(s, func(ctx context.Context, kv jetstream.KeyValue, _ *eventlog.Log) error {
		counts, err := keyring.Wrapped(ctx, kv)
		if err != nil {
			return err
		}
		lines := json.NewEncoder(s.stdout)
		for _, id := range master.IDs() {
			if err := lines.Encode(masterKeyLine{ID: id, Active: id == master.Active(), DataKeys: counts[id]}); err != nil {
				return err
			}
			delete(counts, id)
		}
		for id, n := range counts {
			if err := lines.Encode(masterKeyLine{ID: id, Missing: true, DataKeys: n}); err != nil {
				return err
			}
		}
		return nil
	})
}

type masterKeyRewrapCmd struct {
	masterKeyDeployment `embed:""`
}

// Run prints how many data keys were wrapped anew.
func (c *masterKeyRewrapCmd) Run(s *session) error {
	master, err := keyring.LoadMaster(c.path())
	if err != nil {
		return err
	}
	return c.with(s, func(ctx context.Context, kv jetstream.KeyValue, log *eventlog.Log) error {
		n, err := keyring.Rewrap(ctx, kv, master)
		if err == nil {
			err = log.Durable(ctx)
		}
		return errors.Join(err, json.NewEncoder(s.stdout).Encode(map[string]int{"rewrapped": n}))
	})
}

type masterKeyRemoveCmd struct {
	masterKeyDeployment `embed:""`
	ID                  string `arg:"" help:"Id of the key."`
}

// Run removes a key. What is counted is on disk, or a power cut could bring back a data key that the removed one wraps.
func (c *masterKeyRemoveCmd) Run(s *session) error {
	return c.with(s, func(ctx context.Context, kv jetstream.KeyValue, log *eventlog.Log) error {
		_, err := keyring.ChangeMaster(c.path(), func(m *keyring.Master) (*keyring.Master, error) {
			next, err := m.Without(c.ID)
			if err != nil {
				return nil, err
			}
			counts, err := keyring.Wrapped(ctx, kv)
			if err != nil {
				return nil, err
			}
			if n := counts[c.ID]; n > 0 {
				return nil, fmt.Errorf("%w: %q wraps %d data keys (pilot admin master-key rewrap)", keyring.ErrMasterInUse, c.ID, n)
			}
			return next, log.Durable(ctx)
		})
		return err
	})
}
