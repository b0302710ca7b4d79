package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/infra/snapshots"
)

const (
	startInstances = 1000
	startLimit     = 5 * time.Minute
	startLives     = 3
)

// start measures a dispatcher, in a process of its own, that starts while as many messages are pending as the log has events: first it folds the whole log,
// then, stopped in order, it goes on at its snapshots. Every message is scheduled for later, so that none leaves meanwhile.
func start(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) (err error) {
	m, err := newMade(ctx, dir, startInstances, false, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	later := time.Now().UTC().Truncate(time.Second).Add(24 * time.Hour)
	if err := m.fill(ctx, s.Events, func(t *teller) error { _, err := t.accept(later); return err }); err != nil {
		return err
	}
	if err := m.up(ctx, natsserver.SyncAlways); err != nil {
		return err
	}
	if err := say(Figure{"start_pending", float64(m.stored()), "messages"}); err != nil {
		return err
	}
	figures, err := m.startOnce(ctx, s.Binary, "start_cold")
	if err != nil {
		return err
	}
	if err := say(figures...); err != nil {
		return err
	}
	// An orderly stop leaves whole snapshots, unless the disk is too busy to take them in time: then another life does. Without them the
	// second start would measure the same again.
	for lives := 1; ; lives++ {
		err := m.haveSnapshots(ctx)
		if err == nil {
			break
		}
		if lives == startLives {
			return err
		}
		if _, err := m.startOnce(ctx, s.Binary, "start"); err != nil {
			return err
		}
	}
	if figures, err = m.startOnce(ctx, s.Binary, "start_snapshot"); err != nil {
		return err
	}
	return say(figures...)
}

func (m *made) startOnce(ctx context.Context, binary, name string) ([]Figure, error) {
	r, err := run(ctx, binary, "dispatcher", "--log-level", "warn", "--data-dir", filepath.Join(m.cfg.DataDir, "dispatcher"),
		"--master-key-file", m.cfg.MasterKeyPath(), "--nats-url", m.app.URLs().NATS, "--stop-within", stopLimit.String())
	if err != nil {
		return nil, err
	}
	took, err := r.ready(ctx, startLimit)
	resident, peak := Memory(r.pid())
	if err = errors.Join(err, r.stop()); err != nil {
		return nil, fmt.Errorf("measure %s: %w", name, err)
	}
	return []Figure{{name, took.Seconds(), "s"}, {name + "_rss", resident, "MiB"}, {name + "_peak_rss", peak, "MiB"}}, nil
}

// haveSnapshots checks that each partition has a snapshot of its whole log.
func (m *made) haveSnapshots(ctx context.Context) error {
	nc, err := natsserver.Connect(ctx, m.app.URLs().NATS, natsserver.Client{Name: "pilot bench"})
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	store, err := snapshots.Open(ctx, js)
	if err != nil {
		return err
	}
	for i, t := range m.tellers {
		var newest uint64
		for slot := range 2 {
			data, err := store.Get(ctx, fmt.Sprintf("dispatcher.%s.%d", events.Partition(i), slot))
			if errors.Is(err, snapshots.ErrNone) {
				continue
			}
			if err != nil {
				return err
			}
			var mark snapshots.Mark
			if err := json.Unmarshal(firstLine(data), &mark); err != nil {
				return fmt.Errorf("read the mark of a snapshot: %w", err)
			}
			newest = max(newest, mark.Sequence)
		}
		if newest != t.seq {
			return fmt.Errorf("the newest snapshot of partition %d is at %d, its log ends at %d", i, newest, t.seq)
		}
	}
	return nil
}

func firstLine(data []byte) []byte {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return line
}
