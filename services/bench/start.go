package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
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

// start measures a dispatcher that starts while as many messages are pending as the log has events. Every message is scheduled for
// later, so that none leaves meanwhile.
func start(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) error {
	later := time.Now().UTC().Truncate(time.Second).Add(24 * time.Hour)
	return starts(ctx, dir, s, "start", s.Events, func(int) time.Time { return later }, say, log)
}

// scheduled measures the same with messages that wait for different times, spread over as long ahead as a message may be scheduled.
func scheduled(ctx context.Context, dir string, s Settings, say func(...Figure) error, log zerolog.Logger) error {
	first := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	step := (events.MaxHorizon - 2*time.Hour) / time.Duration(max(s.Scheduled, 1))
	return starts(ctx, dir, s, Scheduled, s.Scheduled, func(i int) time.Time {
		return first.Add(time.Duration(i) * step).Truncate(time.Millisecond)
	}, say, log)
}

// starts measures a dispatcher over n pending messages: first it folds the whole log, then, stopped in order, it goes on at its
// snapshots.
func starts(ctx context.Context, dir string, s Settings, name string, n int, due func(i int) time.Time, say func(...Figure) error, log zerolog.Logger) (err error) {
	m, err := newMade(ctx, dir, startInstances, false, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	var next atomic.Int64 // partitions are written side by side
	if err := m.fill(ctx, n, func(t *teller) error { _, err := t.accept(due(int(next.Add(1) - 1))); return err }); err != nil {
		return err
	}
	if err := m.up(ctx, natsserver.SyncAlways); err != nil {
		return err
	}
	if err := say(Figure{name + "_pending", float64(m.stored()), "messages"}); err != nil {
		return err
	}
	for _, from := range []string{name + "_cold", name + "_snapshot"} {
		figures, err := m.startOnce(ctx, s.Binary, from)
		if err != nil {
			return err
		}
		if err := say(figures...); err != nil {
			return err
		}
		// The first life leaves whole snapshots; without them the second would measure the same again.
		if err := m.haveSnapshots(ctx); err != nil {
			return err
		}
	}
	return nil
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
