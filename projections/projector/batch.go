package projector

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// batch is what a run of events does to the tables. It is built without touching the database.
type batch struct {
	partition events.Partition
	timeline  []timelineRow
	touched   []string // ids of the messages concerned, in order of their first event
	lastSeq   map[string]uint64
	accepted  map[string]events.Recorded  // by message id: its queued event, when it is in this batch
	facts     map[string][]timelineRow    // by message id
	attempts  map[string]map[int]struct{} // by message id: numbers of the attempts that facts of this batch are about
}

// messageRow is a row of table messages. The part that never changes is there only for a message accepted in this batch.
type messageRow struct {
	id      string
	rec     events.Recorded
	addr    events.EventAddress
	body    *events.MessageQueued
	labels  string // JSON
	view    message.View
	lastSeq uint64
}

// accept cuts off what the view has read and checks the rest: whole events of this partition, by sequence, each once,
// and without a hole when the log is gapless.
func accept(p events.Partition, recs []events.Recorded, checkpoint uint64, gapless bool) ([]events.Recorded, error) {
	bySeq := func(a, b events.Recorded) int { return cmp.Compare(a.Position.Sequence, b.Position.Sequence) }
	if !slices.IsSortedFunc(recs, bySeq) {
		recs = slices.Clone(recs)
		slices.SortStableFunc(recs, bySeq)
	}
	fresh := make([]events.Recorded, 0, len(recs))
	at := checkpoint
	for _, rec := range recs {
		if rec.Position.Partition != p {
			return nil, events.Errorf(events.CodeMalformed, "event of partition %s given to the projector of partition %s", rec.Position.Partition, p)
		}
		if rec.Position.Sequence <= at {
			continue
		}
		if gapless && rec.Position.Sequence != at+1 {
			return nil, events.Errorf(events.CodeLogGap, "the log of partition %s has no event between %d and %d", p, at, rec.Position.Sequence)
		}
		if rec.Partial || rec.Known && rec.Body == nil {
			return nil, events.Errorf(events.CodeMalformed, "event %s was given to the projector without its body", rec.Position)
		}
		at = rec.Position.Sequence
		fresh = append(fresh, rec)
	}
	return fresh, nil
}

// gather sorts events by what they do. An event about no message only moves the checkpoint.
func gather(p events.Partition, recs []events.Recorded) *batch {
	b := &batch{
		partition: p, lastSeq: map[string]uint64{}, accepted: map[string]events.Recorded{},
		facts: map[string][]timelineRow{}, attempts: map[string]map[int]struct{}{},
	}
	for _, rec := range recs {
		base := timelineOf(rec)
		for _, m := range message.Subjects(rec) {
			if !storable(m.ID) || b.lastSeq[m.ID] == rec.Position.Sequence {
				continue
			}
			b.add(rec, base, m.ID)
		}
	}
	return b
}

func (b *batch) add(rec events.Recorded, row timelineRow, id string) {
	row.messageID = id
	b.timeline = append(b.timeline, row)
	if _, seen := b.lastSeq[id]; !seen {
		b.touched = append(b.touched, id)
	}
	b.lastSeq[id] = rec.Position.Sequence
	if _, again := b.accepted[id]; rec.Type == events.TypeMessageQueued && rec.Known && !again {
		b.accepted[id] = rec
	}
	if !row.folded {
		return
	}
	b.facts[id] = append(b.facts[id], row)
	if row.attempt > 0 {
		if b.attempts[id] == nil {
			b.attempts[id] = map[int]struct{}{}
		}
		b.attempts[id][row.attempt] = struct{}{}
	}
}

// rows folds the batch on top of what was known, and gives the new entries with the rows that follow from them:
// messages accepted here, messages that only change, attempts.
func (b *batch) rows(known map[string]entry) (next map[string]entry, fresh, changed []messageRow, attempts []attemptRow) {
	next = make(map[string]entry, len(b.touched))
	for _, id := range b.touched {
		e := known[id]
		for _, r := range b.facts[id] {
			if f, ok := r.fact(); ok {
				e = e.take(f, r)
			}
		}
		next[id] = e
		attempts = append(attempts, e.attemptsOf(id, b.attempts[id])...)
		row := messageRow{id: id, view: e.view(), lastSeq: b.lastSeq[id]}
		if rec, ok := b.accepted[id]; ok && row.describe(rec) {
			fresh = append(fresh, row)
		} else {
			changed = append(changed, row)
		}
	}
	return next, fresh, changed, attempts
}

// describe fills in what never changes; false when the event stands under a subject that is none of ours.
func (r *messageRow) describe(rec events.Recorded) bool {
	addr, err := events.ParseEventSubject(rec.Address)
	body, ok := rec.Body.(*events.MessageQueued)
	if err != nil || !ok {
		return false
	}
	labels := make([]string, len(body.Labels))
	for i, l := range body.Labels {
		labels[i] = text(l)
	}
	raw, err := json.Marshal(labels)
	if err != nil {
		return false
	}
	if rec.Time.IsZero() {
		rec.Time = rec.Stored
	}
	if rec.Time.IsZero() {
		rec.Time = time.Unix(0, 0)
	}
	r.rec, r.addr, r.body, r.labels = rec, addr, body, string(raw)
	return true
}

// weight is the number of rows an event brings, at least one: what bounds a transaction.
func weight(rec events.Recorded) int { return max(1, len(message.Subjects(rec))) }
