package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/projector"
)

// change compares the schemas and puts the new one in the live one's place. held is how long live projectors waited.
func (r *rebuild) change(ctx context.Context) (old string, held time.Duration, err error) {
	if _, err := r.pool.Exec(ctx, `ANALYZE messages, timeline, attempts, digests`); err != nil {
		return "", 0, fmt.Errorf("analyze: %w", err)
	}
	c, err := r.compared(ctx)
	if err != nil {
		return "", 0, err
	}
	// Most rows are compared while everything goes on; what changes later is compared once more below.
	if err := r.compare(ctx, r.admin, c, early); err != nil {
		return "", 0, err
	}
	// What came during the comparison is read before anybody is held off for the rest.
	at, err := r.liveAt(ctx, r.admin, "")
	if err == nil {
		err = r.addUnbegun(ctx, at)
	}
	if err == nil {
		err = r.meet(ctx, at)
	}
	if err != nil {
		return "", 0, err
	}
	hold, cancel := context.WithTimeout(ctx, r.cfg.HoldLimit)
	defer cancel()
	tx, err := r.admin.Begin(hold)
	if err != nil {
		return "", 0, fmt.Errorf("switch: %w", err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		if e := tx.Rollback(bye); e != nil && !errors.Is(e, pgx.ErrTxClosed) && err == nil {
			err = fmt.Errorf("roll back the switch: %w", e)
		}
	}()
	began := time.Now()
	// The lock holds the projectors off: none moves its checkpoint until the transaction ends.
	if at, err = r.liveAt(hold, tx, " FOR UPDATE"); err != nil {
		return "", 0, err
	}
	if err := r.meet(hold, at); err != nil {
		return "", 0, err
	}
	if err := r.compare(hold, tx, c, late); err != nil {
		return "", 0, err
	}
	old = r.cfg.Schema + oldMark + stamp(r.began)
	for _, s := range [][2]string{{r.cfg.Schema, old}, {r.fresh, r.cfg.Schema}} {
		if _, err := tx.Exec(hold, `ALTER SCHEMA `+pgx.Identifier{s[0]}.Sanitize()+` RENAME TO `+pgx.Identifier{s[1]}.Sanitize()); err != nil {
			return "", 0, fmt.Errorf("rename schema %s: %w", s[0], err)
		}
	}
	if err := tx.Commit(hold); err != nil {
		return "", 0, fmt.Errorf("commit the switch: %w", err)
	}
	return old, time.Since(began), nil
}

// compared says which partitions are compared, and up to which sequence both schemas have read them for the early look.
// A partition that the live view has not begun has nothing to compare.
func (r *rebuild) compared(ctx context.Context) (map[events.Partition]uint64, error) {
	out := map[events.Partition]uint64{}
	if r.cfg.NoVerify {
		return out, nil
	}
	live := projector.New(r.live, projector.Config{Gapless: true, Timeout: time.Minute, Logger: r.cfg.Logger.Level(zerolog.WarnLevel)})
	for _, p := range r.cfg.Partitions {
		seq, err := live.Checkpoint(ctx, p)
		if err != nil {
			return nil, err
		}
		if seq == 0 {
			continue
		}
		if out[p], err = r.into.Checkpoint(ctx, p); err != nil {
			return nil, err
		}
		// Where no projector runs, the live view is taken as far as the new one: only then are they comparable.
		if err := r.advance(ctx, live, p, out[p]); err != nil {
			return nil, fmt.Errorf("bring the live view to the same sequence: %w", err)
		}
	}
	return out, nil
}

// liveAt reads the checkpoints of the live view, under a lock where wanted.
func (r *rebuild) liveAt(ctx context.Context, q querier, lock string) (map[events.Partition]uint64, error) {
	at := map[events.Partition]uint64{}
	rows, err := q.Query(ctx, `SELECT partition, seq FROM `+pgx.Identifier{r.cfg.Schema, "checkpoints"}.Sanitize()+
		` WHERE view = $1 ORDER BY partition`+lock, projector.View)
	if err == nil {
		var p int16
		var seq int64
		_, err = pgx.ForEachRow(rows, []any{&p, &seq}, func() error { at[events.Partition(p)] = uint64(seq); return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("read the live checkpoints: %w", err)
	}
	return at, nil
}

// addUnbegun adds the end of the log for the partitions that the live view has not begun: there is no projector that goes on with them
// for sure.
func (r *rebuild) addUnbegun(ctx context.Context, at map[events.Partition]uint64) error {
	for _, p := range r.cfg.Partitions {
		if at[p] > 0 {
			continue
		}
		last, err := r.last(ctx, p)
		if err != nil {
			return err
		}
		at[p] = last
	}
	return nil
}

// meet takes the new view to where the live one is.
func (r *rebuild) meet(ctx context.Context, at map[events.Partition]uint64) error {
	g, ctx := errgroup.WithContext(ctx)
	for p, seq := range at {
		g.Go(func() error { return r.advance(ctx, r.into, p, seq) })
	}
	return g.Wait()
}
