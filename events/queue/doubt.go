package queue

import (
	"time"

	"pilotstatus.dev/events"
)

// doubt is what is known of a log that lost events and was accepted by an operator (dispatch.restored): a message of what is left
// may have left in what was lost. Several events come to the newest of each field, so order and repeats mean nothing.
type doubt struct {
	upTo  uint64    // messages accepted up to here, as the log ended when it was accepted
	seq   uint64    // of the event: a start behind it was made by who knew, so after a look-up
	since time.Time // when the log was accepted
}

func (q *Queue) applyRestored(rec events.Recorded) {
	seq := rec.Position.Sequence
	upTo := seq // what is not known in full concerns all
	if b, ok := rec.Body.(*events.DispatchRestored); ok {
		upTo = min(upTo, b.UpTo)
	}
	d := doubt{max(q.doubt.upTo, upTo), max(q.doubt.seq, seq), q.doubt.since}
	if rec.Time.After(d.since) {
		d.since = rec.Time
	}
	if d == q.doubt {
		return
	}
	q.doubt = d
	for _, e := range q.entries {
		if e.QueuedSeq <= d.upTo {
			q.reindex(e)
		}
	}
}

// inDoubt reports whether e may have left in a part of the log that was lost, and nothing has shown since that it had not.
func (q *Queue) inDoubt(e *Entry) bool {
	if q.doubt.seq == 0 || !e.queued || e.QueuedSeq > q.doubt.upTo || e.soFar().looked >= q.doubt.seq || e.sum().Settled() {
		return false
	}
	return !e.StartedAfter(q.doubt.seq)
}

// InDoubt reports whether a message may have left in a part of the log that was lost.
func (q *Queue) InDoubt(id string) bool {
	e, ok := q.Entry(id)
	return ok && q.inDoubt(e)
}

// Doubtful lists the messages that may have left in a part of the log that was lost: none starts before LookedUp, and each ends
// at its deadline.
func (q *Queue) Doubtful() []*Entry { return bySeq(q.ix.doubtful) }

// Doubts reports how many messages Doubtful would list.
func (q *Queue) Doubts() int { return len(q.ix.doubtful) }

// Restored gives up to where an operator accepted a log that had lost events, and when; 0 when that never happened.
func (q *Queue) Restored() (upTo uint64, at time.Time) { return q.doubt.upTo, q.doubt.since }

// LookedUp lets a message in doubt go: the gateway was asked and shows that it had not left. It is no event, so it is forgotten on
// load: whoever begins anew asks again. A later doubt holds the message again.
func (q *Queue) LookedUp(id string) {
	if e, ok := q.Entry(id); ok {
		e.became().looked = q.doubt.seq
		q.reindex(e)
	}
}
