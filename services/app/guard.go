package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/snapshots"
)

// guard keeps appends out of a log that lost what was seen of it: its end lies before the witness of this data directory or the
// checkpoint of the views, or it holds another event there. What cannot be asked says nothing.
type guard struct {
	log        snapshots.Log
	witness    snapshots.Witness
	checkpoint func(context.Context, events.Partition) (snapshots.Mark, error) // nil without Postgres
	partitions []events.Partition
	logger     zerolog.Logger
	gauge      prometheus.Gauge // of the partitions that are held; may be nil

	mu     sync.Mutex
	faults map[events.Partition]error
}

// How often the guard looks, and how long one look at a partition may take.
const (
	guardEvery = time.Minute
	guardAgain = 5 * time.Second // while a fault stands
	guardLimit = 3 * time.Second
)

// witnessDir is where the witness lies: beside the store of the embedded server, so that putting back a copy of that store
// leaves it as it is.
func (c Config) witnessDir() string { return filepath.Join(c.DataDir, "witness") }

// run looks again and again until ctx ends.
func (g *guard) run(ctx context.Context) error {
	for {
		wait := guardEvery
		if g.look(ctx) != nil {
			wait = guardAgain
		}
		if !await.Elapsed(ctx, wait) {
			return nil
		}
	}
}

// look compares every partition and gives what it found.
func (g *guard) look(ctx context.Context) error {
	errs := make([]error, len(g.partitions))
	var looks sync.WaitGroup
	for i, p := range g.partitions {
		looks.Go(func() { errs[i] = g.partition(ctx, p) })
	}
	looks.Wait()
	found := map[events.Partition]error{}
	for i, p := range g.partitions {
		if err := errs[i]; err != nil {
			found[p] = err
			g.logger.Error().Err(err).Stringer("partition", p).Msg("nothing is appended to this partition: its log is not the one that was seen before")
		}
	}
	g.mu.Lock()
	g.faults = found
	g.mu.Unlock()
	if g.gauge != nil {
		g.gauge.Set(float64(len(found)))
	}
	return joined(found)
}

func (g *guard) partition(ctx context.Context, p events.Partition) error {
	ctx, cancel := context.WithTimeout(ctx, guardLimit)
	defer cancel()
	return errors.Join(g.againstWitness(ctx, p), g.againstView(ctx, p))
}

func (g *guard) againstWitness(ctx context.Context, p events.Partition) error {
	m, err := g.witness.Read(p.String())
	if errors.Is(err, snapshots.ErrNone) {
		return nil
	}
	if err == nil {
		err = snapshots.Check(ctx, g.log, p, m, "the witness")
	}
	return g.fault(p, err)
}

func (g *guard) againstView(ctx context.Context, p events.Partition) error {
	if g.checkpoint == nil {
		return nil
	}
	m, err := g.checkpoint(ctx, p) // before the log is asked: it grows behind that
	if err != nil {
		return g.fault(p, fmt.Errorf("read checkpoint: %w", err))
	}
	return g.fault(p, snapshots.Check(ctx, g.log, p, m, snapshots.ByView))
}

// fault lets through what says that the log is another one; everything else is an outage, which has its own checks.
func (g *guard) fault(p events.Partition, err error) error {
	var d *snapshots.Disagreement
	if err == nil || errors.As(err, &d) || errors.Is(err, snapshots.ErrDamaged) {
		return err
	}
	g.logger.Debug().Err(err).Stringer("partition", p).Msg("what was seen of the log cannot be compared now")
	return nil
}

// held gives what stands against appending, by partition.
func (g *guard) held() map[events.Partition]error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.faults)
}

// admit refuses an event for a partition with a fault.
func (g *guard) admit(address string) error {
	addr, err := events.ParseEventSubject(address)
	if err != nil {
		return nil // not of the log: the append itself says what is wrong with it
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if fault := g.faults[addr.Partition]; fault != nil {
		return fmt.Errorf("append event: %w", events.Errorf(events.CodeUnavailable, "the log is not the one that was seen before").WithCause(fault))
	}
	return nil
}

// guardedLog is the log of a role that appends what others said.
type guardedLog struct {
	*eventlog.Log
	guard *guard
}

func (l guardedLog) Append(ctx context.Context, ev events.Event) (eventlog.Ack, error) {
	if err := l.guard.admit(ev.Address); err != nil {
		return eventlog.Ack{}, err
	}
	return l.Log.Append(ctx, ev)
}

func (l guardedLog) AppendFenced(ctx context.Context, p events.Partition, instance string, ev events.Event, expected uint64) (uint64, error) {
	if err := l.guard.admit(ev.Address); err != nil {
		return 0, err
	}
	return l.Log.AppendFenced(ctx, p, instance, ev, expected)
}

func (l guardedLog) AppendSeen(ctx context.Context, ev events.Event, filter string, seen uint64) (eventlog.Ack, error) {
	if err := l.guard.admit(ev.Address); err != nil {
		return eventlog.Ack{}, err
	}
	return l.Log.AppendSeen(ctx, ev, filter, seen)
}

// guardedAPILog is the log of the API.
type guardedAPILog struct {
	apiLog
	guard *guard
}

func (l guardedAPILog) Append(ctx context.Context, e events.Event) (uint64, error) {
	if err := l.guard.admit(e.Address); err != nil {
		return 0, err
	}
	return l.apiLog.Append(ctx, e)
}

// startGuard looks once before any role may append, and then again and again.
func (a *App) startGuard(ctx context.Context) {
	a.guard = &guard{
		log: a.p.events, witness: snapshots.NewWitness(a.p.cfg.witnessDir()), checkpoint: a.checkpoint(), partitions: a.p.partitions(),
		logger: a.log, gauge: a.metrics.held,
	}
	_ = a.guard.look(ctx) // logged, and kept for who asks
	a.sup.start(ctx, partHistory, a.guard.run)
}

// partHistory is the name of the part and of its check.
const partHistory = "history"

// checkpoint gives how far the views have read, and what stands there; nil in a process without Postgres.
func (a *App) checkpoint() func(context.Context, events.Partition) (snapshots.Mark, error) {
	if a.p.pool == nil {
		return nil
	}
	v := a.views()
	return func(ctx context.Context, p events.Partition) (snapshots.Mark, error) {
		seq, id, err := v.LastRead(ctx, p)
		return snapshots.Mark{Sequence: seq, EventID: id}, err
	}
}

// acceptLog reads --accept-log.
func acceptLog(words []string) (map[events.Partition]uint64, error) {
	out := map[events.Partition]uint64{}
	for _, w := range words {
		var p events.Position
		if err := p.UnmarshalText([]byte(w)); err != nil {
			return nil, fmt.Errorf("--accept-log %s: want <partition>:<last sequence>, as in 2:17", w)
		}
		out[p.Partition] = p.Sequence
	}
	return out, nil
}
