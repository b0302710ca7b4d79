package queue

import (
	"cmp"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// MayStart decides whether attempt n+1 of a message may be appended now (rules R1, R3, R8).
func (q *Queue) MayStart(id string, now time.Time) Hold {
	if h := q.heldBut(id, now); h != HoldNone {
		return h
	}
	e, ok := q.Entry(id)
	if !ok {
		return HoldNotPending
	}
	return q.mayStart(e, now)
}

// Held says what holds the whole instance, "" when nothing does.
func (q *Queue) Held(now time.Time) Hold { return q.held(now) }

func (q *Queue) held(now time.Time) Hold { return q.heldBut("", now) }

// heldBut says it for the turn that is busy with a message: it is not held by itself.
func (q *Queue) heldBut(id string, now time.Time) Hold {
	switch {
	case !q.ChainIntact():
		return HoldBroken
	case q.chain.unread > 0:
		return HoldUnreadable
	case q.rules.Stopped:
		return HoldStopped
	case q.Paused():
		return HoldPaused
	case q.Parked(), q.Closed():
		return HoldParked
	case len(q.ix.open)+q.startless(id) >= q.Limit():
		return HoldConcurrency
	case now.Before(q.QuietUntil()):
		return HoldQuiet
	}
	return HoldNone
}

func (q *Queue) mayStart(e *Entry, now time.Time) Hold {
	if h := cmp.Or(q.startable(e), q.leavesTurn(e, now)); h != HoldNone {
		return h
	}
	for o := range q.ix.open {
		if o.Lane.Slot == e.Lane.Slot {
			return HoldSlot
		}
	}
	for id, slot := range q.taken {
		if id != e.ID && slot == e.Lane.Slot {
			return HoldSlot
		}
	}
	switch {
	case q.rules.Suspended[e.Lane.Tenant]:
		return HoldSuspended
	case now.Before(e.ReadyAt()):
		return HoldNotDue
	case q.paced(e, now):
		return HoldPace
	}
	return HoldNone
}

// leavesTurn says what takes a message out of its lane, see laneHead: it is asked before what holds it there, so that whoever looks at a
// lane, in whatever state of its slot, finds it the same.
func (q *Queue) leavesTurn(e *Entry, now time.Time) Hold {
	switch {
	case q.Draining() && e.QueuedSeq > q.draining:
		return HoldPaused
	case !now.Before(e.DeliverUntil):
		return HoldDeadline
	}
	return HoldNone
}

// startable decides by the facts of the message alone, whatever the time.
func (q *Queue) startable(e *Entry) Hold {
	s := e.sum()
	switch {
	case !e.queued || s.Settled():
		return HoldNotPending
	case s.Open() > 0:
		return HoldOpenStart
	case s.Final != "" || s.Counted() >= q.budget(e):
		return HoldExhausted
	}
	switch last := s.Last(); last.State {
	case message.AttemptNone, message.AttemptDeferred, message.AttemptDisproved:
		// An older attempt that is unknown was absent, or n would not have been started (rule R8).
	case message.AttemptUnknown:
		if !last.Absent || q.rules.Policies[e.Category()] != AfterAbsence {
			return HoldUnknown
		}
	default:
		return HoldNotPending
	}
	if q.inDoubt(e) {
		return HoldDoubt
	}
	return HoldNone
}

func (q *Queue) budget(e *Entry) int {
	if n, ok := q.rules.Attempts[e.Category()]; ok {
		return n
	}
	return 1
}

// QuietUntil is when the breaker lets the next start through: Quiet after the newest attempt that is unknown.
func (q *Queue) QuietUntil() time.Time {
	var until time.Time
	for e := range q.ix.silent {
		for _, a := range e.sum().Attempts {
			if a.State == message.AttemptUnknown {
				if t := a.UnknownAt.Add(q.rules.Quiet); t.After(until) {
					until = t
				}
			}
		}
	}
	return until
}

// HalfOpen reports that an attempt became unknown, is so still, and the gateway has taken nothing since: after QuietUntil one start at a
// time is let through, of an instance that answers.
func (q *Queue) HalfOpen() bool {
	for e := range q.ix.silent {
		for _, a := range e.sum().Attempts {
			if a.State == message.AttemptUnknown && !a.UnknownAt.Before(q.left) {
				return true
			}
		}
	}
	return false
}

// Close is an end to append.
type Close struct {
	Reason   string
	Code     events.ErrorCode
	Presumed bool
	Messages []events.ClosedMessage
}

// EndEvent says in ev, an event dispatch.closed without a body, what c names; it is about a message where c names only one.
func (q *Queue) EndEvent(ev events.Event, c Close) events.Event {
	ev.Body = &events.DispatchClosed{Reason: c.Reason, Code: c.Code, Presumed: c.Presumed, Messages: c.Messages}
	if len(c.Messages) == 1 {
		ev.Subject, ev.QueuedSeq = c.Messages[0].ID, c.Messages[0].QueuedSeq
		if e, ok := q.Entry(ev.Subject); ok {
			ev.TenantID = e.Lane.Tenant
		}
	}
	return ev
}

// MayClose decides whether an end may be appended now (rules R1, R7).
func (q *Queue) MayClose(id, reason string, now time.Time) Hold {
	switch {
	case !q.ChainIntact():
		return HoldBroken
	case q.chain.unread > 0: // what it says may be a start, an acceptance or an end of this very message
		return HoldUnreadable
	}
	e, ok := q.Entry(id)
	if !ok || e.sum().Settled() {
		return HoldNotPending
	}
	if e.sum().Open() > 0 {
		return HoldOpenStart
	}
	outstanding := e.sum().Outstanding() > 0
	switch {
	case reason == events.ClosedTimeout && !outstanding:
		return HoldNoneOutstand
	case reason != events.ClosedTimeout && outstanding:
		return HoldOutstanding
	case reason == events.ClosedExpired && now.Before(e.DeliverUntil),
		reason == events.ClosedTimeout && now.Before(e.DeliverUntil.Add(q.rules.PresumedAfter)):
		return HoldNotOver
	}
	return HoldNone
}

// Closes lists the ends that are due now, grouped so that each is one append of at most events.MaxClosed messages.
// At most limit messages are named in all.
func (q *Queue) Closes(now time.Time, limit int) []Close {
	q.advance(now)
	type key struct {
		reason string
		code   events.ErrorCode
	}
	groups := map[key][]*Entry{}
	n := 0
	for e := range q.ix.overdue {
		if n >= limit {
			break
		}
		reason, code := q.end(e, now)
		if reason == "" || q.MayClose(e.ID, reason, now) != HoldNone {
			continue
		}
		k := key{reason, code}
		groups[k] = append(groups[k], e)
		n++
	}
	var out []Close
	for k, es := range groups {
		slices.SortFunc(es, func(a, b *Entry) int { return cmp.Compare(a.QueuedSeq, b.QueuedSeq) })
		for chunk := range slices.Chunk(es, events.MaxClosed) {
			c := Close{Reason: k.reason, Code: k.code, Presumed: k.reason == events.ClosedTimeout}
			for _, e := range chunk {
				c.Messages = append(c.Messages, events.ClosedMessage{ID: e.ID, QueuedSeq: e.QueuedSeq})
			}
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Close) int {
		return cmp.Compare(a.Messages[0].QueuedSeq, b.Messages[0].QueuedSeq)
	})
	return out
}

// end gives the end that fits an entry at a time: "" when none does yet.
func (q *Queue) end(e *Entry, now time.Time) (string, events.ErrorCode) {
	s := e.sum()
	switch {
	case s.Settled() || s.Open() > 0:
		return "", ""
	case s.Outstanding() > 0:
		if now.Before(e.DeliverUntil.Add(q.rules.PresumedAfter)) {
			return "", ""
		}
		return events.ClosedTimeout, events.FailDeliveryTimeout
	case s.Final != "":
		return events.ClosedFailed, s.Final
	case s.Counted() >= q.budget(e):
		return events.ClosedFailed, events.FailAttemptsExhausted
	case now.Before(e.DeliverUntil):
		return "", ""
	case s.Called():
		return events.ClosedExpired, events.FailExpiredAfterAttempts
	}
	return events.ClosedExpired, events.FailExpired
}

// Open lists the entries with an open start, also when a proof came before its outcome: an owner resolves those of others
// first (rule R6).
func (q *Queue) Open() []*Entry { return bySeq(q.ix.open) }

// Unknowns reports how many entries Unknown and Ghosts would list.
func (q *Queue) Unknowns() int { return len(q.ix.unknown) + len(q.ix.ghosts) }

// Unknown lists the entries with an attempt that is unknown, and those that left without a known gateway id: look-ups ask about them.
func (q *Queue) Unknown() []*Entry { return bySeq(q.ix.unknown) }

// Ghosts lists the entries that ended while an attempt was unknown: look-ups count what may be theirs.
func (q *Queue) Ghosts() []*Entry { return bySeq(q.ix.ghosts) }

func bySeq(set map[*Entry]struct{}) []*Entry {
	out := make([]*Entry, 0, len(set))
	for e := range set {
		if e.queued {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *Entry) int { return cmp.Compare(a.QueuedSeq, b.QueuedSeq) })
	return out
}
