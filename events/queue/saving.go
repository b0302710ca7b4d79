package queue

import (
	"slices"
	"time"
)

// classes is how many there are.
const classes = 6

// price says of each candidate what it waits for, of the pace.
//
// Where a cheaper class goes before a dear one, the turns of the dear one are counted in tokens: with each turn of others so much is put by
// that it has its cost when its turn is due, and others take what lies above that. So a code goes beside a backlog of dear messages
// at nine tenths of the pace, and neither finds the bucket empty when its turn comes. What a class of higher precedence waits for is not
// taken from it at all.
func (q *Queue) price(heads []candidate, now time.Time) {
	if q.rules.Pace.Free() {
		return
	}
	for i := range heads {
		c := &heads[i]
		if c.cost = max(0, q.rules.Pace.Cost(c.class.Category())); c.cost == 0 {
			continue
		}
		by := q.ix.saved[c.class]
		c.saved = by > 0 && by >= c.cost-nearly
		c.dear = slices.ContainsFunc(heads[:i], func(o candidate) bool { return 0 < o.cost && o.cost < c.cost })
		if c.until = q.holds(c.cost); now.Before(c.until) {
			c.wait = lacks
		} else if c.dear && !c.saved {
			c.wait = later
		}
	}
	turns := max(q.rules.AgingTurns, len(heads))
	for i := range heads {
		c := &heads[i]
		if c.cost == 0 || c.wait != goes {
			continue
		}
		by, due := 0.0, c.saved || c.passed > turns-2
		for j, o := range heads {
			switch {
			case j == i, due && c.before(o): // its own turn is due, and before that one's
			case j < i && o.wait == lacks && o.cost > c.cost:
				by = o.cost
			default:
				by = max(by, min(o.cost, q.ix.saved[o.class]))
			}
		}
		if until := q.holds(min(q.rules.Pace.Burst, c.cost+by)); by > 0 && now.Before(until) {
			c.wait, c.until = saves, until
		}
	}
}

// put puts tokens by with a turn: one in AgingTurns of what it takes beyond what was put by for itself, for all dear classes together. They
// save one after the other, who waited longest first: so those that go before them have the rest of the pace, however many wait.
func (q *Queue) put(pick candidate, heads []candidate, turn *claim) {
	beyond := pick.cost - q.ix.saved[pick.class]
	var saver candidate
	for _, o := range heads {
		if o.dear && o.class != pick.class && (!saver.dear || o.before(saver)) {
			saver = o
		}
	}
	if !saver.dear || beyond <= 0 {
		return
	}
	turns := max(q.rules.AgingTurns, len(heads))
	was := q.ix.saved[saver.class]
	q.ix.saved[saver.class] = min(saver.cost, was+beyond/float64(turns-1))
	turn.to, turn.put = saver.class, q.ix.saved[saver.class]-was
}

// paceWake gives the next time at which the pace lets something go that waits for nothing else; zero when there is none.
func (q *Queue) paceWake(now time.Time) (wake time.Time) {
	if q.rules.Pace.Free() {
		return time.Time{}
	}
	var room [classes]candidate
	for _, c := range q.candidates(room[:0], now, func(e *Entry) Hold { return q.mayStart(e, now) }) {
		if (c.wait == saves || c.wait == lacks) && (wake.IsZero() || c.until.Before(wake)) {
			wake = c.until
		}
	}
	return wake
}
