// Package forecast estimates when a message leaves, by what waits at its instance and by its pace. It promises nothing: what is
// accepted later and goes first, what fails and is tried again, and how long the gateway takes are not known.
package forecast

import (
	"maps"
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
	turn := l.Turn / time.Duration(max(i.Concurrency, 1))
	before, known := timeBefore(l.Waiting, class, max(i.AgingTurns, 2), func(c events.Class) float64 {
		return max(float64(turn), i.Pace.Cost(c.Category())*float64(i.Pace.Mean()))
	})
	if !known {
		return time.Time{}, false
	}
	return at.Add(time.Duration(min(before, float64(longest)))), true // what lies further ahead than any window is all the same
}

// longest bounds an estimate; no window is as long.
const longest = 2 * events.MaxHorizon

// timeBefore gives the time of the turns that come before that of a new message of a class; false when one of them takes none that is
// known. Classes before it go first, its own in order; each class that waits has one turn in so many, whatever waits above it.
func timeBefore(waiting map[events.Class]int, class events.Class, aging int, turn func(events.Class) float64) (sum float64, known bool) {
	const most = 1 << 30 // keeps sums and products in range
	var top, ahead, own, classes, below int
	var slowest float64
	known = true
	take := func(n int, c events.Class) {
		one := turn(c)
		sum += float64(n) * one
		known = known && (n == 0 || one > 0)
	}
	for _, c := range events.Classes() {
		n := min(max(waiting[c], 0), most)
		if n == 0 {
			continue
		}
		slowest = max(slowest, turn(c))
		if c == class {
			own = n
		} else {
			classes++
		}
		if c.Rank() < class.Rank() {
			top = min(top+n, most)
		} else if c != class {
			below++
		}
		if c.Rank() <= class.Rank() {
			take(n, c)
		}
	}
	ahead = min(top+own, most)
	for _, c := range events.Classes() {
		if c.Rank() > class.Rank() { // with the share that lower classes take of these turns
			take(min(max(waiting[c], 0), ahead/max(aging-below, 1)), c)
		}
	}
	if top > 0 {
		sum = min(sum, float64((own+1)*max(aging, classes+1)-1)*slowest)
	}
	return sum, known
}
