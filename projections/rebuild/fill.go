package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/projections/projector"
)

// track knows how far each partition is. It is safe for concurrent use.
type track struct {
	began time.Time

	mu    sync.Mutex
	parts []PartitionProgress
}

func newTrack(parts []events.Partition, began time.Time) *track {
	t := &track{began: began, parts: make([]PartitionProgress, len(parts))}
	for i, p := range parts {
		t.parts[i].Partition = p
	}
	return t
}

func (t *track) commit(p events.Partition, seq uint64) {
	t.set(p, func(pp *PartitionProgress) { pp.At = max(pp.At, seq) })
}

func (t *track) head(p events.Partition, seq uint64) {
	t.set(p, func(pp *PartitionProgress) { pp.Head = max(pp.Head, seq) })
}

func (t *track) set(p events.Partition, change func(*PartitionProgress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.parts {
		if t.parts[i].Partition == p {
			change(&t.parts[i])
		}
	}
}

func (t *track) progress() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Progress{Partitions: slices.Clone(t.parts), Elapsed: time.Since(t.began)}
	for _, pp := range t.parts {
		p.Events += pp.At
		p.Of += max(pp.At, pp.Head)
	}
	p.Rate = float64(p.Events) / max(p.Elapsed.Seconds(), 0.001)
	return p
}

// near reports whether no partition lacks more than n events.
func (p Progress) near(n uint64) bool {
	return !slices.ContainsFunc(p.Partitions, func(pp PartitionProgress) bool { return pp.At+n < pp.Head })
}

var errNear = errors.New("near the end of the log")

// fill reads every partition from its first event until all are near their ends. What interrupts a projector is waited
// for here too.
func (r *rebuild) fill(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range r.cfg.Partitions {
		g.Go(func() error { return r.into.Run(ctx, p, r.cfg.Source) })
	}
	g.Go(func() error {
		tick := time.NewTicker(r.cfg.Tick)
		defer tick.Stop()
		for {
			if err := r.heads(ctx); err != nil {
				r.cfg.Logger.Warn().Err(err).Msg("rebuild waits for the log")
			} else {
				progress := r.track.progress()
				r.report(progress)
				if progress.near(r.cfg.Near) {
					return errNear
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if err := g.Wait(); !errors.Is(err, errNear) {
		return fmt.Errorf("read the log: %w", err)
	}
	return nil
}

func (r *rebuild) heads(ctx context.Context) error {
	for _, p := range r.cfg.Partitions {
		last, err := r.last(ctx, p)
		if err != nil {
			return err
		}
		r.track.head(p, last)
	}
	return nil
}

// last gives the end of a partition, by an insistent question.
func (r *rebuild) last(ctx context.Context, p events.Partition) (seq uint64, err error) {
	err = eventlog.Insist(ctx, eventlog.InsistFor, func(ctx context.Context) error {
		seq, err = r.cfg.Source.Last(ctx, p)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the end of the log: %w", err)
	}
	return seq, nil
}

func (r *rebuild) report(p Progress) {
	if r.cfg.OnProgress != nil {
		r.cfg.OnProgress(p)
	}
}

// errReached ends a tail at the wanted sequence.
var errReached = errors.New("reached")

// advance takes a partition of a view up to exactly to, from whatever its checkpoint says. Another projector may do the
// same meanwhile.
func (r *rebuild) advance(ctx context.Context, into *projector.Projector, p events.Partition, to uint64) error {
	at, err := into.Checkpoint(ctx, p)
	if err != nil || at >= to {
		return err
	}
	last, err := r.last(ctx, p)
	if err != nil {
		return err
	}
	if last < to {
		return &projector.BehindError{Partition: p, Checkpoint: to, Last: last}
	}
	err = r.cfg.Source.Tail(ctx, p, max(at, 1), func(ctx context.Context, recs []events.Recorded, last uint64) error {
		n, _ := slices.BinarySearchFunc(recs, to+1, func(rec events.Recorded, seq uint64) int {
			return int(int64(rec.Position.Sequence) - int64(seq))
		})
		if err := into.Apply(ctx, p, recs[:n], min(last, to)); err != nil {
			return err
		}
		if last >= to {
			return errReached
		}
		return nil
	})
	if !errors.Is(err, errReached) {
		return fmt.Errorf("read partition %s up to %d: %w", p, to, err)
	}
	return nil
}
