package sim

import (
	"cmp"
	"slices"
	"time"

	"pilotstatus.dev/events"
)

// An expiry is in the log this long after deliverUntil at the latest.
const expiredWithin = 5 * time.Second

// checkDeadline: a message none of whose attempts can have had effect is over 5 s after its deadline, or after its own call or the
// absence of dispatchers that lay over it (I5).
func (h *history) checkDeadline(m *told) {
	for _, r := range m.recs {
		// The call is stopped by a check of its own, so a start too late costs no more than an attempt; it is a rule all the same.
		if r.Type == events.TypeDispatchStarted && !r.Time.Before(m.DeliverUntil) {
			h.broke("I5", m.ID, "attempt %d starts %s after its deadline", r.Attempt, r.Time.Sub(m.DeliverUntil))
		}
		b, ok := r.Body.(*events.DispatchClosed)
		if !ok || b.Reason != events.ClosedExpired {
			continue
		}
		if r.Time.Before(m.DeliverUntil) || r.Stored.Before(m.DeliverUntil.Add(-maxClockSkew)) {
			h.broke("I5", m.ID, "it expired %s before its deadline", m.DeliverUntil.Sub(r.Stored))
		}
		from := m.DeliverUntil
		if at := m.recs[0].Stored; at.After(from) { // the clock of the API was that far behind
			from = at
		}
		from = newer(from, lastDisproof(m)) // before it, the attempt may have had an effect
		if due := h.freeAt(m, from).Add(expiredWithin); r.Stored.After(due) {
			h.broke("I5", m.ID, "it expired %s after its deadline, %s too late", r.Stored.Sub(m.DeliverUntil), r.Stored.Sub(due))
		}
	}
}

// lastDisproof gives when the last attempt that was disproved was; zero when none was.
func lastDisproof(m *told) (at time.Time) {
	for _, r := range m.recs {
		if r.Type == events.TypeDispatchDisproved {
			at = r.Stored
		}
	}
	return at
}

// freeAt gives the first moment from at on when no call of a message is under way and a dispatcher can work.
func (h *history) freeAt(m *told, at time.Time) time.Time {
	spans := slices.Clone(h.rec.Away)
	begun := map[int]time.Time{} // attempt → when it started
	for _, r := range m.recs {
		switch r.Type {
		case events.TypeDispatchStarted:
			begun[r.Attempt] = r.Stored
		case events.TypeDispatchAccepted, events.TypeDispatchRefused, events.TypeDispatchDeferred, events.TypeDispatchUnknown:
			spans = append(spans, span{begun[r.Attempt], r.Stored})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.From.UnixNano(), b.From.UnixNano()) })
	for _, s := range spans {
		if !s.From.After(at) && s.To.After(at) {
			at = s.To
		}
	}
	return at
}
