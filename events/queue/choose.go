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
		if taken.has(e.Lane.Slot) { // before all else: of many tenants most may be held by this
			return HoldSlot
		}
		return q.mayStart(e, now)
	}
	heads := make([]candidate, 0, 6)
	for _, class := range events.Classes() {
		c := q.ix.ready[class]
		if c == nil {
			continue
		}
		if q.drawsTokens(class.Category()) && q.startless("") > 0 {
			continue // what the turn that is about to start takes is not known yet
		}
		if now.Before(q.PacedUntil(class.Category())) {
			if c.waits() {
				heads = append(heads, candidate{class: class, passed: q.ix.passed[class], paced: true})
			}
			continue
		}
		e := c.head(may, &q.ix.aside, q.rules.weight)
		if !c.waits() {
			delete(q.ix.passed, class)
		} else if e != nil {
			heads = append(heads, candidate{class: class, head: e, passed: q.ix.passed[class]})
		}
	}
	first := slices.IndexFunc(heads, func(c candidate) bool { return !c.paced })
	if first < 0 {
		return Start{}, false
	}
	highest := heads[first].class
	pick, ok := q.pick(heads, may)
	if !ok {
		return Start{}, false
	}
	q.ix.picked = claim{pick.head.ID, pick.class, pick.head.Lane.Tenant, pick.passed, q.ix.picked.turn + 1}
	for class, c := range q.ix.ready {
		if c.waits() { // if only for its slot: it keeps its claim
			q.ix.passed[class]++
		}
	}
	q.ix.passed[pick.class] = 0
	q.ix.ready[pick.class].took(pick.head.Lane.Tenant, q.rules.weight)
	return Start{Entry: pick.head, Attempt: pick.head.NextAttempt(), Fresh: len(pick.head.sum().Attempts) == 0, Claimed: pick.class != highest}, true
}

// candidate is a class of which something may start.
type candidate struct {
	class  events.Class
	head   *Entry
	passed int  // turns that others took since its own, or since it waits
	paced  bool // it waits for the pace, and its head is not known
}

// pick gives the class whose turn it is and that may start now. One whose turn it is and that waits for the pace is waited for: no
// cheaper one takes the tokens that it saves for.
func (q *Queue) pick(heads []candidate, may func(*Entry) Hold) (candidate, bool) {
	butForThePace := func(e *Entry) Hold {
		if h := may(e); h != HoldPace {
			return h
		}
		return HoldNone
	}
	for slices.ContainsFunc(heads, func(c candidate) bool { return !c.paced }) {
		pick := choose(heads, q.rules.AgingTurns)
		if !pick.paced {
			return pick, true
		}
		if q.ix.ready[pick.class].head(butForThePace, &q.ix.aside, q.rules.weight) != nil {
			return candidate{}, false
		}
		heads = slices.DeleteFunc(heads, func(c candidate) bool { return c.class == pick.class }) // what waited there is over, or held
	}
	return candidate{}, false
}

// choose gives the class whose turn it is; heads are in the order of precedence, at least one that is not paced.
//
// Each of them has a turn in any `turns` turns, whatever else waits: AgingTurns, or the number of classes that wait when that is
// more. They are dealt with as deadlines: as long as all of them can still be met after this turn the first class goes, else the one
// that was passed over most. With the classes sorted by how often they were passed, most first, passed[i]+i+1 <= turns holds before
// each turn (the i-th is served i turns from now, if none comes between), and both branches keep it. A class that something held
// (its slot, a suspension) may be past its deadline when it is let go: it goes at once then, the longest passed over first.
func choose(heads []candidate, turns int) candidate {
	turns = max(turns, len(heads))
	byWait := slices.Clone(heads)
	slices.SortStableFunc(byWait, func(a, b candidate) int { return cmp.Compare(b.passed, a.passed) })
	for i, c := range byWait {
		if c.passed+i+1 >= turns {
			return byWait[0]
		}
	}
	return heads[slices.IndexFunc(heads, func(c candidate) bool { return !c.paced })]
}

// slots is a set of slots.
type slots [4]uint64

func (s *slots) add(slot uint8)      { s[slot/64] |= 1 << (slot % 64) }
func (s *slots) has(slot uint8) bool { return s[slot/64]&(1<<(slot%64)) != 0 }
