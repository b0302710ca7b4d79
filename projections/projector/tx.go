package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/failpoint"
)

// rollbackLimit bounds the goodbye to a transaction whose own time is over.
const rollbackLimit = time.Second

// result is what a committed transaction did.
type result struct {
	from, to uint64 // checkpoint before and after
	events   int
	messages int
	entries  map[string]entry
}

// transact does one batch: rows and checkpoint, or nothing. The caller holds the shard.
func (p *Projector) transact(ctx context.Context, s *shard, recs []events.Recorded, last uint64) (res result, err error) {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return result{}, fmt.Errorf("begin: %w", err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		if e := tx.Rollback(bye); e != nil && !errors.Is(e, pgx.ErrTxClosed) && err == nil {
			err = fmt.Errorf("roll back: %w", e)
		}
	}()
	cp, err := p.lock(ctx, tx, s.partition)
	if err != nil {
		return result{}, err
	}
	s.trust(cp.seq, cp.build)
	fresh, err := p.check(s.partition, recs, cp.seq, cp.eventID, last)
	if err != nil {
		return result{}, err
	}
	res = result{from: cp.seq, to: max(cp.seq, last), events: len(fresh)}
	if res.to == cp.seq {
		return res, nil
	}
	b := gather(s.partition, fresh)
	known, err := s.known(ctx, tx, b.touched)
	if err != nil {
		return result{}, err
	}
	next, accepted, changed, attempts := b.rows(known)
	res.messages, res.entries = len(b.touched), next

	q := &pgx.Batch{}
	part := int16(s.partition)
	queue(q, insertMessages, part, accepted)
	queue(q, updateMessages, part, changed)
	queue(q, insertTimeline, part, b.timeline)
	queue(q, upsertAttempts, part, attempts)
	queue(q, countQuota, part, quotaOf(known, accepted, changed))
	run, digests := cp.run.over(fresh)
	queue(q, insertDigests, part, digests)
	digest, digested := run.digested()
	q.Queue(moveCheckpoint, View, part, int64(res.to), idAt(fresh, res.to), digest, digested, cp.build).Exec(moved)
	if err := tx.SendBatch(ctx, q).Close(); err != nil {
		return result{}, fmt.Errorf("write rows: %w", err)
	}
	if err := failpoint.Fail("projector.mid_batch"); err != nil {
		return result{}, err
	}
	// Whether a commit took effect is unknown when its answer is lost: the next turn reads the checkpoint and decides.
	if err := tx.Commit(ctx); err != nil {
		return result{}, fmt.Errorf("commit: %w", err)
	}
	return res, nil
}

// lock takes the partition's turn: whoever holds the row is the only one who writes rows of the partition.
func (p *Projector) lock(ctx context.Context, tx pgx.Tx, part events.Partition) (checkpoint, error) {
	var cp checkpoint
	var seq, digested int64
	var digest []byte
	scan := func(row pgx.Row) error { return row.Scan(&seq, &cp.eventID, &cp.build, &digest, &digested) }
	q := &pgx.Batch{}
	q.Queue(planByKey)
	q.Queue(lockCheckpoint, View, int16(part)).QueryRow(scan)
	err := tx.SendBatch(ctx, q).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err = tx.Exec(ctx, makeCheckpoint, View, int16(part)); err == nil {
			err = scan(tx.QueryRow(ctx, lockCheckpoint, View, int16(part)))
		}
	}
	if err != nil {
		return checkpoint{}, fmt.Errorf("lock checkpoint: %w", err)
	}
	cp.seq = uint64(seq)
	cp.run = run{at: uint64(digested), whole: digested == seq}
	copy(cp.run.digest[:], digest)
	return cp, nil
}

// check compares the batch with what the view has read, and gives the events that are new to it.
func (p *Projector) check(part events.Partition, recs []events.Recorded, checkpoint uint64, eventID string, last uint64) ([]events.Recorded, error) {
	if eventID != "" {
		for _, rec := range recs {
			if rec.Position.Sequence == checkpoint && text(rec.ID) != eventID {
				return nil, &DivergedError{Partition: part, Sequence: checkpoint}
			}
		}
	}
	fresh, err := accept(part, recs, checkpoint, p.cfg.Gapless)
	if err != nil || last <= checkpoint {
		return nil, err
	}
	end := checkpoint
	if n := len(fresh); n > 0 {
		end = fresh[n-1].Position.Sequence
	}
	if end > last {
		return nil, events.Errorf(events.CodeMalformed, "a batch said to end at %d holds event %d", last, end)
	}
	if p.cfg.Gapless && end != last {
		return nil, events.Errorf(events.CodeLogGap, "the log of partition %s has no event between %d and %d", part, end, last)
	}
	return fresh, nil
}

// known gives the entries of messages as of the checkpoint: from memory, and in one query from the timeline.
func (s *shard) known(ctx context.Context, tx pgx.Tx, ids []string) (map[string]entry, error) {
	out := make(map[string]entry, len(ids))
	var missing []string
	for _, id := range ids {
		if e, ok := s.cache.get(id); ok {
			out[id] = e
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	rows, err := tx.Query(ctx, loadFacts, int16(s.partition), missing)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r timelineRow
		var seq int64
		var due *time.Time
		if err := rows.Scan(&r.messageID, &seq, &r.event, &r.at, &r.attempt, &r.called, &r.presumed, &due, &r.nonce,
			&r.gatewayID, &r.code, &r.reason, &r.cause, &r.httpStatus, &r.elapsedMS); err != nil {
			return nil, fmt.Errorf("load facts: %w", err)
		}
		r.seq, r.folded = uint64(seq), true
		if due != nil {
			r.dueAt = *due
		}
		if f, ok := r.fact(); ok {
			out[r.messageID] = out[r.messageID].take(f, r)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	return out, nil
}

func queue[R any](q *pgx.Batch, s statement[R], partition int16, rows []R) {
	if len(rows) > 0 {
		q.Queue(s.text, s.args(partition, rows)...)
	}
}

func idAt(recs []events.Recorded, seq uint64) string {
	if n := len(recs); n > 0 && recs[n-1].Position.Sequence == seq {
		return text(recs[n-1].ID)
	}
	return ""
}
