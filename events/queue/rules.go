// Package queue folds the events of one instance into what it has to do next: what is pending, due, in flight, unknown or
// over, and who is next. It is the only queue there is (docs/adr/0003): consumers and leases only save work.
//
// The state is a pure function of the set of positioned events above the compaction floor; nothing here reads a clock.
// A Queue is not safe for concurrent use: its owner guards it.
package queue

import (
	"math"
	"time"

	"pilotstatus.dev/events"
)

// Policy says what may follow an attempt that is unknown (rule R8).
type Policy uint8

// Policies.
const (
	Never        Policy = iota // nothing: proof, or a presumed end
	AfterAbsence               // another attempt once `absent` is recorded
)

// Backoff of one category: exponential from Base, at most Cap, full jitter.
type Backoff struct {
	Base time.Duration
	Cap  time.Duration
}

// Rules are the numbers a queue decides with; all are settable.
type Rules struct {
	Concurrency   int                         // C of rule R1: open starts at a time
	Attempts      map[events.Category]int     // budget of attempts with a call
	Policies      map[events.Category]Policy  // what may follow an unknown attempt
	Backoffs      map[events.Category]Backoff // delay before the next attempt
	PresumedAfter time.Duration               // after deliverUntil, an attempt still unknown is presumed to have failed
	Quiet         time.Duration               // no start after an attempt without an answer (breaker)
	AgingTurns    int                         // a waiting class has a turn in any so many, or in as many as classes wait when that is more
	Suppress      time.Duration               // the last message to a recipient is not said again within it
	BindWindow    time.Duration               // how long an acceptance without a key id is looked up
	Pace          events.Pacing               // the bucket of the instance; zero: unpaced
	Stopped       bool                        // an operator has stopped sending for all: nothing starts
	Suspended     map[string]bool             // tenants of which nothing starts
	Weight        func(tenant string) int     // turns of a tenant in a round of its class, 1 to 1000; nil is 1 each. It changes no state
}

// DefaultRules are the numbers of docs/events.md.
func DefaultRules() Rules {
	return Rules{
		Concurrency: 1,
		Attempts:    map[events.Category]int{events.OTP: 6, events.Utility: 8, events.Marketing: 5},
		Policies:    map[events.Category]Policy{events.Utility: AfterAbsence, events.Marketing: AfterAbsence}, // Never for OTP
		Backoffs: map[events.Category]Backoff{
			events.OTP:       {Base: 2 * time.Second, Cap: 20 * time.Second},
			events.Utility:   {Base: 5 * time.Second, Cap: 5 * time.Minute},
			events.Marketing: {Base: 15 * time.Second, Cap: 15 * time.Minute},
		},
		PresumedAfter: 10 * time.Minute,
		Quiet:         60 * time.Second,
		AgingTurns:    10,
		Suppress:      10 * time.Minute,
		BindWindow:    10 * time.Minute,
	}
}

// minDelay keeps a jittered retry from becoming a hot loop.
const minDelay = 100 * time.Millisecond

// RetryDelay draws the delay before the attempt after the counted-th: exponential with full jitter, r in [0,1) drawn by the caller.
func (r Rules) RetryDelay(c events.Category, counted int, draw float64) time.Duration {
	b, ok := r.Backoffs[c]
	if !ok {
		b = r.Backoffs[events.Marketing]
	}
	ceiling := float64(b.Base) * math.Pow(2, float64(min(max(counted-1, 0), 30)))
	ceiling = min(ceiling, float64(b.Cap))
	return max(minDelay, time.Duration(draw*ceiling))
}

// RetryAt gives when the attempt after the counted-th is due. Where what is left of the window would be over before, it is drawn from
// what is left: a message is not lost to a long wait while an earlier try would fit.
func (r Rules) RetryAt(c events.Category, counted int, draw float64, now, deliverUntil time.Time) time.Time {
	at := now.Add(r.RetryDelay(c, counted, draw))
	last := deliverUntil.Add(-lastTry)
	if !at.After(last) {
		return at
	}
	left := last.Sub(now)
	if left < minDelay { // it hardly fits: at once, and once only
		return now.Add(minDelay)
	}
	return now.Add(max(minDelay, time.Duration(draw*float64(left))))
}

// lastTry is what a try needs of the window: for its intent, and for a gateway that is not at once there.
const lastTry = time.Second

// Hold says why a start or an end is not allowed; "" means it is.
type Hold string

// Reasons of a hold.
const (
	HoldNone         Hold = ""
	HoldNotPending   Hold = "not_pending"      // unknown to the fold, ended, accepted or proved (rules R1, R3)
	HoldOpenStart    Hold = "open_start"       // this message has an open start
	HoldSlot         Hold = "slot_taken"       // its slot has an open start
	HoldConcurrency  Hold = "concurrency"      // C open starts
	HoldUnknown      Hold = "unknown"          // an attempt is unknown and the policy allows no other (rule R8)
	HoldDoubt        Hold = "doubt"            // it may have left in a part of the log that was lost
	HoldExhausted    Hold = "exhausted"        // no attempt left, or a final code is known
	HoldNotDue       Hold = "not_due"          // deliverAt or the retry is in the future
	HoldDeadline     Hold = "deadline"         // deliverUntil is over
	HoldPaused       Hold = "paused"           // paused or draining
	HoldParked       Hold = "parked"           // parked, or closed by the gateway
	HoldPace         Hold = "pace"             // the bucket lacks what a start of its category costs
	HoldQuiet        Hold = "quiet"            // the breaker is open after an attempt without an answer
	HoldBroken       Hold = "broken_chain"     // ce-prev does not name the fenced event before it (rule R3)
	HoldUnreadable   Hold = "unreadable_event" // a fenced event of a type or version unknown to this process
	HoldStopped      Hold = "stopped"          // sending is stopped for all
	HoldSuspended    Hold = "tenant_suspended" // its tenant is suspended
	HoldNotOver      Hold = "not_over"         // a close that waits for a time that has not come
	HoldOutstanding  Hold = "outstanding"      // a definite end while an attempt is unknown (rule R7)
	HoldNoneOutstand Hold = "none_outstanding" // a presumed end without an unknown attempt
)
