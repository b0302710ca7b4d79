package projector

import (
	"context"
	"errors"
	"fmt"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// Source reads the log of a partition.
type Source interface {
	// Last gives the sequence of the newest event, as the leader says; 0 for an empty log.
	Last(ctx context.Context, partition events.Partition) (uint64, error)
	// Tail hands whole events from sequence from on to handle, in order, until ctx ends or handle fails, whose error it
	// returns as it is or wrapped. last is the sequence up to which a batch covers the log.
	Tail(ctx context.Context, partition events.Partition, from uint64,
		handle func(ctx context.Context, recs []events.Recorded, last uint64) error) error
}

// growAfter is the number of transactions in a row that must succeed before a shrunken batch grows.
const growAfter = 8

// Run keeps the view of a partition up to date until ctx ends, and then returns nil. With Postgres or the log away it
// waits, each time a little longer, and goes on where the checkpoint says. It ends with an error when somebody must act: a hole
// (code LOG_GAP), *BehindError, *DivergedError, events that are not whole, tables that are missing.
func (p *Projector) Run(ctx context.Context, partition events.Partition, src Source) error {
	r := &runner{p: p, partition: partition, size: p.cfg.BatchMax}
	for failures := 0; ctx.Err() == nil; failures++ {
		err := r.follow(ctx, src)
		if ctx.Err() != nil {
			break
		}
		if !Passing(err) {
			return fmt.Errorf("run projector of partition %s: %w", partition, err)
		}
		if r.progressed {
			failures, r.progressed = 0, false
		}
		p.cfg.Logger.Warn().Err(err).Stringer("partition", partition).Int("failures", failures+1).Msg("view waits")
		r.waits(err)
		await.Backoff(ctx, p.cfg.RetryMin, p.cfg.RetryMax, failures)
	}
	return nil //nolint:nilerr // the end of ctx is how a projector is stopped
}

type runner struct {
	p          *Projector
	partition  events.Partition
	size       int // most rows of a transaction at present
	successes  int // in a row, at this size
	progressed bool
	waiting    bool // said by OnWait
}

// waits tells of a change of whether the view waits.
func (r *runner) waits(err error) {
	if r.p.cfg.OnWait != nil && (err != nil || r.waiting) {
		r.waiting = err != nil
		r.p.cfg.OnWait(r.partition, err)
	}
}

// follow reads the log from the checkpoint on, until something fails. The event at the checkpoint comes again, so that a log which is not the
// one that the view was made from is noticed.
func (r *runner) follow(ctx context.Context, src Source) error {
	checkpoint, err := r.p.Checkpoint(ctx, r.partition)
	if err != nil {
		return err
	}
	last, err := src.Last(ctx, r.partition)
	if err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	if last < checkpoint {
		return &BehindError{Partition: r.partition, Checkpoint: checkpoint, Last: last}
	}
	if err := src.Tail(ctx, r.partition, max(checkpoint, 1), r.take); err != nil {
		return err
	}
	return errors.New("the tail ended by itself")
}

// take applies a batch of the source in as many transactions as the present size asks for.
func (r *runner) take(ctx context.Context, recs []events.Recorded, last uint64) error {
	for {
		n := r.cut(recs)
		end := last
		if n < len(recs) {
			end = recs[n-1].Position.Sequence
		}
		err := r.p.Apply(ctx, r.partition, recs[:n], end)
		switch {
		case err == nil:
			r.grow()
			r.waits(nil)
			recs = recs[n:]
			if len(recs) == 0 {
				return nil
			}
		case timedOut(ctx, err) && n > 1:
			r.size, r.successes = max(1, min(r.size, n)/2), 0
			r.p.cfg.Logger.Warn().Err(err).Stringer("partition", r.partition).Int("size", r.size).Msg("batch shrinks")
		default:
			return err
		}
	}
}

// cut gives the number of events that make up one transaction, at least one where there is one.
func (r *runner) cut(recs []events.Recorded) int {
	rows := 0
	for i, rec := range recs {
		rows += weight(rec)
		if rows > r.size && i > 0 {
			return i
		}
	}
	return len(recs)
}

func (r *runner) grow() {
	r.progressed = true
	if r.size >= r.p.cfg.BatchMax {
		return
	}
	if r.successes++; r.successes >= growAfter {
		r.size, r.successes = min(2*r.size, r.p.cfg.BatchMax), 0
	}
}
