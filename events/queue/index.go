package queue

import (
	"container/heap"
	"time"

	"pilotstatus.dev/events"
)

// index finds in the entries what is due. It is derived: dropping it and reindexing every entry gives the same answers.
// Places in heaps are let go lazily: a place whose version is not the entry's is stale.
type index struct {
	waiting   places // by the time they become ready
	deadlines places // by deliverUntil, then by the presumed end
	ready     map[events.Class]*classQueue
	open      map[*Entry]struct{}
	unknown   map[*Entry]struct{}
	silent    map[*Entry]struct{} // not over, with an attempt that is unknown
	overdue   map[*Entry]struct{} // an end may be due
	ghosts    map[*Entry]struct{} // ended while an attempt was unknown
	doubtful  map[*Entry]struct{} // not over, and may have left in a lost part of the log
	leaving   map[*Entry]struct{} // not over, and accepted before the drain that is on
	settled   []*Entry
	aside     []*Entry                 // ready, but accepted after a drain began
	picked    claim                    // of the turn that was chosen last
	had       map[events.Class]uint64  // the newest turn of a class that did not give way
	passed    map[events.Class]int     // turns that others took while a class waited
	saved     map[events.Class]float64 // tokens that were put by for a class meanwhile
}

func newIndex() index {
	return index{
		ready: map[events.Class]*classQueue{}, open: map[*Entry]struct{}{}, unknown: map[*Entry]struct{}{}, silent: map[*Entry]struct{}{}, overdue: map[*Entry]struct{}{},
		ghosts: map[*Entry]struct{}{}, doubtful: map[*Entry]struct{}{}, leaving: map[*Entry]struct{}{},
		passed: map[events.Class]int{}, saved: map[events.Class]float64{}, had: map[events.Class]uint64{},
	}
}

func (ix *index) takeSettled() []*Entry {
	s := ix.settled
	ix.settled = nil
	return s
}

func (ix *index) takeAside() []*Entry {
	s := ix.aside
	ix.aside = nil
	return s
}

// reindex puts e where its facts say it belongs.
func (q *Queue) reindex(e *Entry) {
	e.ver++
	s := e.sum()
	set(q.ix.open, e, s.Open() > 0) // also when proved: its call may be under way
	set(q.ix.unknown, e, e.queued && ((s.Outstanding() > 0 && !s.Settled()) || e.Unbound()))
	set(q.ix.silent, e, e.queued && s.Outstanding() > 0 && !s.Settled())
	set(q.ix.ghosts, e, e.Ghost())
	set(q.ix.doubtful, e, q.inDoubt(e))
	set(q.ix.leaving, e, q.leaving(e))
	if !e.queued || s.Settled() {
		delete(q.ix.overdue, e)
		q.ix.settled = append(q.ix.settled, e)
		return
	}
	heap.Push(&q.ix.deadlines, place{at: e.DeliverUntil, seq: e.QueuedSeq, e: e, ver: e.ver})
	switch q.startable(e) {
	case HoldNone:
		heap.Push(&q.ix.waiting, place{at: e.ReadyAt(), seq: e.QueuedSeq, e: e, ver: e.ver})
	case HoldExhausted:
		q.ix.overdue[e] = struct{}{}
	default:
	}
}

func set(m map[*Entry]struct{}, e *Entry, in bool) {
	if in {
		m[e] = struct{}{}
	} else {
		delete(m, e)
	}
}

// advance moves what has become ready or overdue by now.
func (q *Queue) advance(now time.Time) {
	for {
		p, ok := q.ix.waiting.top()
		if !ok || p.at.After(now) {
			break
		}
		heap.Pop(&q.ix.waiting)
		if p.ver != p.e.ver {
			continue
		}
		c := q.ix.ready[p.e.Lane.Class]
		if c == nil {
			c = newClassQueue()
			q.ix.ready[p.e.Lane.Class] = c
		}
		c.push(p, q.rules.weight)
	}
	for {
		p, ok := q.ix.deadlines.top()
		if !ok || p.at.After(now) {
			break
		}
		heap.Pop(&q.ix.deadlines)
		if p.ver == p.e.ver {
			q.ix.overdue[p.e] = struct{}{}
		}
	}
}

// Wake gives the next time at which something may become due without a new event; zero when nothing waits for time.
func (q *Queue) Wake(now time.Time) time.Time {
	q.advance(now)
	var wake time.Time
	sooner := func(t time.Time) {
		if t.After(now) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	for {
		p, ok := q.ix.waiting.top()
		if ok && p.ver != p.e.ver {
			heap.Pop(&q.ix.waiting)
			continue
		}
		if ok {
			sooner(p.at)
		}
		break
	}
	for {
		p, ok := q.ix.deadlines.top()
		if ok && p.ver != p.e.ver {
			heap.Pop(&q.ix.deadlines)
			continue
		}
		if ok {
			sooner(p.at)
		}
		break
	}
	for e := range q.ix.overdue {
		if e.sum().Outstanding() > 0 {
			sooner(e.DeliverUntil.Add(q.rules.PresumedAfter))
		}
	}
	sooner(q.QuietUntil())
	sooner(q.paceWake(now))
	return wake
}

type place struct {
	at  time.Time
	seq uint64
	e   *Entry
	ver uint32
}

type places []place

func (h places) Len() int { return len(h) }
func (h places) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h places) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *places) Push(x any)   { *h = append(*h, x.(place)) } //nolint:forcetypeassert // heap.Interface: only places are pushed
func (h *places) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = place{}
	*h = old[:len(old)-1]
	return p
}

// prune lets the stale places go once they outnumber what n entries need, so that memory follows what is pending.
func (h *places) prune(n int) {
	if len(*h) <= 2*n+64 {
		return
	}
	kept := make(places, 0, n)
	for _, p := range *h {
		if p.ver == p.e.ver {
			kept = append(kept, p)
		}
	}
	heap.Init(&kept)
	*h = kept
}

func (h places) top() (place, bool) {
	if len(h) == 0 {
		return place{}, false
	}
	return h[0], true
}
