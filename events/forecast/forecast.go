// Package forecast estimates when a message leaves, by what waits at its instance and by its pace. It promises nothing: what is
// accepted later and goes first, what fails and is tried again, and how long the gateway takes are not known.
package forecast

import (
	"maps"
	"math"
	"slices"
	"time"

	"pilotstatus.dev/events"
)

// Load is what waits at one instance at a moment, as its dispatcher sees it. The zero Load is an instance at rest.
type Load struct {
	Waiting map[events.Class]int `json:"waiting,omitempty"` // due and not begun, by class
	FreeAt  time.Time            `json:"freeAt,omitzero"`   // no turn begins before; zero: at once
	// Paced is when the pace lets the next start of a category through, where that is later.
	Paced  map[events.Category]time.Time `json:"paced,omitempty"`
	Turn   time.Duration                 `json:"turn,omitempty"`   // how long a turn took of late; 0: none was seen
	Held   bool                          `json:"held,omitempty"`   // paused, draining, parked, closed or stopped: nobody knows until when
	Drains bool                          `json:"drains,omitempty"` // what was accepted before a word goes out, what comes after waits
	Left   int                           `json:"left,omitempty"`   // of a drain: accepted before it and not over
}

// Rest reports whether the load says no more than the zero Load does, as of now.
func (l Load) Rest(now time.Time) bool {
	for n := range maps.Values(l.Waiting) {
		if n > 0 {
			return false
		}
	}
	for at := range maps.Values(l.Paced) {
		if at.After(now) {
			return false
		}
	}
	return !l.Held && !l.Drains && !l.FreeAt.After(now)
}

// Instance is what an estimate must know of the instance itself.
type Instance struct {
	Pace        events.Pacing
	Concurrency int // calls at once; below 1 is 1
	AgingTurns  int // a waiting lower class has one turn in so many; below 2 is 2
}

// Estimate gives when a message of a class that is due now is expected to begin to leave; false when that cannot be said: the
// instance is held, or there is a backlog and it is not known how fast it shrinks. It never lies before now, and never comes sooner for
// more that waits.
func Estimate(l Load, i Instance, class events.Class, now time.Time) (time.Time, bool) {
	if l.Held {
		return time.Time{}, false
	}
	at := now
	for _, t := range []time.Time{l.FreeAt, l.Paced[class.Category()]} {
		if t.After(at) {
			at = t
		}
	}
	before, known := newAhead(l, i, class).time()
	if !known {
		return time.Time{}, false
	}
	return at.Add(time.Duration(min(before, float64(longest)))), true // what lies further ahead than any window is all the same
}

// longest bounds an estimate; no window is as long.
const longest = 2 * events.MaxHorizon

// ahead is what waits before a new message of a class.
type ahead struct {
	waiting map[events.Class]int
	class   events.Class
	aging   int
	turn    float64                  // of a call, in nanoseconds
	price   map[events.Class]float64 // what the pace takes of a turn, in nanoseconds
}

func newAhead(l Load, i Instance, class events.Class) ahead {
	a := ahead{waiting: map[events.Class]int{}, class: class, aging: max(i.AgingTurns, 2), price: map[events.Class]float64{}}
	a.turn = float64(l.Turn / time.Duration(max(i.Concurrency, 1)))
	const most = 1 << 30 // keeps sums and products in range
	for _, c := range events.Classes() {
		a.waiting[c] = min(max(l.Waiting[c], 0), most)
		if i.Pace.Cost(class.Category()) > 0 { // what costs nothing is not held by what waits for the pace
			a.price[c] = i.Pace.Cost(c.Category()) * float64(i.Pace.Mean())
		}
	}
	return a
}

// turns gives the time of so many turns of a class.
func (a ahead) turns(n float64, c events.Class) float64 { return n * max(a.turn, a.price[c]) }

// dear reports whether a cheaper class that waits goes before one.
func (a ahead) dear(c events.Class) bool {
	return slices.ContainsFunc(events.Classes(), func(o events.Class) bool {
		return o.Rank() < c.Rank() && a.waiting[o] > 0 && 0 < a.price[o] && a.price[o] < a.price[c]
	})
}

// time gives the time of the turns that come before; false when one of them takes none that is known. Classes of higher precedence go
// first, its own in order, and lower ones have their share of these turns; but no class waits for more than its own share.
func (a ahead) time() (sum float64, known bool) {
	var top, others, dears int
	var slowest float64
	known = true
	for _, c := range events.Classes() {
		n := a.waiting[c]
		if (n > 0 || c == a.class) && a.dear(c) {
			dears++
		}
		if n == 0 {
			continue
		}
		one := a.turns(1, c)
		slowest = max(slowest, one)
		if c != a.class {
			others++
		}
		if c.Rank() < a.class.Rank() {
			top += n
		}
		if c.Rank() <= a.class.Rank() {
			sum += a.turns(float64(n), c)
			known = known && one > 0
		}
	}
	lower, sure := a.lower(sum)
	sum += lower
	if top > 0 {
		turns := float64(a.waiting[a.class]+1) * float64(max(a.aging, others+1))
		if a.dear(a.class) { // such classes share one turn in so many
			turns *= float64(dears)
		}
		sum = min(sum, (turns-1)*slowest)
	}
	return sum, known && sure
}

// lower gives the time that lower classes take of the turns ahead. Each has one in so many of them, whatever waits above it, where a turn
// that costs less than its own counts in part. Those that cost more than the new message have one part in so many of the time, together.
func (a ahead) lower(sum float64) (time float64, known bool) {
	below := 0
	for _, c := range events.Classes() {
		if c.Rank() > a.class.Rank() && a.waiting[c] > 0 {
			below++
		}
	}
	known = true
	var dear float64
	for _, c := range events.Classes() {
		switch {
		case c.Rank() <= a.class.Rank() || a.waiting[c] == 0:
		case a.price[c] > a.price[a.class]:
			dear += a.turns(float64(a.waiting[c]), c)
		default:
			n := min(float64(a.waiting[c]), math.Floor(a.counted(c)/float64(max(a.aging-below, 1))))
			time += a.turns(n, c)
			known = known && (n == 0 || a.turns(1, c) > 0)
		}
	}
	return time + min(dear, sum/float64(a.aging-1)), known
}

// counted gives the turns ahead, as a lower class counts them.
func (a ahead) counted(lower events.Class) (n float64) {
	for _, c := range events.Classes() {
		if c.Rank() > a.class.Rank() {
			continue
		}
		part := 1.0
		if p := a.price[lower]; p > 0 {
			part = min(1, a.price[c]/p)
		}
		n += float64(a.waiting[c]) * part
	}
	return n
}
