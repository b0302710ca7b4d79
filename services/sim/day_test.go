package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// What the process that runs a seed is told.
const (
	envSeed     = "PILOT_SIM_SEED"
	envHours    = "PILOT_SIM_HOURS"
	envMessages = "PILOT_SIM_MESSAGES"
	envDir      = "PILOT_SIM_DIR"
	envLog      = "PILOT_SIM_LOG" // a file for the logs of all parts
)

// settle is how long a run goes on after the last message is over and the last receipt was posted: the gateway tries for 20 minutes to
// hand one in, and what then is said of silence is told to customers in time.
func (p *plan) settle() time.Duration {
	const told = 30 * time.Minute
	return max(told, silences.Delivery+silences.AskFor+told-p.latest())
}

// TestDay runs one seed in a bubble. A process has one bubble, so TestSeeds makes a process of it.
func TestDay(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64)
	if err != nil {
		t.Skip("run by TestSeeds, one process a seed")
	}
	hours, err := strconv.Atoi(os.Getenv(envHours))
	if err != nil {
		t.Fatal(err)
	}
	messages, err := strconv.Atoi(os.Getenv(envMessages))
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv(envDir)
	logger := zerolog.Nop()
	if path := os.Getenv(envLog); path != "" {
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		zerolog.TimeFieldFormat = time.RFC3339Nano
		logger = zerolog.New(file).With().Timestamp().Logger()
	}
	p := newPlan(seed, time.Duration(hours)*time.Hour, messages)
	store := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(t, p, store, logger)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.live(); err != nil {
			t.Error(err)
		}
		if err := w.rec.write(filepath.Join(dir, "recording.json")); err != nil {
			t.Error(err)
		}
	})
}

// pass lets time pass inside the bubble. It costs nothing there: nothing waits on a real clock.
func pass(d time.Duration) { time.Sleep(d) }

// live lets the plan happen, waits until all is over, and takes down what the world has become.
func (w *world) live() error {
	var acting sync.WaitGroup
	acting.Go(w.act)
	latest := w.load()
	acting.Wait()
	for _, s := range seats[:2] {
		w.fleet.start(s)
	}
	pass(time.Until(latest.Add(w.plan.latest())) + w.plan.settle())
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := w.dump(ctx)
	return errors.Join(err, w.close())
}

// dump copies log, deliveries and ledgers into the recording.
func (w *world) dump(ctx context.Context) error {
	for p := range events.Partition(partitions) {
		stored, err := w.read(ctx, events.EventsStream(p), p)
		if err != nil {
			return err
		}
		w.rec.note(func(r *recording) { r.Log = append(r.Log, stored) })
	}
	for h := range events.HookShards {
		stored, err := w.read(ctx, events.HooksStream(h), 0)
		if err != nil {
			return err
		}
		w.rec.note(func(r *recording) { r.Waiting = append(r.Waiting, stored...) })
	}
	tries, err := w.read(ctx, events.StreamHookLog, 0)
	if err != nil {
		return err
	}
	w.rec.note(func(r *recording) {
		for _, g := range w.gateways {
			r.Ledgers = append(r.Ledgers, g.sim.Ledger(evolutionsim.Filter{}))
		}
		r.HookLog, r.Ended = tries, time.Now()
	})
	return nil
}

// read copies a stream from its first message to its last.
func (w *world) read(ctx context.Context, name string, p events.Partition) ([]events.Stored, error) {
	stream, err := w.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	state := stream.CachedInfo().State
	var out []events.Stored
	for seq := max(state.FirstSeq, 1); seq <= state.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) && strings.HasPrefix(name, "HOOKS") {
			continue // a work queue: it was delivered
		}
		if err != nil {
			return nil, fmt.Errorf("read %s at %d: %w", name, seq, err)
		}
		out = append(out, events.Stored{
			Wire:     events.Wire{Subject: m.Subject, Header: m.Header, Data: m.Data},
			Position: events.Position{Partition: p, Sequence: seq}, Time: m.Time,
		})
	}
	return out, nil
}
