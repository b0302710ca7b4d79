package receipts

import (
	"container/heap"
	"container/list"
	"slices"
	"time"

	"pilotstatus.dev/events"
)

// sighting is one thing a gateway said about a key id.
type sighting struct {
	state    events.Status
	word     string
	at       time.Time
	received time.Time
	others   bool // whoever consumes it records it; it is kept here in case that one dies
}

// held are the sightings of a key id that are not recorded yet.
type held struct {
	key     key
	seen    []sighting // one a state, in order of arrival
	since   time.Time
	asked   int // how often the Finder was
	nextAsk time.Time
	place   int // in the order of questions
}

// questions are the held key ids in the order in which the Finder is asked about them: a heap.
type questions []*held

func (q questions) Len() int           { return len(q) }
func (q questions) Less(i, j int) bool { return q[i].nextAsk.Before(q[j].nextAsk) }

func (q questions) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface, as Pop does.
func (q *questions) Push(x any) {
	h := x.(*held)
	h.place = len(*q)
	*q = append(*q, h)
}

// Pop takes the last one out.
func (q *questions) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return h
}

// hold keeps a sighting until it is recorded. Its message is asked for after grace.
func (b *book) hold(k key, s sighting, grace time.Duration) {
	e := b.held[k]
	if e == nil {
		h := &held{key: k, since: s.received, nextAsk: s.received.Add(grace)}
		e = b.heldOrder.PushBack(h)
		b.held[k] = e
		heap.Push(&b.questions, h)
		for b.heldOrder.Len() > b.maxHeld {
			b.drop(b.heldOrder.Front())
		}
	}
	h := e.Value.(*held)
	for i, seen := range h.seen {
		if seen.state == s.state {
			h.seen[i].others = seen.others && s.others
			return
		}
	}
	h.seen = append(h.seen, s)
}

// release ends the holding of one state of a key.
func (b *book) release(k key, state events.Status) {
	e := b.held[k]
	if e == nil {
		return
	}
	h := e.Value.(*held)
	h.seen = slices.DeleteFunc(h.seen, func(s sighting) bool { return s.state == state })
	if len(h.seen) == 0 {
		b.drop(e)
	}
}

func (b *book) drop(e *list.Element) {
	h := b.heldOrder.Remove(e).(*held)
	delete(b.held, h.key)
	heap.Remove(&b.questions, h.place)
}

// sightings gives what is held for a key and nobody else records, in order of arrival.
func (b *book) sightings(k key) (out []sighting) {
	e := b.held[k]
	if e == nil {
		return nil
	}
	for _, s := range e.Value.(*held).seen {
		if !s.others {
			out = append(out, s)
		}
	}
	return out
}

// overdue gives the keys of known messages that are held since before a time: whoever was to record them did not.
func (b *book) overdue(before time.Time) (out []key) {
	for e := b.heldOrder.Front(); e != nil; e = e.Next() {
		h := e.Value.(*held)
		if _, known := b.claims[h.key]; !known || !h.since.Before(before) {
			continue
		}
		for i := range h.seen {
			h.seen[i].others = false
		}
		out = append(out, h.key)
	}
	return out
}

// question gives the key id that the Finder is to be asked about first; ok is false when none is due. One of a known message waits on.
func (b *book) question(now time.Time, again time.Duration) (k key, ok bool) {
	for len(b.questions) > 0 && !now.Before(b.questions[0].nextAsk) {
		h := b.questions[0]
		if _, known := b.claims[h.key]; !known {
			return h.key, true
		}
		h.nextAsk = now.Add(again)
		heap.Fix(&b.questions, h.place)
	}
	return key{}, false
}

// asked puts the next question about a key id off, by twice as long each time: most of those that nobody knows stay unknown, and
// must not keep newer ones waiting.
func (b *book) asked(k key, now time.Time, first, most time.Duration) {
	e := b.held[k]
	if e == nil {
		return
	}
	h := e.Value.(*held)
	h.nextAsk = now.Add(min(first<<min(h.asked, 20), most))
	h.asked++
	heap.Fix(&b.questions, h.place)
}
