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

// ByView is the witness that a view is of the log it has read: how far, and which event stands there.
const ByView = "the checkpoint of the view"

const notReached = "the log does not reach it"

// Check compares a mark with the log of its partition. A *Disagreement says that they differ; any other error that the log did
// not answer. A mark at 0 saw nothing, one without an id only how far the log reached.
func Check(ctx context.Context, log Log, p events.Partition, m Mark, witness string) error {
	if m.Sequence == 0 {
		return nil
	}
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
	if m.EventID == "" {
		return nil
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
