package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/groupcommit"
	"pilotstatus.dev/infra/natsserver"
)

// syncAuto is --nats-sync auto: group commit where it holds, else a sync for each message.
const syncAuto = "auto"

// slowSync is how long a sync may take before it is worth a line in the log: all appends wait for it.
const slowSync = 500 * time.Millisecond

// errForeignCommit keeps a process out whose acknowledgements would say more than is true.
var errForeignCommit = errors.New("the NATS server of --nats-url commits in groups: only the process that runs it knows when " +
	"an event is on disk; run this role in that process, or start that one with --nats-sync always")

// commit is group commit over the store of the embedded server.
type commit struct {
	*groupcommit.Syncer
	disk *groupcommit.Disk
}

// openCommit decides how the embedded server syncs its store, and starts group commit where that is the way. Where it was asked
// for by name and cannot hold it is refused; where it was not, the log says why each message is synced alone.
func (p *platform) openCommit(store string) (natsserver.Sync, error) {
	asked := p.cfg.NATSSync
	if asked != syncAuto && asked != string(natsserver.SyncGroup) {
		return natsserver.Sync(asked), nil
	}
	var err error
	p.commit, err = startCommit(store, p.cfg.SyncPatience, p.log, p.onSync)
	switch {
	case err == nil:
		return natsserver.SyncGroup, nil
	case !errors.Is(err, groupcommit.ErrUnsupported):
		return "", err
	case asked == syncAuto:
		p.log.Info().Err(err).Msg("each message is synced by itself")
		return natsserver.SyncAlways, nil
	}
	return "", fmt.Errorf("--nats-sync group: %w; put --data-dir elsewhere or use --nats-sync always", err)
}

// startCommit starts group commit, or says why it cannot hold where the store is (groupcommit.ErrUnsupported).
func startCommit(store string, patience time.Duration, log zerolog.Logger, onSync func(time.Duration, int)) (*commit, error) {
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, fmt.Errorf("make the store: %w", err)
	}
	disk, err := groupcommit.Open(store)
	if err != nil {
		return nil, err
	}
	return &commit{disk: disk, Syncer: groupcommit.Start(disk.Sync, groupcommit.Options{
		Patience: patience,
		OnSync: func(elapsed time.Duration, waiters int, err error) {
			if onSync != nil {
				onSync(elapsed, waiters)
			}
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
