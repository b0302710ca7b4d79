package queue

import (
	"cmp"
	"slices"
	"time"

	"pilotstatus.dev/events"
)

// Start is the turn to take next.
type Start struct {
	Entry   *Entry
	Attempt int
	Fresh   bool // first attempt: a lane may already hold its body
	Claimed bool // a class before it waits: it is its guaranteed turn
}

// Next chooses who is next: the class that goes first, unless another has waited for its guaranteed turn; inside a class the tenants
// take turns by their weights; inside a tenant the order is (readyAt, sequence). ok is false when nothing may start now.
//
// What is dear saves for its turn where the pace holds it, see price.
//
// Whose turn it is, is no part of the state: a snapshot or another owner begins anew, so each of the bounds below may be waited for once
// more then.
func (q *Queue) Next(now time.Time) (s Start, ok bool) {
	q.advance(now)
	if q.held(now) != HoldNone {
		return Start{}, false
	}
	var taken slots
	for e := range q.ix.open {
		taken.add(e.Lane.Slot)
	}
	for _, slot := range q.taken {
		taken.add(slot)
	}
	may := func(e *Entry) Hold {
		if taken.has(e.Lane.Slot) { // of many tenants most may be held by this
			return cmp.Or(q.leavesTurn(e, now), HoldSlot)
		}
		return q.mayStart(e, now)
	}
	var room, rest [classes]candidate // a choice allocates nothing to speak of
	heads := q.candidates(room[:0], now, may)
	q.settle()
	if q.startless("") > 0 { // what the turn that is about to start takes is not known yet
		heads = slices.DeleteFunc(heads, func(c candidate) bool { return q.drawsTokens(c.class.Category()) })
	}
	able := rest[:0]
	for _, c := range heads {
		if c.wait == goes {
			able = append(able, c)
		}
	}
	if len(able) == 0 {
		return Start{}, false
	}
	pick := choose(able, q.rules.AgingTurns)
	highest := heads[slices.IndexFunc(heads, func(c candidate) bool { return c.wait != lacks })].class
	q.ix.picked = q.counts(pick, heads)
	q.ix.ready[pick.class].took(pick.head.Lane.Tenant, q.rules.weight)
	return Start{Entry: pick.head, Attempt: pick.head.NextAttempt(), Fresh: len(pick.head.sum().Attempts) == 0, Claimed: pick.class != highest}, true
}

// counts notes a turn for all that wait.
func (q *Queue) counts(pick candidate, heads []candidate) claim {
	turn := claim{id: pick.head.ID, class: pick.class, tenant: pick.head.Lane.Tenant, passed: pick.passed, saved: q.ix.saved[pick.class], turn: q.ix.picked.turn + 1}
	for class, c := range q.ix.ready {
		if c.waits() { // if only for its slot, or for the pace: it keeps its claim
			q.ix.passed[class]++
		}
	}
	q.put(pick, heads, &turn)
	q.ix.passed[pick.class] = 0
	delete(q.ix.saved, pick.class)
	return turn
}

// candidate is a class of which something may start, but for the pace.
type candidate struct {
	class  events.Class
	head   *Entry
	passed int     // turns that others took since its own, or since it waits
	cost   float64 // tokens that a start takes
	dear   bool    // a cheaper one goes before it: its turns are counted in tokens
	saved  bool    // its cost was put by: it is its turn
	wait   wait
	until  time.Time // of the wait
}

// before is the order of those whose turns are due: who waited longest first.
func (c candidate) before(o candidate) bool {
	return c.passed > o.passed || c.passed == o.passed && c.class.Rank() < o.class.Rank()
}

// wait says what of the pace a class waits for.
type wait uint8

const (
	goes  wait = iota
	saves      // another one saves the tokens that it would take
	lacks      // the bucket does not hold its tokens
	later      // its turn is not due, and a cheaper one goes before it
)

// settle forgets what a class waited for that waits no more, as candidates found it.
func (q *Queue) settle() {
	for class, c := range q.ix.ready {
		if c.settle(); !c.waits() {
			delete(q.ix.passed, class)
			delete(q.ix.saved, class)
		}
	}
}

// candidates appends the classes of which something may start but for the pace, in the order of precedence. It may be asked at any time.
func (q *Queue) candidates(heads []candidate, now time.Time, may func(*Entry) Hold) []candidate {
	butForThePace := func(e *Entry) Hold {
		if h := may(e); h != HoldPace {
			return h
		}
		return HoldNone
	}
	for _, class := range events.Classes() {
		c := q.ix.ready[class]
		if c == nil {
			continue
		}
		if e := c.head(butForThePace, &q.ix.aside); e != nil {
			heads = append(heads, candidate{class: class, head: e, passed: q.ix.passed[class]})
		}
	}
	q.price(heads, now)
	return heads
}

// choose gives the class whose turn it is; heads, at least one, are in the order of precedence.
//
// Each of them has a turn in any `turns` turns, whatever else waits: AgingTurns, or the number of classes that wait when that is
// more. They are dealt with as deadlines: as long as all of them can still be met after this turn the first class goes, else the one
// that was passed over most. With the classes sorted by how often they were passed, most first, passed[i]+i+1 <= turns holds before
// each turn (the i-th is served i turns from now, if none comes between), and both branches keep it. A class that something held
// (its slot, a suspension, the pace) may be past its deadline when it is let go: it goes at once then, the longest passed over first.
func choose(heads []candidate, turns int) candidate {
	turns = max(turns, len(heads))
	var room [classes]candidate
	byWait := append(room[:0], heads...)
	slices.SortStableFunc(byWait, func(a, b candidate) int { return cmp.Compare(b.passed, a.passed) })
	for i, c := range byWait {
		if c.passed+i+1 >= turns {
			return byWait[0]
		}
	}
	// Who just had a turn that came to nothing keeps what was put by, but lets others go between: of many such none holds a code for long.
	if i := slices.IndexFunc(byWait, func(c candidate) bool { return c.saved && c.passed > 0 }); i >= 0 {
		return byWait[i]
	}
	return heads[0]
}

// nearly bounds what sums of fractions lack to the last bit.
const nearly = 1e-9

// slots is a set of slots.
type slots [4]uint64

func (s *slots) add(slot uint8)      { s[slot/64] |= 1 << (slot % 64) }
func (s *slots) has(slot uint8) bool { return s[slot/64]&(1<<(slot%64)) != 0 }
