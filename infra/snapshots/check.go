package snapshots

import (
	"context"
	"fmt"

	"pilotstatus.dev/events"
)

// Log is what a check asks of the log, at its leader.
type Log interface {
	LastSequence(ctx context.Context, stream string) (uint64, error)
	GetLeader(ctx context.Context, stream string, seq uint64) (events.Recorded, error)
}

// Disagreement says that the log is not the one that was seen before: it lost what it had acknowledged, an older copy of it was
// restored, or it is another log. Nothing may be concluded from it until an operator says so.
type Disagreement struct {
	Partition events.Partition
	Sequence  uint64 // of the mark
	Last      uint64 // of the log, as it is now
	Found     string // what is at the place of the mark
	Witness   string // who says otherwise: "the witness", "a snapshot", "the checkpoint of the view"
}

func (d *Disagreement) Error() string {
	return fmt.Sprintf("log of partition %s ends at %d; %s knows another event at %d: %s. See docs/runbook.md; to go on with this log: --accept-log %s:%d",
		d.Partition, d.Last, d.Witness, d.Sequence, d.Found, d.Partition, d.Last)
}

// BehindView compares how far a view has read a partition with where its log ends: a *Disagreement when the view is ahead.
func BehindView(p events.Partition, read, last uint64) error {
	if read <= last {
		return nil
	}
	return &Disagreement{Partition: p, Sequence: read, Last: last, Witness: "the checkpoint of the view", Found: notReached}
}

const notReached = "the log does not reach it"

// Check compares a mark with the log of its partition. A *Disagreement says that they differ; any other error that the log did
// not answer.
func Check(ctx context.Context, log Log, p events.Partition, m Mark, witness string) error {
	stream := events.EventsStream(p)
	last, err := log.LastSequence(ctx, stream)
	if err != nil {
		return fmt.Errorf("check %s of partition %s: %w", witness, p, err)
	}
	d := &Disagreement{Partition: p, Sequence: m.Sequence, Last: last, Witness: witness}
	if last < m.Sequence {
		d.Found = notReached
		return d
	}
	rec, err := log.GetLeader(ctx, stream, m.Sequence)
	switch {
	case err == nil && rec.ID == m.EventID:
		return nil
	case err == nil:
		d.Found = "it holds a different one"
		return d
	case events.CodeOf(err) == events.CodeNotFound:
		d.Found = "it is missing"
		return d
	case events.CodeOf(err) == events.CodeMalformed: // its id cannot be read here; the chain of ids tells
		return nil
	}
	return fmt.Errorf("check %s of partition %s: %w", witness, p, err)
}
