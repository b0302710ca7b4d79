package queue

import (
	"cmp"
	"math"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// keptStarts is how many starts of a category the bucket is computed from. What came before them is taken to have left it empty: that can
// hold back a burst that was saved up over more starts than these, and never lets one more through. Each category has its own, so that
// many that are cheap do not take the room of the few that are dear.
const keptStarts = 128

// taking is one start, as the bucket sees it.
type taking struct {
	seq  uint64
	at   int64 // Unix nanoseconds
	draw uint32
	back bool // it provably made no call: its tokens are given back
}

// pace is the token bucket, folded from the starts in the log: whoever folds the same log, live, from a snapshot or anew, says the same
// next time, and a successor does not begin with a full bucket. Rates and costs are not folded but applied to the starts that are kept,
// so that a change holds at once, also for the gap that is running. So those that cost nothing are kept as well: they may cost later.
type pace struct {
	taken [len(categories)]starts // by the rank of their category; 0: its acceptance was not seen

	// Computed, with the rules in force: the bucket after the last start.
	known bool
	empty bool // of starts: the bucket is full
	level float64
	at    int64
	gap   time.Duration // in which a token comes back
}

// starts are the newest of a category.
type starts struct {
	kept []taking // by sequence
	gone uint64   // the newest that was let go
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
		t := taking{seq: f.Seq, at: f.At.UnixNano(), draw: drawOf(f.Nonce)}
		for _, a := range e.sum().Attempts {
			if a.StartSeq == f.Seq {
				t.back = a.State == message.AttemptDeferred && !a.Called
			}
		}
		q.pace.note(rankOf(e), t)
		q.spends(e, t.seq, t.back)
	}
}

func (p *pace) note(rank uint8, t taking) {
	if rank > 0 {
		p.taken[0].forget(t.seq) // its acceptance came after it
	}
	if p.taken[rank].note(t) {
		p.known = false
	}
}

func (s *starts) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(s.kept, seq, func(x taking, seq uint64) int { return cmp.Compare(x.seq, seq) })
}

// note takes a start in, and reports whether anything changed.
func (s *starts) note(t taking) bool {
	i, found := s.find(t.seq)
	switch {
	case found && s.kept[i] == t, !found && t.seq <= s.gone:
		return false
	case found:
		s.kept[i] = t
		return true
	}
	s.kept = slices.Insert(s.kept, i, t)
	if len(s.kept) > keptStarts {
		s.gone = s.kept[0].seq
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	return true
}

func (s *starts) forget(seq uint64) {
	if i, found := s.find(seq); found {
		s.kept = slices.Delete(s.kept, i, i+1)
	}
}

// more reports that older ones were let go. Of starts whose acceptance is not seen some may turn out to be others: then it does not count.
func (s *starts) more() bool { return s.gone > 0 && len(s.kept) == keptStarts }

// len counts the starts that are kept.
func (p *pace) len() (n int) {
	for rank := range p.taken {
		n += len(p.taken[rank].kept)
	}
	return n
}

// fill computes the bucket after the last start by a pacing, from the starts that cost something by it.
func (p *pace) fill(rule events.Pacing) {
	p.known, p.empty, p.level = true, true, rule.Burst
	type paid struct {
		starts []taking
		cost   float64
	}
	var room [len(categories)]paid
	rest := room[:0]
	var from uint64 // older ones are not all known
	for rank := range p.taken {
		if s, cost := &p.taken[rank], rule.Cost(categories[rank]); cost > 0 {
			rest = append(rest, paid{s.kept, cost})
			if s.more() {
				from = max(from, s.kept[0].seq)
			}
		}
	}
	for {
		var next *paid
		for i := range rest {
			if r := &rest[i]; len(r.starts) > 0 && (next == nil || r.starts[0].seq < next.starts[0].seq) {
				next = r
			}
		}
		if next == nil {
			return
		}
		t := next.starts[0]
		next.starts = next.starts[1:]
		switch {
		case t.seq < from:
		case t.seq == from:
			p.empty, p.level, p.at, p.gap = false, 0, t.at, rule.Gap(fraction(t.draw))
		case !t.back:
			p.take(t, rule, next.cost)
		}
	}
}

func (p *pace) take(t taking, rule events.Pacing, cost float64) {
	at := t.at
	if !p.empty {
		at = max(at, p.at) // clocks of two dispatchers differ
		p.level = min(rule.Burst, p.level+tokens(time.Duration(at-p.at), p.gap))
	}
	p.empty, p.at, p.gap = false, at, rule.Gap(fraction(t.draw))
	p.level = max(0, p.level-cost) // what left by other rules is no debt
}

func fraction(draw uint32) float64 { return float64(draw) / (1 << 32) }

// tokens that come back in a time.
func tokens(d, gap time.Duration) float64 { return float64(d) / float64(max(gap, 1)) }

// PacedUntil is when the pace lets the next start of a category through; not after now when it does at once.
func (q *Queue) PacedUntil(c events.Category) time.Time {
	if !q.drawsTokens(c) {
		return time.Time{}
	}
	return q.holds(q.rules.Pace.Cost(c))
}

// holds is when the bucket holds so many tokens.
func (q *Queue) holds(n float64) time.Time {
	p := &q.pace
	if !p.known {
		p.fill(q.rules.Pace)
	}
	lacks := n - p.level
	if p.empty || lacks <= nearly {
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

func (w *writer) pace(p *pace) {
	for rank := range p.taken {
		s := &p.taken[rank]
		w.bools(s.more(), false)
		w.uint(uint64(len(s.kept)))
		var seq uint64
		var at int64
		for _, t := range s.kept {
			w.uint(t.seq - seq)
			d := t.at - at
			w.uint(uint64(d<<1) ^ uint64(d>>63)) // the sign last
			w.uint(uint64(t.draw))
			w.bools(t.back, false)
			seq, at = t.seq, t.at
		}
	}
}

// minTaking is the least bytes of a start.
const minTaking = 4

func (r *reader) pace() (p pace) {
	for rank := range p.taken {
		p.taken[rank] = r.starts()
	}
	return p
}

func (r *reader) starts() (s starts) {
	more, _ := r.bools()
	n := r.count(minTaking)
	if n > keptStarts || (more && n < keptStarts) {
		r.bad = true
		return starts{}
	}
	var seq uint64
	var at int64
	for range n {
		step := r.uint()
		seq += step
		z := r.uint()
		at += int64(z>>1) ^ -int64(z&1)
		t := taking{seq: seq, at: at, draw: uint32(r.uint())}
		t.back, _ = r.bools()
		if step == 0 {
			r.bad = true
			return starts{}
		}
		s.kept = append(s.kept, t)
	}
	if more {
		s.gone = max(1, s.kept[0].seq-1)
	}
	return s
}
