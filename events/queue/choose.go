package queue

import (
	"container/heap"
	"time"

	"pilotstatus.dev/events"
)

// Start is the turn to take next.
type Start struct {
	Entry   *Entry
	Attempt int
	Fresh   bool // first attempt: a lane may already hold its body
}

// Next chooses who is next: the class that goes first, with a guaranteed turn for a waiting lower class; inside a class the
// tenants take turns; inside a tenant the order is (readyAt, sequence). ok is false when nothing may start now.
func (q *Queue) Next(now time.Time) (s Start, ok bool) {
	q.advance(now)
	if q.held(now) != HoldNone {
		return Start{}, false
	}
	var heads []*Entry
	waits := false // a lower class, if only for its slot
	for _, class := range events.Classes() {
		c := q.ix.ready[class]
		if c == nil {
			continue
		}
		e := c.head(func(e *Entry) Hold { return q.mayStart(e, now) }, &q.ix.aside)
		waits = waits || (len(heads) > 0 && len(c.order) > 0)
		if e != nil {
			heads = append(heads, e)
		}
	}
	if len(heads) == 0 {
		return Start{}, false
	}
	pick := heads[0]
	if q.ix.aging++; !waits {
		q.ix.aging = 0
	} else if lower := heads[1:]; len(lower) > 0 && q.ix.aging >= max(2, q.rules.AgingTurns) {
		q.ix.aging = 0
		for i, e := range lower { // the one that has waited longest
			if i == 0 || e.ReadyAt().Before(pick.ReadyAt()) {
				pick = e
			}
		}
	}
	q.ix.ready[pick.Lane.Class].turn(pick.Lane.Tenant)
	return Start{Entry: pick, Attempt: pick.NextAttempt(), Fresh: len(pick.sum.Attempts) == 0}, true
}

// classQueue holds what is ready in one class: the tenants in the order of their turns.
type classQueue struct {
	tenants map[string]*tenantQueue
	order   []string
}

type tenantQueue struct {
	lanes map[uint8]*places // by slot
}

func (c *classQueue) push(p place) {
	t := c.tenants[p.e.Lane.Tenant]
	if t == nil {
		t = &tenantQueue{lanes: map[uint8]*places{}}
		c.tenants[p.e.Lane.Tenant] = t
		c.order = append(c.order, p.e.Lane.Tenant)
	}
	l := t.lanes[p.e.Lane.Slot]
	if l == nil {
		l = &places{}
		t.lanes[p.e.Lane.Slot] = l
	}
	heap.Push(l, p)
}

// head gives the entry whose turn it is: of the first tenant in turn that has one that may start.
func (c *classQueue) head(may func(*Entry) Hold, aside *[]*Entry) *Entry {
	for i := 0; i < len(c.order); {
		name := c.order[i]
		e, empty := c.tenants[name].head(may, aside)
		if e != nil {
			return e
		}
		if empty {
			delete(c.tenants, name)
			c.order = append(c.order[:i], c.order[i+1:]...)
			continue
		}
		i++
	}
	return nil
}

func (t *tenantQueue) head(may func(*Entry) Hold, aside *[]*Entry) (best *Entry, empty bool) {
	for slot, l := range t.lanes {
		e := laneHead(l, may, aside)
		if l.Len() == 0 {
			delete(t.lanes, slot)
			continue
		}
		if e == nil {
			continue
		}
		if best == nil || e.ReadyAt().Before(best.ReadyAt()) || (e.ReadyAt().Equal(best.ReadyAt()) && e.QueuedSeq < best.QueuedSeq) {
			best = e
		}
	}
	return best, len(t.lanes) == 0
}

// laneHead gives the first of a lane when it may start. What holds it holds the lane: order is kept. Only what can never start
// again, or is past its deadline, is let go; what a drain holds is put aside, so that what was accepted before it goes out.
func laneHead(l *places, may func(*Entry) Hold, aside *[]*Entry) *Entry {
	for {
		p, ok := l.top()
		if !ok {
			return nil
		}
		if p.ver != p.e.ver {
			heap.Pop(l)
			continue
		}
		switch may(p.e) {
		case HoldNone:
			return p.e
		case HoldDeadline:
			heap.Pop(l)
		case HoldPaused:
			heap.Pop(l)
			*aside = append(*aside, p.e)
		default:
			return nil
		}
	}
}

// turn moves a tenant behind the others of its class.
func (c *classQueue) turn(tenant string) {
	for i, n := range c.order {
		if n == tenant {
			c.order = append(append(c.order[:i:i], c.order[i+1:]...), n)
			return
		}
	}
}
