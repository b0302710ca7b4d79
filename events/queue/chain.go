package queue

import (
	"cmp"
	"maps"
	"slices"
)

// link is one event of the fenced group: rule R3 wants each to name the one before it.
type link struct {
	seq, prev uint64
	unread    bool // this process cannot read it
}

// fault is what is wrong with one event of the fenced group.
type fault struct{ wrong, unread bool }

// chain is the fenced group as an order of events, whatever they say. One that cannot be read, or does not name the one before it,
// holds the instance; what an operator skipped is whole again. A skip of what can be read means nothing.
type chain struct {
	links   []link              // above the floor, by sequence
	skipped map[uint64]struct{} // above the floor
	group   uint64              // last event at or below the floor
	faults  map[uint64]fault    // at or below the floor, not skipped
	breaks  int                 // links and faults that do not name the one before
	unread  int                 // links and faults that cannot be read
}

func newChain() chain { return chain{skipped: map[uint64]struct{}{}, faults: map[uint64]fault{}} }

func (c *chain) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(c.links, seq, func(l link, seq uint64) int { return cmp.Compare(l.seq, seq) })
}

// before gives the event that the i-th link has to name.
func (c *chain) before(i int) uint64 {
	if i > 0 {
		return c.links[i-1].seq
	}
	return c.group
}

// judge says what is wrong with l behind another event.
func (c *chain) judge(l link, before uint64) fault {
	if _, ok := c.skipped[l.seq]; ok && l.unread {
		return fault{}
	}
	return fault{wrong: l.prev != before, unread: l.unread}
}

// count adds a fault n times, which may be negative.
func (c *chain) count(f fault, n int) {
	if f.wrong {
		c.breaks += n
	}
	if f.unread {
		c.unread += n
	}
}

// add takes in an event above the floor.
func (c *chain) add(l link) {
	i, found := c.find(l.seq)
	if found {
		return
	}
	before := c.before(i)
	c.count(c.judge(l, before), 1)
	if i < len(c.links) {
		c.count(c.judge(c.links[i], before), -1)
		c.count(c.judge(c.links[i], l.seq), 1)
	}
	c.links = slices.Insert(c.links, i, l)
}

// skip passes over an event, if it cannot be read; one above the floor may come later.
func (c *chain) skip(seq, floor uint64) {
	if seq <= floor {
		if f := c.faults[seq]; f.unread {
			c.count(f, -1)
			delete(c.faults, seq)
		}
		return
	}
	if _, again := c.skipped[seq]; again {
		return
	}
	i, found := c.find(seq)
	if found {
		c.count(c.judge(c.links[i], c.before(i)), -1)
	}
	c.skipped[seq] = struct{}{}
	if found {
		c.count(c.judge(c.links[i], c.before(i)), 1)
	}
}

// compact makes everything up to seq final.
func (c *chain) compact(seq uint64) {
	n := 0
	for _, l := range c.links {
		if l.seq > seq {
			break
		}
		if f := c.judge(l, c.group); f != (fault{}) {
			c.faults[l.seq] = f
		}
		c.group = l.seq
		n++
	}
	c.links = append([]link(nil), c.links[n:]...)
	if len(c.skipped) > 0 {
		maps.DeleteFunc(c.skipped, func(s uint64, _ struct{}) bool { return s <= seq })
	}
}

func (c *chain) last() uint64 { return c.before(len(c.links)) }

// unreadable lists what cannot be read and was not skipped.
func (c *chain) unreadable() (out []uint64) {
	for seq, f := range c.faults {
		if f.unread {
			out = append(out, seq)
		}
	}
	for i, l := range c.links {
		if c.judge(l, c.before(i)).unread {
			out = append(out, l.seq)
		}
	}
	slices.Sort(out)
	return out
}

func (c *chain) blank() bool {
	return len(c.links)+len(c.skipped)+len(c.faults) == 0 && c.group == 0
}

func (w *writer) chain(c *chain) {
	w.uint(c.group)
	w.uint(uint64(len(c.faults)))
	for _, seq := range slices.Sorted(maps.Keys(c.faults)) {
		w.uint(seq)
		w.bools(c.faults[seq].wrong, c.faults[seq].unread)
	}
	w.uint(uint64(len(c.skipped)))
	for _, seq := range slices.Sorted(maps.Keys(c.skipped)) {
		w.uint(seq)
	}
	w.uint(uint64(len(c.links)))
	for _, l := range c.links {
		w.uint(l.seq)
		w.uint(l.prev)
		w.bools(l.unread, false)
	}
}

func (r *reader) chain() chain {
	c := newChain()
	c.group = r.uint()
	for range r.count(2) {
		seq := r.uint()
		var f fault
		f.wrong, f.unread = r.bools()
		if _, twice := c.faults[seq]; twice || f == (fault{}) {
			r.bad = true
			return c
		}
		c.faults[seq] = f
		c.count(f, 1)
	}
	for range r.count(1) {
		c.skipped[r.uint()] = struct{}{}
	}
	for range r.count(3) {
		l := link{seq: r.uint(), prev: r.uint()}
		l.unread, _ = r.bools()
		c.add(l)
	}
	return c
}
