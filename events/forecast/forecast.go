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
	Turn    time.Duration        `json:"turn,omitempty"`    // how long a turn took of late; 0: none was seen
	Held    bool                 `json:"held,omitempty"`    // paused, draining, parked, closed or stopped: nobody knows until when
	Drains  bool                 `json:"drains,omitempty"`  // what was accepted before a word goes out, what comes after waits
	Left    int                  `json:"left,omitempty"`    // of a drain: accepted before it and not over
}

// Rest reports whether the load says no more than the zero Load does, as of now.
func (l Load) Rest(now time.Time) bool {
	for n := range maps.Values(l.Waiting) {
		if n > 0 {
			return false
		}
	}
	return !l.Held && !l.Drains && !l.FreeAt.After(now)
}

// Instance is what an estimate must know of the instance itself.
type Instance struct {
	Pace        events.Pace
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
	if l.FreeAt.After(at) {
		at = l.FreeAt
	}
	ahead := turnsBefore(l.Waiting, class, max(i.AgingTurns, 2))
	if ahead == 0 {
		return at, true
	}
	turn := l.Turn / time.Duration(max(i.Concurrency, 1))
	if r := i.Pace.RatePerMinute; r > 0 {
		turn = max(turn, time.Duration(float64(time.Minute)/r))
	}
	if turn <= 0 {
		return time.Time{}, false
	}
	if most := int64(longest / turn); int64(ahead) > most { // what lies further ahead than any window is all the same
		return at.Add(longest), true
	}
	return at.Add(time.Duration(ahead) * turn), true
}

// longest bounds an estimate; no window is as long.
const longest = 2 * events.MaxHorizon

// turnsBefore counts the turns that come before that of a new message of a class. Classes before it go first, its own in order; each
// class that waits has one turn in so many, whatever waits above it.
func turnsBefore(waiting map[events.Class]int, class events.Class, aging int) int {
	const most = 1 << 30 // keeps sums and products in range
	var top, ahead, all, own, classes, below int
	for _, c := range events.Classes() {
		n := min(max(waiting[c], 0), most)
		all = min(all+n, most)
		switch {
		case c == class:
			own = n
		case n > 0:
			classes++
		}
		if c.Rank() < class.Rank() {
			top = min(top+n, most)
		} else if c != class && n > 0 {
			below++
		}
	}
	ahead = min(top+own, most)
	inOrder := ahead
	for _, c := range events.Classes() {
		if c.Rank() > class.Rank() { // with the share that lower classes take of these turns
			inOrder = min(inOrder+min(max(waiting[c], 0), ahead/max(aging-below, 1)), all)
		}
	}
	if top == 0 {
		return inOrder
	}
	return min(inOrder, (own+1)*max(aging, classes+1)-1)
}
