package eventlog

import (
	"context"
	"fmt"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/groupcommit"
)

// Durability waits for a sync of the file system that holds the log, as *groupcommit.Syncer does. What the server
// acknowledged, or gave to a reader, lies with the operating system; it survives a power cut once Wait returned nil for
// a mark taken afterwards.
type Durability interface {
	Mark() groupcommit.Mark
	Wait(ctx context.Context, m groupcommit.Mark) error
	// Err gives the error of the sync that failed, nil when none did.
	Err() error
}

var (
	_ Durability = (*groupcommit.Syncer)(nil)
	_ Durability = groupcommit.Patient{}
)

// Durable returns when all that this process has appended or read until now survives a power cut: to be called before
// anything is written elsewhere that says so. At once where the server syncs by itself.
func (l *Log) Durable(ctx context.Context) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return l.durable(ctx)
}

func (l *Log) durable(ctx context.Context) error { return l.durableAfter(ctx, l.mark()) }

func (l *Log) mark() groupcommit.Mark {
	if l.opts.Durability == nil {
		return 0
	}
	return l.opts.Durability.Mark()
}

// notFailed fails as durable does after a sync that failed, and waits for none.
func (l *Log) notFailed() error {
	if l.opts.Durability == nil {
		return nil
	}
	if err := l.opts.Durability.Err(); err != nil {
		return notOnDisk(err)
	}
	return nil
}

func notOnDisk(cause error) error {
	return fmt.Errorf("make it durable: %w", events.Errorf(events.CodeUnavailable, "the log is not on disk").WithCause(cause))
}

// durableAfter fails as an append whose acknowledgement is missing does: the event may be there after a power cut or not.
func (l *Log) durableAfter(ctx context.Context, m groupcommit.Mark) error {
	if l.opts.Durability == nil {
		return nil
	}
	if err := l.opts.Durability.Wait(ctx, m); err != nil {
		return notOnDisk(err)
	}
	return nil
}
