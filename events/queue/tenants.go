package queue

import (
	"container/heap"
	"container/list"
)

// classQueue holds what is ready in one class, and whose turn it is: deficit round robin over the tenants, each message costing one turn.
//
// In a round each tenant has as many turns as its weight says. They are interleaved: the tenants with turns left go one after the
// other, one turn each, so that a heavy one does not hold the line for all its turns in a row. When nobody with turns left may start
// anything the next round begins. So of two tenants that always have something to send, neither has had more than one round more
// than the other, by its weight; and between two turns of a tenant each other has at most twice its own weight of them. With equal
// weights they alternate.
type classQueue struct {
	tenants map[string]*tenantQueue
	active  *list.List                // tenants with turns left in this round; whose turn it is at the front
	spent   *list.List                // those that had theirs, in that order
	idle    map[*tenantQueue]struct{} // those with nothing ready, so that who comes back within a round has no more turns in it
	gone    []*tenantQueue            // those that the last look found to have nothing left
}

type tenantQueue struct {
	name  string
	lanes map[uint8]*places // by slot
	left  int               // turns left in this round
	place *list.Element     // in active or spent; nil while it is idle
}

func newClassQueue() *classQueue {
	return &classQueue{tenants: map[string]*tenantQueue{}, active: list.New(), spent: list.New(), idle: map[*tenantQueue]struct{}{}}
}

// waits reports whether anything is ready. It is exact after head and settle.
func (c *classQueue) waits() bool { return c.active.Len()+c.spent.Len() > 0 }

func (c *classQueue) push(p place, weight func(tenant string) int) {
	name := p.e.Lane.Tenant
	t := c.tenants[name]
	if t == nil {
		t = &tenantQueue{name: name, lanes: map[uint8]*places{}, left: weight(name)}
		c.tenants[name] = t
	}
	if t.place == nil {
		delete(c.idle, t)
		c.join(t)
	}
	l := t.lanes[p.e.Lane.Slot]
	if l == nil {
		l = &places{}
		t.lanes[p.e.Lane.Slot] = l
	}
	heap.Push(l, p)
}

// join puts a tenant behind the others.
func (c *classQueue) join(t *tenantQueue) {
	if t.left > 0 {
		t.place = c.active.PushBack(t)
	} else {
		t.place = c.spent.PushBack(t)
	}
}

func (c *classQueue) leave(t *tenantQueue) {
	c.active.Remove(t.place) // a list lets only go of its own
	c.spent.Remove(t.place)
	t.place = nil
}

// head gives the entry whose turn it is: of the first tenant that has one that may start, in the order of this round and then of the
// next. It may be asked at any time: it begins no round and moves nobody.
func (c *classQueue) head(may func(*Entry) Hold, aside *[]*Entry) *Entry {
	c.gone = c.gone[:0]
	for _, tenants := range [...]*list.List{c.active, c.spent} {
		for at := tenants.Front(); at != nil; at = at.Next() {
			t := inTurn(at)
			e, empty := t.head(may, aside)
			if e != nil {
				return e
			}
			if empty {
				c.gone = append(c.gone, t)
			}
		}
	}
	return nil
}

// settle lets those go that head found to have nothing left.
func (c *classQueue) settle() {
	for _, t := range c.gone {
		c.leave(t)
		c.idle[t] = struct{}{}
	}
	clear(c.gone)
	c.gone = c.gone[:0]
	if !c.waits() {
		clear(c.tenants)
		clear(c.idle)
	}
}

// round begins the next round. Who is held keeps its turns of this one, and its place.
func (c *classQueue) round(weight func(tenant string) int) {
	for t := range c.idle {
		delete(c.tenants, t.name)
	}
	clear(c.idle)
	for at := c.spent.Front(); at != nil; at = c.spent.Front() {
		t := inTurn(at)
		c.leave(t)
		t.left = weight(t.name)
		c.join(t)
	}
}

// took notes a turn of a tenant. When it had those of this round, nobody with turns left may start anything: the next one begins. A
// weight that became less counts at once, one that became more from the next round.
func (c *classQueue) took(tenant string, weight func(tenant string) int) {
	t := c.tenants[tenant]
	if t.left <= 0 {
		c.round(weight)
	}
	t.left = min(t.left, weight(tenant)) - 1
	c.leave(t)
	c.join(t)
}

// again gives a tenant back the turn that it had and did not use.
func (c *classQueue) again(tenant string) {
	t := c.tenants[tenant]
	if t == nil || t.place == nil {
		return
	}
	t.left++
	c.leave(t)
	t.place = c.active.PushFront(t)
}

func inTurn(at *list.Element) *tenantQueue {
	return at.Value.(*tenantQueue) //nolint:forcetypeassert // only tenants are put in
}

// weight is how many turns a tenant has in a round.
func (r Rules) weight(tenant string) int {
	if r.Weight == nil {
		return 1
	}
	return min(max(r.Weight(tenant), 1), maxWeight)
}

// maxWeight bounds what one tenant may have in a round: as a plan's own bound.
const maxWeight = 1000

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
