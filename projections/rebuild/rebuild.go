// Package rebuild makes the views anew from the first event of the log, in a schema beside the live one, and puts it in
// the live one's place while readers and projectors go on.
//
// It promises that until the switch nothing live changes, that the switch is one transaction, and that nobody but the new
// tables hears of what is read again: it has no consumer that lasts and no effect outside Postgres.
package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/projections/deliveries"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/schema"
)

// Config says what to rebuild. Zero values of the limits mean the defaults.
type Config struct {
	URL        string // of Postgres
	Schema     string // the live one
	Partitions []events.Partition
	Source     projector.Source
	// Deliveries is HOOKLOG: the new table of deliveries is filled before the switch, and not compared. With nil it is filled after it.
	Deliveries deliveries.Source
	// NoVerify puts the new tables in place without comparing them with the live ones: after a correction of the fold they
	// are meant to differ.
	NoVerify bool
	// KeepOld leaves the replaced schema as it is, under its new name.
	KeepOld bool
	// Near is how many events a partition may still lack when the switch begins, 2,000 by default.
	Near uint64
	// BatchMax is the number of rows of one transaction, 5,000 by default.
	BatchMax int
	// HoldLimit bounds how long the switch keeps projectors waiting, 30 s by default; then nothing has changed.
	HoldLimit time.Duration
	// Tick is how often OnProgress hears, 1 s by default.
	Tick time.Duration
	// OnProgress hears how far each partition is; it must not block. May be nil.
	OnProgress func(Progress)
	Logger     zerolog.Logger
}

// Progress is how far a rebuild is.
type Progress struct {
	Partitions []PartitionProgress
	Events     uint64        // read so far
	Of         uint64        // in the log at present
	Rate       float64       // events/s since the start
	Elapsed    time.Duration // since the start
}

// PartitionProgress is how far a partition is: both are sequences.
type PartitionProgress struct {
	Partition events.Partition
	At, Head  uint64
}

// Percent gives the share that is done.
func (p Progress) Percent() float64 {
	if p.Of == 0 {
		return 100
	}
	return 100 * float64(min(p.Events, p.Of)) / float64(p.Of)
}

// Result is what a rebuild did.
type Result struct {
	Events   uint64        // in the new tables at the switch
	Elapsed  time.Duration // whole
	Rate     float64       // events/s until the switch
	Verified bool          // the live rows were compared and are the same
	Held     time.Duration // how long the switch kept projectors waiting
	Old      string        // name of the replaced schema where it still exists, else empty
}

var (
	// ErrRunning says that another rebuild of the schema is under way.
	ErrRunning = errors.New("another rebuild is under way")
	// ErrLeftover says that a schema of an interrupted rebuild is still there.
	ErrLeftover = errors.New("an interrupted rebuild left a schema behind")
)

// DiffersError says that the live rows are not those that the log gives. Nothing was switched; the new schema is kept
// for a look.
type DiffersError struct {
	Schema string // the new one
	Rows   []Row  // the first of those that differ
	More   bool   // there are others
}

// Row names a row that differs.
type Row struct{ Table, Key string }

func (e *DiffersError) Error() string {
	text := "live rows differ from the log's, which are in schema " + e.Schema + ":"
	for _, r := range e.Rows {
		text += " " + r.Table + " " + r.Key + ","
	}
	if e.More {
		return text + " and more"
	}
	return text[:len(text)-1]
}

// rebuild is one run.
type rebuild struct {
	cfg   Config
	began time.Time
	fresh string        // schema being made
	pool  *pgxpool.Pool // onto it
	live  *pgxpool.Pool // onto the live one
	admin *pgx.Conn     // holds the turn
	into  *projector.Projector
	track *track
}

// Run rebuilds and switches. When it returns an error the live schema is as it was; a new one may be left behind, which
// Leftovers lists and Clean removes.
func Run(ctx context.Context, cfg Config) (res Result, err error) {
	cfg.Near = cmp.Or(cfg.Near, 2000)
	cfg.BatchMax = cmp.Or(max(cfg.BatchMax, 0), 5000)
	cfg.HoldLimit = cmp.Or(max(cfg.HoldLimit, 0), 30*time.Second)
	cfg.Tick = cmp.Or(max(cfg.Tick, 0), time.Second)
	r := &rebuild{cfg: cfg, began: time.Now()}
	defer func() {
		if err != nil {
			err = fmt.Errorf("rebuild views: %w", err)
		}
	}()
	if err := r.open(ctx); err != nil {
		return Result{}, errors.Join(err, r.close(ctx))
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	if err := r.fill(ctx); err != nil {
		return Result{}, err
	}
	if cfg.Deliveries != nil {
		if err := deliveries.New(r.pool, deliveries.Config{}).Fill(ctx, cfg.Deliveries); err != nil {
			return Result{}, err
		}
	}
	return r.finish(ctx)
}

// open takes the turn, refuses where something was left behind, and makes the new schema.
func (r *rebuild) open(ctx context.Context) error {
	var err error
	if r.admin, err = takeTurn(ctx, r.cfg.URL, r.cfg.Schema); err != nil {
		return err
	}
	left, err := leftovers(ctx, r.admin, r.cfg.Schema)
	if err != nil {
		return err
	}
	if len(left.Unfinished) > 0 {
		return fmt.Errorf("%w: %s", ErrLeftover, left.Unfinished[0])
	}
	// The live tables are of the present shape too, also where no projector has run since an upgrade.
	if err := schema.Migrate(ctx, r.cfg.URL, r.cfg.Schema); err != nil {
		return err
	}
	build := r.began.UTC().Format("20060102150405.000")
	r.fresh = r.cfg.Schema + unfinishedMark + stamp(r.began)
	if err := schema.Migrate(ctx, r.cfg.URL, r.fresh); err != nil {
		return err
	}
	settings := postgres.Settings{
		ApplicationName: "pilot rebuild", StatementTimeout: time.Minute, LockTimeout: -1, IdleInTx: -1, Disposable: true,
		MaxConns: int32(len(r.cfg.Partitions) + 2),
	}
	if r.pool, err = schema.Open(ctx, r.cfg.URL, r.fresh, settings); err != nil {
		return err
	}
	if r.live, err = schema.Open(ctx, r.cfg.URL, r.cfg.Schema, settings); err != nil {
		return err
	}
	for _, p := range r.cfg.Partitions {
		if _, err := r.pool.Exec(ctx, makeCheckpoint, projector.View, int16(p), build); err != nil {
			return fmt.Errorf("make checkpoints: %w", err)
		}
		// So that there is a row to hold a projector off with.
		if _, err := r.live.Exec(ctx, makeCheckpoint, projector.View, int16(p), ""); err != nil {
			return fmt.Errorf("make checkpoints: %w", err)
		}
	}
	r.track = newTrack(r.cfg.Partitions, r.began)
	r.into = projector.New(r.pool, projector.Config{
		Gapless: true, BatchMax: r.cfg.BatchMax, Cache: remembered, Timeout: time.Minute, OnCommit: r.track.commit,
		Logger: r.cfg.Logger.Level(zerolog.WarnLevel),
	})
	return nil
}

func (r *rebuild) close(ctx context.Context) error {
	for _, pool := range []*pgxpool.Pool{r.pool, r.live} {
		if pool != nil {
			pool.Close()
		}
	}
	if r.admin == nil {
		return nil
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	return r.admin.Close(bye)
}

// closeLimit bounds the goodbye to Postgres.
const closeLimit = 5 * time.Second

// remembered is how many messages of a partition stay in memory. What follows within seconds finds them there; what follows hours
// later is read back in any case, and a rebuild of any log holds no more than this.
const remembered = 5000

const makeCheckpoint = `INSERT INTO checkpoints (view, partition, seq, event_id, build) VALUES ($1, $2, 0, '', $3) ON CONFLICT DO NOTHING`

// finish compares, switches and tidies up.
func (r *rebuild) finish(ctx context.Context) (Result, error) {
	res := Result{Verified: !r.cfg.NoVerify}
	progress := r.track.progress()
	res.Rate = progress.Rate
	old, held, err := r.change(ctx)
	if err != nil {
		return Result{}, err
	}
	res.Old, res.Held = old, held
	if !r.cfg.KeepOld {
		if err := drop(ctx, r.admin, old); err != nil {
			r.cfg.Logger.Warn().Err(err).Str("schema", old).Msg("the new views are live; the old schema could not be dropped")
		} else {
			res.Old = ""
		}
	}
	res.Events, res.Elapsed = r.track.progress().Events, time.Since(r.began)
	return res, nil
}
