package queue

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// keptStarts is how many starts the bucket is computed from. What came before them is taken to have left it empty: that can hold back
// a burst that was saved up over more starts than these, and never lets one more through.
const keptStarts = 128

// taking is one start, as the bucket sees it.
type taking struct {
	seq  uint64
	at   int64 // Unix nanoseconds
	draw uint32
	rank uint8 // of its category, from 1; 0: its acceptance was not seen
	back bool  // it provably made no call: its tokens are given back
}

// pace is the token bucket, folded from the starts in the log: whoever folds the same log, live, from a snapshot or anew, says the same
// next time, and a successor does not begin with a full bucket. Rates and costs are not folded but applied to the starts that are kept,
// so that a change holds at once, also for the gap that is running.
type pace struct {
	taken []taking // by sequence
	more  bool     // older ones were let go

	// Computed, with the rules in force: the bucket after the last start.
	known bool
	empty bool // of starts: the bucket is full
	level float64
	at    int64
	gap   time.Duration // in which a token comes back
}

// rankOf numbers the categories; 0 is none.
func rankOf(e *Entry) uint8 {
	if !e.queued {
		return 0
	}
	switch e.Category() {
	case events.OTP:
		return 1
	case events.Utility:
		return 2
	default:
		return 3
	}
}

// categories by their rank. A start whose acceptance was not seen counts as the dearest by default.
var categories = [...]events.Category{events.Utility, events.OTP, events.Utility, events.Marketing}

// drawOf gives the chance of a start: known to all who read its nonce, and to nobody before.
func drawOf(nonce string) uint32 { return uint32(events.Hash(nonce)) }

// notePace takes in the starts of an entry, as its facts tell of them now.
func (q *Queue) notePace(e *Entry) {
	for _, f := range e.Record() {
		if f.Kind != message.KindStarted {
			continue
		}
		t := taking{seq: f.Seq, at: f.At.UnixNano(), draw: drawOf(f.Nonce), rank: rankOf(e)}
		for _, a := range e.sum().Attempts {
			if a.StartSeq == f.Seq {
				t.back = a.State == message.AttemptDeferred && !a.Called
			}
		}
		q.pace.note(t)
	}
}

func (p *pace) note(t taking) {
	i, found := slices.BinarySearchFunc(p.taken, t.seq, func(x taking, seq uint64) int { return cmp.Compare(x.seq, seq) })
	switch {
	case found && p.taken[i] == t:
		return
	case found:
		p.taken[i] = t
	case i == 0 && p.more: // it was let go, or would have been
		return
	case len(p.taken) < keptStarts:
		p.taken = slices.Insert(p.taken, i, t)
	default:
		p.more = true
		if i > 0 { // else it is itself the oldest
			copy(p.taken, p.taken[1:i])
			p.taken[i-1] = t
		}
	}
	p.known = false
}

// fill computes the bucket after the last start by a pacing.
func (p *pace) fill(rule events.Pacing) {
	p.known, p.empty, p.level = true, true, rule.Burst
	for i, t := range p.taken {
		if i == 0 && p.more {
			p.empty, p.level, p.at, p.gap = false, 0, t.at, rule.Gap(fraction(t.draw))
			continue
		}
		cost := rule.Cost(categories[t.rank])
		if t.back || cost <= 0 {
			continue
		}
		at := t.at
		if !p.empty {
			at = max(at, p.at) // clocks of two dispatchers differ
			p.level = min(rule.Burst, p.level+tokens(time.Duration(at-p.at), p.gap))
		}
		p.empty, p.at, p.gap = false, at, rule.Gap(fraction(t.draw))
		p.level = max(0, p.level-cost) // what left by other rules is no debt
	}
}

func fraction(draw uint32) float64 { return float64(draw) / (1 << 32) }

// tokens that come back in a time.
func tokens(d, gap time.Duration) float64 { return float64(d) / float64(max(gap, 1)) }

// PacedUntil is when the pace lets the next start of a category through; not after now when it does at once.
func (q *Queue) PacedUntil(c events.Category) time.Time {
	if !q.drawsTokens(c) {
		return time.Time{}
	}
	rule := q.rules.Pace
	cost, p := rule.Cost(c), &q.pace
	if !p.known {
		p.fill(rule)
	}
	lacks := cost - p.level
	if p.empty || lacks <= 1e-9 { // fractions do not add up to the last bit
		return time.Time{}
	}
	return time.Unix(0, p.at+int64(math.Ceil(lacks*float64(p.gap)))).UTC()
}

// drawsTokens reports whether starts of a category take anything from the bucket.
func (q *Queue) drawsTokens(c events.Category) bool {
	return !q.rules.Pace.Free() && q.rules.Pace.Cost(c) > 0
}

// paced reports whether the pace holds a message now.
func (q *Queue) paced(e *Entry, now time.Time) bool { return now.Before(q.PacedUntil(e.Category())) }

// paceWake gives the next time at which the pace lets a category through of which messages wait; zero when there is none.
func (q *Queue) paceWake(now time.Time) (wake time.Time) {
	if q.rules.Pace.Free() {
		return time.Time{}
	}
	for class, c := range q.ix.ready {
		if !c.live() {
			continue
		}
		if t := q.PacedUntil(class.Category()); t.After(now) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	return wake
}

// live reports whether anything is ready that is not stale.
func (c *classQueue) live() bool {
	for _, t := range c.tenants {
		for _, l := range t.lanes {
			for p, ok := l.top(); ok; p, ok = l.top() {
				if p.ver == p.e.ver {
					return true
				}
				heap.Pop(l)
			}
		}
	}
	return false
}

func (w *writer) pace(p *pace) {
	w.bools(p.more, false)
	w.uint(uint64(len(p.taken)))
	var seq uint64
	var at int64
	for _, t := range p.taken {
		w.uint(t.seq - seq)
		d := t.at - at
		w.uint(uint64(d<<1) ^ uint64(d>>63)) // the sign last
		w.uint(uint64(t.draw))
		w.uint(uint64(t.rank))
		w.bools(t.back, false)
		seq, at = t.seq, t.at
	}
}

// minTaking is the least bytes of a start.
const minTaking = 5

func (r *reader) pace() (p pace) {
	p.more, _ = r.bools()
	n := r.count(minTaking)
	if n > keptStarts || (p.more && n < keptStarts) {
		r.bad = true
		return pace{}
	}
	var seq uint64
	var at int64
	for i := range n {
		step := r.uint()
		seq += step
		z := r.uint()
		at += int64(z>>1) ^ -int64(z&1)
		t := taking{seq: seq, at: at, draw: uint32(r.uint()), rank: uint8(min(r.uint(), 255))}
		t.back, _ = r.bools()
		if (i > 0 && step == 0) || int(t.rank) >= len(categories) {
			r.bad = true
			return pace{}
		}
		p.taken = append(p.taken, t)
	}
	return p
}
