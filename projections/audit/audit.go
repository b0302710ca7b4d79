// Package audit reads the log back and says what it proves: the life of one message from the log alone, and whether the
// whole log is there, unchanged, and the same as the views.
//
// It promises to change nothing, neither in the log nor in Postgres, and to need memory that does not grow with the log
// (but for 32 bytes a block of digests).
package audit

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
)

// Log is what an audit reads.
type Log interface {
	LastSequence(ctx context.Context, stream string) (uint64, error)
	Tail(ctx context.Context, cfg eventlog.TailConfig, handle func(context.Context, eventlog.Batch) error) error
	GetLeader(ctx context.Context, stream string, seq uint64) (events.Recorded, error)
}

// insistent asks a log again that gives no answer.
type insistent struct{ Log }

func (l insistent) LastSequence(ctx context.Context, stream string) (seq uint64, err error) {
	err = eventlog.Insist(ctx, eventlog.InsistFor, func(ctx context.Context) error {
		seq, err = l.Log.LastSequence(ctx, stream)
		return err
	})
	return seq, err
}

func (l insistent) GetLeader(ctx context.Context, stream string, seq uint64) (rec events.Recorded, err error) {
	err = eventlog.Insist(ctx, eventlog.InsistFor, func(ctx context.Context) error {
		rec, err = l.Log.GetLeader(ctx, stream, seq)
		return err
	})
	return rec, err
}
