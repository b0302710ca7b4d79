package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/projector"
)

const (
	batchMax = 2048 // events a tail hands over at once
	rowsMax  = 1000 // events compared with rows in one statement
	pageMax  = 1000 // messages compared with their fold at once
)

// Config says what to verify. Zero values of the limits mean the defaults.
type Config struct {
	Log        Log
	Pool       *pgxpool.Pool // onto the live views; nil verifies the log alone. Its statements need minutes where tables are large.
	Partitions []events.Partition
	// Silence is how long a tail may bring nothing before the next event is asked for, 10 s by default.
	Silence time.Duration
	// Tick is how often OnProgress hears, 1 s by default.
	Tick time.Duration
	// OnFinding hears of each fault, one at a time. May be nil.
	OnFinding func(Finding)
	// OnProgress hears how many events were read, and of how many. May be nil.
	OnProgress func(read, of uint64)
}

type verifier struct {
	cfg   Config
	found ledger
	walks []*walk
}

// Verify reads every partition whole while traffic runs. It looks for missing events, for broken chains of fenced events,
// for events that are not those which the projector read (digests), and compares every row of the views with the
// log. A fault is a finding; an error says that the audit could not be done.
//
// How rows are compared: in the order of the log each event with its timeline rows and, of an accepted message, with what its row
// repeats of it; then, at one moment of Postgres, each message and its attempts with the fold of its timeline, which by
// then is known to be the log's. So nothing is held but one batch and one page.
func Verify(ctx context.Context, cfg Config) (Report, error) {
	cfg.Silence = cmp.Or(max(cfg.Silence, 0), 10*time.Second)
	cfg.Tick = cmp.Or(max(cfg.Tick, 0), time.Second)
	cfg.Log = insistent{cfg.Log}
	v := &verifier{cfg: cfg, found: ledger{on: cfg.OnFinding, report: Report{Partitions: len(cfg.Partitions)}}}
	for _, p := range cfg.Partitions {
		v.walks = append(v.walks, &walk{v: v, part: p, next: 1, prev: map[string]uint64{}, kept: map[uint64]events.Digest{}})
	}
	if err := v.verify(ctx); err != nil {
		return v.found.report, fmt.Errorf("verify log: %w", err)
	}
	return v.found.report, nil
}

func (v *verifier) verify(ctx context.Context) error {
	if v.cfg.Pool == nil {
		return v.all(ctx, nil, true)
	}
	seen, err := v.checkpoints(ctx, v.cfg.Pool)
	if err != nil {
		return err
	}
	if err := v.all(ctx, seen, false); err != nil {
		return err
	}
	// The last events are read up to what this one moment of Postgres has read.
	tx, err := v.cfg.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err = v.moment(ctx, tx)
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if e := tx.Rollback(bye); e != nil && !errors.Is(e, pgx.ErrTxClosed) && err == nil {
		err = fmt.Errorf("roll back: %w", e)
	}
	return err
}

// rollbackLimit bounds the goodbye to a transaction.
const rollbackLimit = 5 * time.Second

func (v *verifier) moment(ctx context.Context, tx pgx.Tx) error {
	now, err := v.checkpoints(ctx, tx)
	if err != nil {
		return err
	}
	if err := v.strangers(ctx, tx); err != nil {
		return err
	}
	if err := v.all(ctx, now, false); err != nil {
		return err
	}
	if err := v.folds(ctx, tx); err != nil {
		return err
	}
	if err := v.quota(ctx, tx); err != nil {
		return err
	}
	return v.all(ctx, nil, true)
}

// all walks every partition, several at a time, up to its end or to the checkpoints seen. Rows are compared up to these.
func (v *verifier) all(ctx context.Context, seen map[events.Partition]mark, whole bool) error {
	heads := make([]uint64, len(v.walks))
	var of uint64
	for i, w := range v.walks {
		last, err := v.cfg.Log.LastSequence(ctx, events.EventsStream(w.part))
		if err != nil {
			return err
		}
		end := seen[w.part]
		if last < end.seq && !w.short {
			w.short = true
			v.found.add(Finding{Kind: KindShort, Partition: w.part, From: last + 1, To: end.seq, Detail: "the log ends behind what the view has read"})
		}
		if end.seq >= w.next {
			w.ends = append(w.ends, end)
		}
		w.rowsTo = max(w.rowsTo, end.seq)
		heads[i] = last
		if !whole {
			heads[i] = min(last, end.seq)
		}
		of += heads[i]
	}
	stop := v.tell(of)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	for i, w := range v.walks {
		g.Go(func() error {
			err := w.to(ctx, heads[i])
			w.covered(heads[i] - heads[i]%projector.DigestEvery)
			return err
		})
	}
	return g.Wait()
}

// tell reports progress until stop.
func (v *verifier) tell(of uint64) (stop func()) {
	if v.cfg.OnProgress == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(v.cfg.Tick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				v.cfg.OnProgress(v.found.events(), of)
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

func (v *verifier) diffEvents(ctx context.Context, part events.Partition, recs []events.Recorded, from, to uint64) error {
	tx, err := v.cfg.Pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	found, err := projector.DiffEvents(ctx, tx, part, recs, from, to)
	v.differences(part, found)
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if e := tx.Rollback(bye); err == nil && e != nil {
		err = fmt.Errorf("roll back: %w", e)
	}
	return err
}

func (v *verifier) differences(part events.Partition, found []projector.Difference) {
	for _, d := range found {
		detail := d.What
		if d.Attempt > 0 {
			detail = fmt.Sprintf("attempt %d: %s", d.Attempt, d.What)
		}
		v.found.add(Finding{Kind: KindRow, Partition: part, From: d.Sequence, To: d.Sequence, Table: d.Table, MessageID: d.MessageID, Detail: detail})
	}
}
