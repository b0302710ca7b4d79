package queue

import (
	"time"

	"pilotstatus.dev/events"
)

// Take keeps a message, and its slot, from being chosen while a turn is busy with it: from the choice on, before the log knows of a
// start. It counts as an open start. It is no event, so it is forgotten on load; whoever takes gives back with Release.
func (q *Queue) Take(id string) {
	if e, ok := q.Entry(id); ok {
		q.taken[id] = e.Lane.Slot
		if q.ix.picked.id == id {
			c := q.ix.picked
			c.since = q.GroupSequence()
			q.claims[id] = c
		}
	}
}

// Release ends what Take began.
func (q *Queue) Release(id string) {
	delete(q.taken, id)
	if c, ok := q.claims[id]; ok { // it did not give way: its class has had a turn
		q.ix.had[c.class] = max(q.ix.had[c.class], c.turn)
		delete(q.claims, id)
		if !c.spent { // it ended without a start: the next of its class goes by what was put by for this one
			q.restore(c)
		}
	}
}

// claim is what a class and a tenant gave for a turn.
type claim struct {
	id     string
	class  events.Class
	tenant string
	passed int          // turns that others had since the class's own
	saved  float64      // tokens that were put by for it
	to     events.Class // for which put was put by with the turn
	put    float64
	turn   uint64 // its number, in the order of choice
	since  uint64 // newest fenced event when it began
	spent  bool   // it started, and that may have made a call: it has its tokens
}

// GiveWay says that the turn that is busy with a message ends without a start, for one of a higher category: no class has had a turn, and the
// message's own has waited as long as before. Else a class of many tenants would begin to wait anew with each that types.
func (q *Queue) GiveWay(id string) {
	c, ok := q.claims[id]
	if !ok {
		return
	}
	delete(q.claims, id)
	q.waited(c, c.class, c.passed)
	for class := range q.ix.passed {
		if class != c.class {
			q.waited(c, class, -1)
		}
	}
	q.restore(c)
	if of := q.ix.ready[c.class]; of != nil {
		of.again(c.tenant)
	}
}

// restore takes back what was put by, and what was taken of it, with a turn that took no tokens.
func (q *Queue) restore(c claim) {
	if c.saved > 0 {
		q.ix.saved[c.class] = max(q.ix.saved[c.class], c.saved)
	}
	if c.put > 0 {
		q.ix.saved[c.to] = max(0, q.ix.saved[c.to]-c.put)
	}
}

// spends notes of the turn that is busy with e whether it has its tokens, as its facts tell now.
func (q *Queue) spends(e *Entry, start uint64, back bool) {
	if c, ok := q.claims[e.ID]; ok && start > c.since {
		c.spent = !back
		q.claims[e.ID] = c
	}
}

// waited lets a class have waited for so many turns more, as of turn c. If it had a turn since, that one has to give them back; nobody has
// once that one is over.
func (q *Queue) waited(c claim, class events.Class, turns int) {
	var next *claim
	for _, later := range q.claims {
		if later.class == class && later.turn > c.turn && (next == nil || later.turn < next.turn) {
			next = &later
		}
	}
	switch {
	case next != nil:
		next.passed = max(0, next.passed+turns)
		q.claims[next.id] = *next
	case q.ix.had[class] < c.turn:
		q.ix.passed[class] = max(0, q.ix.passed[class]+turns)
	}
}

// Taken counts the messages that turns are busy with.
func (q *Queue) Taken() int { return len(q.taken) }

// startless counts the taken messages without an open start, but for one.
func (q *Queue) startless(but string) (n int) {
	for id := range q.taken {
		if id == but {
			continue
		}
		if e := q.entries[id]; e == nil || e.sum().Open() == 0 {
			n++
		}
	}
	return n
}

// Limit is how many starts may be open at a time: the concurrency of the instance, and one while the breaker is half open. The gateway
// serialises what it sends for an account: behind a call without an answer others would hang, and leave late.
func (q *Queue) Limit() int {
	if q.rules.Concurrency > 1 && q.HalfOpen() {
		return 1
	}
	return max(1, q.rules.Concurrency)
}

// MayCall reports whether the open start of a message is within the limit as it is now: of those that are open, the oldest. One that was
// appended before the limit was lowered, or before another call got no answer, makes no call any more.
func (q *Queue) MayCall(id string) bool {
	e, ok := q.Entry(id)
	if !ok || e.sum().Open() == 0 {
		return false
	}
	older := 0
	for o := range q.ix.open {
		if o.openSeq() < e.openSeq() {
			older++
		}
	}
	return older < q.Limit()
}

// openSeq is the sequence of the open start.
func (e *Entry) openSeq() uint64 { return e.sum().Attempts[e.sum().Open()-1].StartSeq }

// Overtaken reports that a message of a higher category is held by nothing but the turn that is busy with id and has not started it.
func (q *Queue) Overtaken(id string, now time.Time) bool {
	e, ok := q.Entry(id)
	slot, taken := q.taken[id]
	if !ok || !taken || e.sum().Open() > 0 {
		return false
	}
	q.advance(now)
	free := q.held(now) == HoldNone
	delete(q.taken, id)
	defer func() { q.taken[id] = slot }()
	if q.held(now) != HoldNone {
		return false
	}
	may := func(o *Entry) Hold { return q.mayStart(o, now) }
	for _, class := range events.Classes() {
		if class.Category() == e.Category() {
			break
		}
		draws := q.drawsTokens(class.Category())
		if !draws && free || draws && q.startless(id) > 0 { // it can start beside this turn, or another one holds it as well
			continue
		}
		if c := q.ix.ready[class]; c != nil && c.head(may, &q.ix.aside) != nil {
			return true
		}
	}
	return false
}
