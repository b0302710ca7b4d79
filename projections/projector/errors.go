package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"pilotstatus.dev/events"
)

// BehindError says that the log ends before a place that the view has already read: the log lost what it had
// acknowledged, or an older copy of it was restored. Truth does not run backwards: the projector stops and a person decides.
type BehindError struct {
	Partition  events.Partition
	Checkpoint uint64 // sequence up to which the view has read
	Last       uint64 // last sequence of the log
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("log of partition %s ends at %d, behind the checkpoint %d of its view", e.Partition, e.Last, e.Checkpoint)
}

// DivergedError says that the log holds another event at the checkpoint than the one the view has read there: it is
// not the log that the view was made from.
type DivergedError struct {
	Partition events.Partition
	Sequence  uint64
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("log of partition %s holds another event at %d than the one its view was made from", e.Partition, e.Sequence)
}

// SQLSTATE codes and classes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	stateQueryCanceled   = "57014" // statement_timeout, or our own cancel request
	stateLockUnavailable = "55P03" // lock_timeout
	stateReadOnly        = "25006" // a standby, before a failover is complete
)

// timedOut reports whether a transaction took longer than a limit while the caller still waits for it.
func timedOut(ctx context.Context, err error) bool {
	if ctx.Err() != nil || err == nil {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == stateQueryCanceled || pg.Code == stateLockUnavailable
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// Passing reports whether the same work may succeed later without anybody changing it.
func Passing(err error) bool {
	var behind *BehindError
	var diverged *DivergedError
	if errors.As(err, &behind) || errors.As(err, &diverged) {
		return false
	}
	var ours *events.Error
	if errors.As(err, &ours) {
		return ours.Code == events.CodeUnavailable
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true // the connection, or the source
	}
	switch pg.Code[:min(2, len(pg.Code))] {
	case "08", "40", "53", "55", "57", "58": // connection, rollback, resources, not in the right state, intervention, system
		return true
	}
	return pg.Code == stateReadOnly
}
