// Package absence decides when look-ups that find nothing mean that an attempt had no effect, so that dispatch.absent may be
// recorded and, under the policy after_absence, another attempt may follow (rule R8).
//
// A gateway that shows no row proves little: it stores a message after it sent it, may fail to, and sends an abandoned request
// minutes later. So absence takes all of: the call ended in a way after which the gateway would still have stored the row; it is
// seen to store rows now; the recipient's address is known; nothing unexplained went to it; the socket never closed since the
// intent; and two counts, far from the intent and from each other, agree.
package absence

import (
	"time"

	"pilotstatus.dev/events"
)

// Rules are the intervals; both are settable.
type Rules struct {
	After time.Duration // age of the attempt at the first count: a request the gateway still holds has left by then
	Apart time.Duration // from the end of the first count to the begin of the second
}

// DefaultRules are the intervals of docs/events.md.
func DefaultRules() Rules { return Rules{After: 180 * time.Second, Apart: 60 * time.Second} }

// Silent reports whether a call ended by its time limit, a broken connection or a 5xx. After any other answer, a 400 above all, the
// gateway may have sent the message and stored no row; and of a call whose owner died nobody knows how it ended.
func Silent(u events.DispatchUnknown) bool {
	if u.HTTPStatus == 0 {
		return u.Cause == events.UnknownNoAnswer || u.Cause == events.UnknownBroken
	}
	return u.HTTPStatus >= 500 && u.HTTPStatus <= 599
}

// Socket is what is known, at one observation, of the instance's connection to WhatsApp since the attempt began.
type Socket uint8

// A socket that opened is shut here too: it was not open throughout. SocketUnsaid is no word, which proves nothing.
const (
	SocketUnsaid Socket = iota
	SocketOpen
	SocketShut
)

// Observation is one look at what the gateway stored for the recipient since the attempt began.
type Observation struct {
	From, To time.Time // before the first question and after the last answer

	Rows      int // with the very text, whosever they are
	Free      int // of these, not known to be another message's: one may be this attempt's
	Strangers int // rows with another text that no message of ours is known to have
	Others    int // other messages with the same recipient and text that may have left: rows cannot be told apart

	Complete bool // the address is resolved and every row was read
	Saves    bool // the gateway showed a message that is known to have left
	Socket   Socket
}

// usable reports whether the observation can be one of the two counts of an attempt that began at started.
func (o Observation) usable(r Rules, started time.Time) bool {
	return o.Complete && o.Saves && o.Socket == SocketOpen && o.Free == 0 && o.Strangers == 0 && o.Others == 0 &&
		!o.To.Before(o.From) && o.From.Sub(started) >= r.After
}

// Counts is what the observations of one attempt come to. It belongs to one life of a dispatcher: another begins anew.
type Counts struct {
	started  time.Time
	silent   bool
	shut     bool // at some observation the socket was not open, or had not been all the time
	appeared bool // some observation showed a row that may be the attempt's
	counting bool // first and last hold
	first    Observation
	last     Observation
}

// New begins the counts of an attempt: startedAt is its intent, silent whether its call ended so (see Silent).
func New(startedAt time.Time, silent bool) Counts { return Counts{started: startedAt, silent: silent} }

// Add takes an observation in. One that cannot count, differs from those before, or comes out of order begins the counting anew;
// a shut socket and a row that may be the attempt's are never forgotten.
func (c *Counts) Add(r Rules, o Observation) {
	c.shut = c.shut || o.Socket == SocketShut
	c.appeared = c.appeared || o.Free > 0
	if !o.usable(r, c.started) {
		c.counting = false
		return
	}
	if !c.counting || o.Rows != c.first.Rows || o.From.Before(c.last.To) {
		c.counting, c.first = true, o
	}
	c.last = o
}

// Absent reports whether the attempt is absent, and what to record of it.
func (c *Counts) Absent(r Rules) (body events.DispatchAbsent, ok bool) {
	if c.hopeless() || !c.counting || c.last.From.Sub(c.first.To) < r.Apart {
		return events.DispatchAbsent{}, false
	}
	return events.DispatchAbsent{
		Count: c.first.Rows, FirstMS: c.first.From.Sub(c.started).Milliseconds(), LastMS: c.last.From.Sub(c.started).Milliseconds(),
	}, true
}

// Next gives when a further observation could make the attempt absent; ok is false when none ever can.
func (c *Counts) Next(r Rules) (at time.Time, ok bool) {
	switch {
	case c.hopeless():
		return time.Time{}, false
	case c.counting:
		return c.first.To.Add(r.Apart), true
	}
	return c.started.Add(r.After), true
}

func (c *Counts) hopeless() bool { return !c.silent || c.shut || c.appeared }
