// Package views answers questions about messages from Postgres. Every answer is inside one scope: what lies outside it
// does not exist for the caller.
//
// Answers may be behind the log; WaitFor says when they are not. Errors carry a code of package events: NOT_FOUND, or
// UNAVAILABLE when Postgres did not answer.
package views

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/projector"
)

// Bounds of the pause between two looks at a checkpoint while somebody waits for it.
const (
	pollFirst   = 5 * time.Millisecond
	pollLongest = 100 * time.Millisecond
)

// planned makes Postgres plan a query each time it runs: a plan kept from when the tables were empty reads them whole.
const planned = pgx.QueryExecModeCacheDescribe

// Scope is what a caller's key may see: all three must match.
type Scope struct {
	Tenant      string
	Project     string
	Environment events.Environment
}

// Views reads the tables. It is safe for concurrent use.
type Views struct {
	pool *pgxpool.Pool

	mu    sync.Mutex
	waits map[events.Partition]chan struct{} // closed at the next commit of a projector in this process
}

// New makes the queries over a pool that package schema opened.
func New(pool *pgxpool.Pool) *Views {
	return &Views{pool: pool, waits: map[events.Partition]chan struct{}{}}
}

// Committed wakes who waits for a partition; it is what projector.Config.OnCommit is for. Waiting works without it, by
// looking again and again.
func (v *Views) Committed(partition events.Partition, _ uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c, ok := v.waits[partition]; ok {
		close(c)
		delete(v.waits, partition)
	}
}

func (v *Views) committed(partition events.Partition) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok := v.waits[partition]
	if !ok {
		c = make(chan struct{})
		v.waits[partition] = c
	}
	return c
}

// Checkpoint gives the sequence up to which answers about a partition include the log; 0 before the first event.
func (v *Views) Checkpoint(ctx context.Context, partition events.Partition) (uint64, error) {
	seq, _, err := v.LastRead(ctx, partition)
	return seq, err
}

// LastRead gives the place up to which answers about a partition include the log, and the id of the event there: 0 and "" before the
// first event. The id is "" too when the event there has none that can be read.
func (v *Views) LastRead(ctx context.Context, partition events.Partition) (seq uint64, eventID string, err error) {
	var at int64
	err = v.pool.QueryRow(ctx, `SELECT seq, event_id FROM checkpoints WHERE view = $1 AND partition = $2`,
		planned, projector.View, int16(partition)).Scan(&at, &eventID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, "", coded("read checkpoint", err)
	}
	return uint64(at), eventID, nil
}

// WaitFor returns when answers about a partition include seq. When ctx ends before, the error's code is UNAVAILABLE.
func (v *Views) WaitFor(ctx context.Context, partition events.Partition, seq uint64) error {
	for pause := pollFirst; ; pause = min(2*pause, pollLongest) {
		// Taken before the look, so that no commit falls between the two.
		commit := v.committed(partition)
		at, err := v.Checkpoint(ctx, partition)
		if err != nil {
			return err
		}
		if at >= seq {
			return nil
		}
		t := time.NewTimer(pause)
		select {
		case <-commit:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return events.Errorf(events.CodeUnavailable, "the answer is not up to date yet").WithCause(ctx.Err())
		}
		t.Stop()
	}
}

// coded gives an error of Postgres the code that says whether trying again helps. A statement that Postgres refuses is a fault
// of ours and stays without a code.
func coded(act string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code[:min(2, len(pg.Code))] {
		case "42", "3F": // a table or schema that is still to be made
			if pg.Code != "42P01" && pg.Code != "3F000" {
				return fmt.Errorf("%s: %w", act, err)
			}
		case "08", "40", "53", "55", "57", "58": // connection, rollback, resources, wrong state, intervention, system
		default:
			return fmt.Errorf("%s: %w", act, err)
		}
	}
	return events.Errorf(events.CodeUnavailable, "the views cannot be read at present").WithCause(fmt.Errorf("%s: %w", act, err))
}

func notFound() error { return events.Errorf(events.CodeNotFound, "no message with this id") }
