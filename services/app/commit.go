package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/groupcommit"
)

// slowSync is how long a sync may take before it is worth a line in the log: all appends wait for it.
const slowSync = 500 * time.Millisecond

// errForeignCommit keeps a process out whose acknowledgements would say more than is true.
var errForeignCommit = errors.New("the NATS server of --nats-url commits in groups: only the process that runs it knows when " +
	"an event is on disk; run this role in that process, or start the server with --nats-sync always")

// commit is group commit over the store of the embedded server.
type commit struct {
	*groupcommit.Syncer
	disk *groupcommit.Disk
}

// openCommit starts group commit, or says why it cannot hold where the store is.
func openCommit(store string, log zerolog.Logger) (*commit, error) {
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, fmt.Errorf("make the store: %w", err)
	}
	disk, err := groupcommit.Open(store)
	if errors.Is(err, groupcommit.ErrUnsupported) {
		return nil, fmt.Errorf("--nats-sync group: %w; put --data-dir elsewhere or use --nats-sync always", err)
	}
	if err != nil {
		return nil, err
	}
	return &commit{disk: disk, Syncer: groupcommit.Start(disk.Sync, groupcommit.Options{
		OnSync: func(elapsed time.Duration, waiters int, err error) {
			switch {
			case err != nil:
				log.Error().Err(err).Msg("the log cannot be made durable: nothing is accepted or sent until the disk was looked at and the process started anew")
			case elapsed > slowSync:
				log.Warn().Dur("elapsed", elapsed).Int("waiters", waiters).Msg("slow sync of the log's file system")
			}
		},
	})}, nil
}

// close ends group commit after the last append; the directory is let go only when no sync runs on it.
func (c *commit) close(ctx context.Context) error {
	if err := c.Close(ctx); err != nil {
		return err
	}
	return c.disk.Close()
}
