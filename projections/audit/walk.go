package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/projections/projector"
)

// walk goes through the log of a partition, from its first event, in as many stretches as asked for.
type walk struct {
	v    *verifier
	part events.Partition
	next uint64 // sequence to go on with

	prev    map[string]uint64        // by instance: sequence of its last fenced event
	kept    map[uint64]events.Digest // digests that the projector kept, by sequence
	bare    uint64                   // first event of the present stretch without digests, 0 when there is none
	digest  events.Digest            // of the run so far
	ends    []mark                   // checkpoints whose digest is still to be compared, in order
	rowsTo  uint64                   // the view has read up to here
	short   bool                     // that the log ends too early is known
	unknown bool                     // an event of the present block is missing: its digest cannot be right
}

// mark is a checkpoint: what the projector had read when it was there.
type mark struct {
	seq    uint64
	id     string        // of the event there; empty where it is not known
	digest events.Digest // zero where none was kept
}

// to goes on up to head. Missing events are findings, and the walk goes on behind them.
func (w *walk) to(ctx context.Context, head uint64) error {
	for w.next <= head {
		err := w.stretch(ctx, head)
		gap, isGap := errors.AsType[*eventlog.Gap](err)
		switch {
		case err == nil:
		case isGap && gap.Have > w.next:
			w.missing(min(gap.Have-1, head))
		case isGap: // the log ends before head
			w.missing(head)
		default:
			return fmt.Errorf("read partition %s: %w", w.part, err)
		}
	}
	return nil
}

var errReached = errors.New("reached")

// stretch reads until head, a gap, or silence. The server passes over an event that it cannot read at the end of the log without
// a word, so whoever waits too long for the next one asks for it.
func (w *walk) stretch(ctx context.Context, head uint64) error {
	tctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(w.v.cfg.Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	err := w.v.cfg.Log.Tail(tctx, eventlog.TailConfig{
		Stream: events.EventsStream(w.part), From: w.next, Gapless: true, BatchMax: batchMax,
		OnMalformed: func(at events.Position, _ string, err error) {
			w.v.found.add(Finding{Kind: KindMalformed, Partition: w.part, From: at.Sequence, Detail: string(events.CodeOf(err))})
		},
	}, func(ctx context.Context, b eventlog.Batch) error {
		silence.Stop()
		defer silence.Reset(w.v.cfg.Silence)
		recs := b.Events
		if n := len(recs); n > 0 && recs[n-1].Position.Sequence > head {
			cut, _ := slices.BinarySearchFunc(recs, head+1, func(r events.Recorded, seq uint64) int { return cmp.Compare(r.Position.Sequence, seq) })
			recs = recs[:cut]
		}
		if err := w.take(ctx, recs); err != nil {
			return err
		}
		if w.next > head {
			return errReached
		}
		return nil
	})
	switch {
	case errors.Is(err, errReached), ctx.Err() == nil && w.next > head: // also where the tail took longer to end than silence lasts
		return nil
	case ctx.Err() == nil && errors.Is(context.Cause(tctx), errSilent):
		return w.ask(ctx, head)
	}
	return err
}

var errSilent = errors.New("the log brings nothing")

// ask looks for the first event from next on that the leader has.
func (w *walk) ask(ctx context.Context, head uint64) error {
	for seq := w.next; seq <= head; seq++ {
		_, err := w.v.cfg.Log.GetLeader(ctx, events.EventsStream(w.part), seq)
		switch {
		case err == nil || events.CodeOf(err) == events.CodeMalformed:
			if seq > w.next {
				return &eventlog.Gap{Want: w.next, Have: seq}
			}
			return nil // it is there: the reader was slow
		case events.CodeOf(err) != events.CodeNotFound:
			return err
		}
	}
	return &eventlog.Gap{Want: w.next, Have: head + 1}
}

// take goes through events that follow each other.
func (w *walk) take(ctx context.Context, recs []events.Recorded) error {
	if len(recs) == 0 {
		return nil
	}
	w.v.found.read(len(recs))
	for _, rec := range recs {
		w.chain(rec)
		w.digest = w.digest.Then(rec.Digest)
		w.mark(rec.Position.Sequence, rec.ID)
	}
	from := recs[0].Position.Sequence
	w.next = recs[len(recs)-1].Position.Sequence + 1
	if from > w.rowsTo {
		return nil
	}
	n, _ := slices.BinarySearchFunc(recs, w.rowsTo+1, func(r events.Recorded, seq uint64) int { return cmp.Compare(r.Position.Sequence, seq) })
	return w.rows(ctx, recs[:n], from, min(w.next-1, w.rowsTo))
}

// chain compares ce-prev with the fenced event before this one in its instance.
func (w *walk) chain(rec events.Recorded) {
	addr, err := events.ParseEventSubject(rec.Address)
	if err != nil || addr.Group != events.GroupDispatch {
		return
	}
	if want := w.prev[addr.Instance]; rec.Prev != want {
		w.v.found.add(Finding{
			Kind: KindChain, Partition: w.part, From: rec.Position.Sequence,
			Detail: fmt.Sprintf("prev is %d, the fenced event before it in its instance is %d", rec.Prev, want),
		})
	}
	w.prev[addr.Instance] = rec.Position.Sequence
}

// mark compares digests where one was kept. After a fault it goes on with the one that was kept, so that only the block with the
// fault is named; where none was kept no run was under way, and one may begin.
func (w *walk) mark(seq uint64, id string) {
	for len(w.ends) > 0 && w.ends[0].seq == seq {
		end := w.ends[0]
		w.ends = w.ends[1:]
		if id != "" && end.id != "" && id != end.id {
			w.v.found.add(Finding{Kind: KindOther, Partition: w.part, From: seq, Detail: "another event than the view has read"})
		}
		if end.digest != (events.Digest{}) && end.digest != w.digest {
			w.differs(seq-(seq-1)%projector.DigestEvery, seq)
		}
	}
	if seq%projector.DigestEvery != 0 {
		return
	}
	from := seq - projector.DigestEvery + 1
	kept, ok := w.kept[seq]
	delete(w.kept, seq)
	switch {
	case ok && kept != w.digest:
		w.differs(from, seq)
	case !ok && w.bare == 0 && seq <= w.rowsTo:
		w.bare = from
	}
	if ok || seq > w.rowsTo {
		w.covered(from - 1)
	}
	w.digest, w.unknown = kept, false
}

// covered ends a stretch without digests.
func (w *walk) covered(to uint64) {
	if w.bare > 0 && to >= w.bare {
		w.v.found.add(Finding{Kind: KindUndigest, Partition: w.part, From: w.bare, To: to, Detail: "no digest was kept; pilot projections rebuild makes them"})
	}
	w.bare = 0
}

func (w *walk) differs(from, to uint64) {
	if w.unknown { // the missing event is the finding
		return
	}
	w.v.found.add(Finding{Kind: KindDigest, Partition: w.part, From: from, To: to, Detail: "these events are not the ones that were read before"})
}

// missing goes on behind events that the log has lost.
func (w *walk) missing(to uint64) {
	w.v.found.add(Finding{Kind: KindGap, Partition: w.part, From: w.next, To: to, Detail: fmt.Sprintf("%d events are missing", to-w.next+1)})
	w.unknown = true
	for ; w.next <= to; w.next++ {
		w.mark(w.next, "")
		w.unknown = w.unknown || w.next < to
	}
	w.unknown = to%projector.DigestEvery != 0
}

// rows compares what the view holds of events.
func (w *walk) rows(ctx context.Context, recs []events.Recorded, from, to uint64) error {
	if w.v.cfg.Pool == nil {
		return nil
	}
	for len(recs) > 0 {
		n := min(len(recs), rowsMax)
		end := recs[n-1].Position.Sequence
		if n == len(recs) {
			end = to
		}
		if err := w.v.diffEvents(ctx, w.part, recs[:n], from, end); err != nil {
			return err
		}
		recs, from = recs[n:], end+1
	}
	return nil
}
