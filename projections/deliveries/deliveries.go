// Package deliveries writes what HOOKLOG says of tries to tell customers into Postgres: each try once, rows and checkpoint in one
// transaction, whatever crashes, repeats or races, and no longer than HOOKLOG keeps it.
//
// Nothing decides from this view. The table is described in docs/reference/views.md.
package deliveries

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/projections/projector"
)

// View names the table this package writes, in table checkpoints; its partition is 0.
const View = "deliveries"

// Keep is how long HOOKLOG keeps a try, and so this view.
const Keep = 30 * 24 * time.Hour

// Source reads HOOKLOG.
type Source interface {
	// Last gives the sequence of the newest event, as the leader says; 0 for an empty log.
	Last(ctx context.Context) (uint64, error)
	// Tail hands whole events from sequence from on to handle, in order, until ctx ends or handle fails, whose error it
	// returns as it is or wrapped. last is the sequence up to which a batch covers the log.
	Tail(ctx context.Context, from uint64, handle func(ctx context.Context, recs []events.Recorded, last uint64) error) error
}

// Config shapes a projector. Zero values mean the defaults.
type Config struct {
	Timeout            time.Duration // of one transaction; 10 s
	RetryMin, RetryMax time.Duration // bounds of the pause after a failure; 100 ms and 5 s
	Logger             zerolog.Logger
}

// Projector writes the view. It is safe for concurrent use, and several processes may run one: a batch that another wrote
// first is not written again.
type Projector struct {
	pool    *pgxpool.Pool
	cfg     Config
	expired atomic.Int64 // when old rows were last looked for, in seconds since 1970
}

// New makes a projector that writes through pool, which package schema opened.
func New(pool *pgxpool.Pool, cfg Config) *Projector {
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), 10*time.Second)
	cfg.RetryMin = cmp.Or(max(cfg.RetryMin, 0), 100*time.Millisecond)
	cfg.RetryMax = max(cmp.Or(max(cfg.RetryMax, 0), 5*time.Second), cfg.RetryMin)
	return &Projector{pool: pool, cfg: cfg}
}

// Run keeps the view up to date until ctx ends, and then returns nil. What passes by itself is waited for. It ends with an error
// when Postgres refuses a statement.
func (p *Projector) Run(ctx context.Context, src Source) error {
	for failures := 0; ctx.Err() == nil; failures++ {
		progressed, err := p.follow(ctx, src, 0)
		if ctx.Err() != nil {
			break
		}
		if !projector.Passing(err) {
			return fmt.Errorf("run projector of deliveries: %w", err)
		}
		if progressed {
			failures = 0
		}
		p.cfg.Logger.Warn().Err(err).Int("failures", failures+1).Msg("view of deliveries waits")
		await.Backoff(ctx, p.cfg.RetryMin, p.cfg.RetryMax, failures)
	}
	return nil //nolint:nilerr // the end of ctx is how a projector is stopped
}

// errReached ends a tail at the wanted sequence.
var errReached = errors.New("reached")

// Fill takes the view to where HOOKLOG ends now. It also ends when nothing comes for the time of a transaction: what is left of the
// log was read, where its last events are too old to be kept.
func (p *Projector) Fill(ctx context.Context, src Source) error {
	last, err := src.Last(ctx)
	if err != nil {
		return fmt.Errorf("read the end of HOOKLOG: %w", err)
	}
	if last == 0 {
		return nil
	}
	quiet, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(p.cfg.Timeout, func() { cancel(errReached) })
	defer silence.Stop()
	_, err = p.follow(quiet, heard{src, func() { silence.Reset(p.cfg.Timeout) }}, last)
	if errors.Is(err, errReached) || ctx.Err() == nil && errors.Is(context.Cause(quiet), errReached) {
		return nil
	}
	return fmt.Errorf("fill the view of deliveries: %w", err)
}

// heard is a source that tells of each batch.
type heard struct {
	Source
	tell func()
}

func (h heard) Tail(ctx context.Context, from uint64, handle func(ctx context.Context, recs []events.Recorded, last uint64) error) error {
	return h.Source.Tail(ctx, from, func(ctx context.Context, recs []events.Recorded, last uint64) error {
		h.tell()
		return handle(ctx, recs, last)
	})
}

// follow reads from the checkpoint on, until something fails or, where it is not 0, the sequence to is reached.
func (p *Projector) follow(ctx context.Context, src Source, to uint64) (progressed bool, err error) {
	at, err := p.begin(ctx, src)
	if err != nil {
		return false, err
	}
	if to > 0 && at >= to {
		return false, errReached
	}
	err = src.Tail(ctx, at+1, func(ctx context.Context, recs []events.Recorded, last uint64) error {
		if err := p.Apply(ctx, at, recs, last); err != nil {
			return err
		}
		at, progressed = max(at, last), true
		if to > 0 && at >= to {
			return errReached
		}
		return nil
	})
	if err == nil {
		err = errors.New("the tail ended by itself")
	}
	return progressed, err
}

// begin gives the checkpoint. A log that ends before it is another one than was read: the view is made anew from what it holds.
func (p *Projector) begin(ctx context.Context, src Source) (uint64, error) {
	last, err := src.Last(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the end of HOOKLOG: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var at int64
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO checkpoints (view, partition, seq, event_id) VALUES ($1, 0, 0, '') ON CONFLICT DO NOTHING`, View); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT seq FROM checkpoints WHERE view = $1 AND partition = 0 FOR UPDATE`, View).Scan(&at); err != nil {
			return err
		}
		if uint64(at) > last { // under the lock now: another projector may have gone on with a log that grew since
			if last, err = src.Last(ctx); err != nil {
				return err
			}
		}
		if uint64(at) > last {
			at = 0
			if _, err := tx.Exec(ctx, `UPDATE checkpoints SET seq = 0 WHERE view = $1 AND partition = 0`, View); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `DELETE FROM deliveries`); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read checkpoint of deliveries: %w", err)
	}
	return uint64(at), nil
}

// errMoved says that the tables were made anew.
var errMoved = errors.New("the checkpoint of deliveries moved")

// Apply writes the tries of a batch that follows sequence from, and moves the checkpoint to last, or does nothing. What the view has
// is skipped; one that ends before from was made anew, and is left as it is, with an error.
func (p *Projector) Apply(ctx context.Context, from uint64, recs []events.Recorded, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		var at int64
		err := tx.QueryRow(ctx, `SELECT seq FROM checkpoints WHERE view = $1 AND partition = 0 FOR UPDATE`, View).Scan(&at)
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && uint64(at) < from:
			return errMoved
		case err != nil || uint64(at) >= last:
			return err
		}
		q := &pgx.Batch{}
		for _, rec := range recs {
			if row, ok := rowOf(rec); ok && rec.Position.Sequence > uint64(at) {
				q.Queue(insert, row...)
			}
		}
		if p.due() {
			q.Queue(expire, time.Now().Add(-Keep))
		}
		// A rebuilt schema may have taken the place of the one whose row was locked: then this is another row.
		q.Queue(`UPDATE checkpoints SET seq = $3, updated_at = clock_timestamp() WHERE view = $1 AND partition = 0 AND seq = $2`, View, at, int64(last)).
			Exec(func(tag pgconn.CommandTag) error {
				if tag.RowsAffected() != 1 {
					return errMoved
				}
				return nil
			})
		return tx.SendBatch(ctx, q).Close()
	})
	if err != nil {
		return fmt.Errorf("write deliveries: %w", err)
	}
	return nil
}

// due reports whether old rows are to be looked for: with the first batch, and then each hour.
func (p *Projector) due() bool {
	now := time.Now().Unix()
	before := p.expired.Load()
	return now-before >= int64(time.Hour/time.Second) && p.expired.CompareAndSwap(before, now)
}

// expire removes what HOOKLOG does not keep any more. The oldest rows come first in the index, so it reads what it removes.
const expire = `DELETE FROM deliveries WHERE seq < coalesce((SELECT min(seq) FROM deliveries WHERE stored_at >= $1), 9223372036854775807)`

const insert = `INSERT INTO deliveries (seq, tenant_id, endpoint_id, webhook_id, message_id, event, attempt, result, http_status, reason,
	elapsed_ms, at, stored_at, next_at, delivery, response_key_id, response_blob)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, 0), nullif($10, ''), $11, $12, $13, $14, $15, nullif($16, ''), $17)`

// rowOf gives the columns of insert; false for an event that is no try.
func rowOf(rec events.Recorded) ([]any, bool) {
	try, ok := rec.Body.(*events.HookAttempt)
	if !ok {
		return nil, false
	}
	_, result, _ := strings.Cut(strings.TrimPrefix(rec.Address, "hlg."), ".")
	webhook, _, _ := strings.Cut(rec.ID, ".") // events.HookDelivery.TryID
	var next *time.Time
	if !try.NextAt.IsZero() {
		next = &try.NextAt
	}
	var delivery *string
	if raw, err := json.Marshal(try.Delivery); err == nil && try.Delivery != nil && !strings.Contains(string(raw), `\u0000`) {
		text := string(raw)
		delivery = &text
	}
	var response events.Sealed
	if try.Response != nil {
		response = *try.Response
	}
	at := rec.Time.UTC()
	if rec.Time.IsZero() {
		at = rec.Stored.UTC()
	}
	text := projector.Text
	return []any{
		int64(rec.Position.Sequence), text(rec.TenantID), text(try.Endpoint), text(webhook), text(try.MessageID), text(try.Event),
		int32(min(try.Attempt, 1<<30)), text(result), int32(min(max(try.HTTPStatus, 0), 999)), text(try.Reason), try.ElapsedMS, at, rec.Stored.UTC(),
		next, delivery, text(response.KeyID), response.Blob,
	}, true
}
