package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/await"
)

// Counted is what the views say of a window in one partition.
type Counted struct {
	Tenant    string
	Window    string
	Partition events.Partition
	Record    quota.Record
}

// Views reads what the projector counted.
type Views interface {
	// QuotaChanged lists the windows of a partition that changed after a sequence, the earliest first, at most limit.
	QuotaChanged(ctx context.Context, p events.Partition, after uint64, limit int) ([]Counted, error)
	// QuotaAccepted gives how many messages the views have accepted in a window, over all partitions.
	QuotaAccepted(ctx context.Context, tenant, window string) (int64, error)
	// Checkpoint gives the sequence up to which the views have read a partition.
	Checkpoint(ctx context.Context, p events.Partition) (uint64, error)
}

// Log is what a Keeper needs of the log.
type Log interface {
	Counter
	// CountedAt gives the total of a counter and the sequence of the last addition.
	CountedAt(ctx context.Context, subject string) (total int64, sequence uint64, err error)
	// Last gives the last sequence of a partition.
	Last(ctx context.Context, p events.Partition) (uint64, error)
}

// Config of a Keeper. Zero durations take the defaults.
type Config struct {
	Partitions []events.Partition
	Log        Log
	Views      Views
	Bucket     func(context.Context) (jetstream.KeyValue, error)
	// Windows lists the windows with a limit that count now, by tenant.
	Windows func(now time.Time) map[string][]quota.Window

	PublishEvery time.Duration // 1 s
	CorrectEvery time.Duration // how often counters are looked at, and so how long one is quiet; more than ReservationLife, twice it by default
	CallLimit    time.Duration // of one call outside; 5 s
	Now          func() time.Time
	Logger       zerolog.Logger
	// OnCorrection hears of what was added to a counter. May be nil.
	OnCorrection func(n int64)
}

// Keeper publishes what the log says of windows, and corrects their counters. Several may run: what they do twice changes nothing.
type Keeper struct {
	cfg       Config
	published map[events.Partition]uint64
	seen      map[string]uint64 // by subject: the sequence of a counter's last addition at the last look
}

const publishBatch = 500

// NewKeeper makes one; Run runs it, once.
func NewKeeper(cfg Config) *Keeper {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&cfg.PublishEvery, time.Second)
	set(&cfg.CorrectEvery, 2*ReservationLife)
	set(&cfg.CallLimit, 5*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Keeper{cfg: cfg, published: map[events.Partition]uint64{}, seen: map[string]uint64{}}
}

// Run keeps on until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	next := k.cfg.Now().Add(k.cfg.CorrectEvery)
	for {
		if err := k.publish(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Logger.Warn().Err(err).Msg("quota records are not published; refunded places wait")
		}
		if now := k.cfg.Now(); !now.Before(next) {
			next = now.Add(k.cfg.CorrectEvery)
			if err := k.correct(ctx, now); err != nil && ctx.Err() == nil {
				k.cfg.Logger.Warn().Err(err).Msg("quota counters are not corrected")
			}
		}
		if !await.Elapsed(ctx, k.cfg.PublishEvery) {
			return fmt.Errorf("keep quota: %w", ctx.Err())
		}
	}
}

// publish puts what changed into the bucket.
func (k *Keeper) publish(ctx context.Context) error {
	for _, p := range k.cfg.Partitions {
		for more := true; more; {
			call, cancel := context.WithTimeout(ctx, k.cfg.CallLimit)
			changed, err := k.cfg.Views.QuotaChanged(call, p, k.published[p], publishBatch)
			cancel()
			if err != nil {
				return err
			}
			for _, c := range changed {
				if err := k.put(ctx, c); err != nil {
					return err
				}
				k.published[p] = max(k.published[p], c.Record.Sequence)
			}
			more = len(changed) == publishBatch
		}
	}
	return nil
}

// put writes a record unless a later one is there: views that are being made anew are behind.
func (k *Keeper) put(ctx context.Context, c Counted) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.CallLimit)
	defer cancel()
	kv, err := k.cfg.Bucket(ctx)
	if err != nil {
		return err
	}
	key := keyOf(c.Tenant, c.Window, c.Partition)
	value, err := json.Marshal(c.Record)
	if err != nil {
		return fmt.Errorf("encode quota record: %w", err)
	}
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		_, err = kv.Create(ctx, key, value)
	case err == nil:
		var have quota.Record
		if json.Unmarshal(entry.Value(), &have) == nil && (have.Sequence > c.Record.Sequence || have == c.Record) {
			return nil
		}
		_, err = kv.Update(ctx, key, value, entry.Revision())
	}
	if err != nil { // another keeper may have been faster: the next turn compares with its record
		return fmt.Errorf("publish quota record: %w", err)
	}
	return nil
}

// correct looks at every counter with a limit, once the views have read all that the log holds.
func (k *Keeper) correct(ctx context.Context, now time.Time) error {
	if err := k.viewsAreCurrent(ctx); err != nil {
		return err
	}
	next := make(map[string]uint64)
	for tenant, windows := range k.cfg.Windows(now) {
		for _, w := range windows {
			subject := events.QuotaSubject(tenant, w.Name)
			seq, err := k.correctOne(ctx, tenant, w.Name, subject)
			if err != nil {
				return err
			}
			next[subject] = seq
		}
	}
	k.seen = next
	return nil
}

// correctOne makes a counter say what the log says, where that is known. A counter that has not moved since the last look, which is
// longer ago than a place is in anybody's hands, holds nothing that could still be appended or given back.
func (k *Keeper) correctOne(ctx context.Context, tenant, window, subject string) (sequence uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.CallLimit)
	defer cancel()
	// In this order: what is accepted later than it was read may be counted, but not the other way round.
	accepted, err := k.cfg.Views.QuotaAccepted(ctx, tenant, window)
	if err != nil {
		return 0, err
	}
	total, seq, err := k.cfg.Log.CountedAt(ctx, subject)
	if err != nil {
		return 0, err
	}
	last, seen := k.seen[subject]
	n := quota.Correction(total, accepted, seen && last == seq)
	if n == 0 {
		return seq, nil
	}
	// The sequence in the id makes a second keeper's correction the same one.
	if _, err := k.cfg.Log.Count(ctx, subject, n, fmt.Sprintf("correct.%s.%s.%d", tenant, window, seq)); err != nil {
		return 0, err
	}
	k.cfg.Logger.Info().Str("tenant", tenant).Str("window", window).Int64("by", n).Msg("quota counter corrected")
	if k.cfg.OnCorrection != nil {
		k.cfg.OnCorrection(n)
	}
	return seq, nil
}

// viewsAreCurrent reports an error unless the views have read what the log holds now, within the limit of a call.
func (k *Keeper) viewsAreCurrent(ctx context.Context) error {
	for _, p := range k.cfg.Partitions {
		call, cancel := context.WithTimeout(ctx, k.cfg.CallLimit)
		last, err := k.cfg.Log.Last(call, p)
		at := uint64(0)
		if err == nil {
			reached := await.Until(call, k.cfg.CallLimit, checkEvery, func() bool {
				at, err = k.cfg.Views.Checkpoint(call, p)
				return err != nil || at >= last
			})
			if err == nil && !reached {
				err = events.Errorf(events.CodeUnavailable, "the views are behind the log")
			}
		}
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

const checkEvery = 50 * time.Millisecond
