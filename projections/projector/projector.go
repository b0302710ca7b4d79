// Package projector writes what the log says of messages into Postgres: each event once, rows and checkpoint in one
// transaction, whatever crashes, repeats or races.
//
// The state of a message is the pure fold of package message; this package decides nothing about it. The tables are
// described in docs/reference/views.md.
package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
)

// View names the tables this projector writes, in table checkpoints.
const View = "messages"

// Config shapes a projector. Zero values mean the defaults.
type Config struct {
	// Gapless takes a hole in the sequences for the fault it is in a log that never deletes.
	Gapless bool
	// BatchMax bounds the rows of the timeline written by one transaction of Run, 1000 by default. After a time-out Run
	// works with half as many, and grows again with success.
	BatchMax int
	// Cache is the number of messages of a partition whose facts stay in memory, 20,000 by default.
	Cache int
	// Timeout bounds one transaction, 10 s by default; the pool's statement_timeout bounds each statement.
	Timeout time.Duration
	// RetryMin and RetryMax bound the pause after a failure, 100 ms and 5 s by default. A pause is a random part of the
	// bound, which doubles with each failure in a row.
	RetryMin, RetryMax time.Duration
	// OnCommit hears of each new checkpoint after its transaction; it must not block. May be nil.
	OnCommit func(events.Partition, uint64)
	// OnBatch hears of each transaction; it must not block. May be nil.
	OnBatch func(Batch)
	// OnWait hears why the view of a partition waits for Postgres or the log, at each failure, and nil when it goes on; it must
	// not block. May be nil.
	OnWait func(events.Partition, error)
	Logger zerolog.Logger
}

// Batch is what one transaction did, for metrics.
type Batch struct {
	Partition events.Partition
	Events    int
	Messages  int    // different messages concerned
	From, To  uint64 // checkpoint before and after
	Elapsed   time.Duration
	Lag       time.Duration // from when the newest event was stored until it could be read in the view
}

// Projector writes the messages view. It is safe for concurrent use; batches of one partition take turns, here and
// between processes.
type Projector struct {
	pool *pgxpool.Pool
	cfg  Config

	mu     sync.Mutex
	shards map[events.Partition]*shard
}

// shard is what a projector remembers of a partition. Its entries are as of checkpoint at.
type shard struct {
	partition events.Partition
	turn      chan struct{} // holds a token while nobody works
	at        uint64
	build     string // of the tables that the entries are of
	cache     *lru
}

// New makes a projector that writes through pool, which package schema opened.
func New(pool *pgxpool.Pool, cfg Config) *Projector {
	cfg.BatchMax = cmp.Or(max(cfg.BatchMax, 0), 1000)
	cfg.Cache = cmp.Or(max(cfg.Cache, 0), 20_000)
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), 10*time.Second)
	cfg.RetryMin = cmp.Or(max(cfg.RetryMin, 0), 100*time.Millisecond)
	cfg.RetryMax = max(cmp.Or(max(cfg.RetryMax, 0), 5*time.Second), cfg.RetryMin)
	return &Projector{pool: pool, cfg: cfg, shards: map[events.Partition]*shard{}}
}

// Apply takes a batch of whole events in, in one transaction: all their rows and the checkpoint, or nothing. Events up
// to the checkpoint are skipped. last is the sequence up to which the batch covers the log: that of its newest event,
// or a later one when events behind it were filtered out; the checkpoint moves there, never back.
//
// Errors: code LOG_GAP for a hole in a gapless log, MALFORMED_EVENT for a caller that gives other events than whole ones of the
// partition, *DivergedError for another log; anything else is of Postgres or ctx and changes nothing
// that the next try would not find.
func (p *Projector) Apply(ctx context.Context, partition events.Partition, recs []events.Recorded, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	s := p.shard(partition)
	select {
	case <-s.turn:
	case <-ctx.Done():
		return fmt.Errorf("project partition %s: wait for a turn: %w", partition, ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()

	began := time.Now()
	res, err := p.transact(ctx, s, recs, last)
	if err != nil {
		s.forget()
		return fmt.Errorf("project partition %s: %w", partition, err)
	}
	s.keep(res)
	if res.to > res.from {
		p.report(partition, res, recs, time.Since(began))
	}
	return nil
}

func (p *Projector) report(partition events.Partition, res result, recs []events.Recorded, elapsed time.Duration) {
	b := Batch{Partition: partition, Events: res.events, Messages: res.messages, From: res.from, To: res.to, Elapsed: elapsed}
	if n := len(recs); n > 0 {
		b.Lag = max(0, time.Since(recs[n-1].Stored))
	}
	p.cfg.Logger.Info().Stringer("partition", partition).Int("events", b.Events).Int("messages", b.Messages).
		Uint64("from", b.From).Uint64("to", b.To).Dur("elapsed", b.Elapsed).Dur("lag", b.Lag).Msg("view advanced")
	if p.cfg.OnCommit != nil {
		p.cfg.OnCommit(partition, res.to)
	}
	if p.cfg.OnBatch != nil {
		p.cfg.OnBatch(b)
	}
}

// Checkpoint gives the sequence up to which the view has read a partition, 0 before the first event.
func (p *Projector) Checkpoint(ctx context.Context, partition events.Partition) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var seq int64
	err := p.pool.QueryRow(ctx, readCheckpoint, View, int16(partition)).Scan(&seq)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("read checkpoint of partition %s: %w", partition, err)
	}
	return uint64(seq), nil
}

func (p *Projector) shard(partition events.Partition) *shard {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.shards[partition]
	if !ok {
		s = &shard{partition: partition, turn: make(chan struct{}, 1), cache: newLRU(p.cfg.Cache)}
		s.turn <- struct{}{}
		p.shards[partition] = s
	}
	return s
}

// trust drops what is remembered when somebody else has moved the checkpoint since, or made the tables anew.
func (s *shard) trust(checkpoint uint64, build string) {
	if s.at != checkpoint || s.build != build {
		s.cache.purge()
		s.at, s.build = checkpoint, build
	}
}

func (s *shard) keep(res result) {
	s.at = res.to
	for id, e := range res.entries {
		s.cache.put(id, e)
	}
}

// forget is for a transaction whose fate is open.
func (s *shard) forget() {
	s.cache.purge()
	s.at = 0
}

// moved fails a transaction that did not move the checkpoint.
func moved(tag pgconn.CommandTag) error {
	if tag.RowsAffected() != 1 {
		return errors.New("the checkpoint moved under its lock")
	}
	return nil
}
