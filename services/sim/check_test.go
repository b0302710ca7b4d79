package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/absence"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolutionsim"
)

// check holds a run to every invariant of docs/simulation.md.
func check(h *history) []violation {
	for _, e := range h.rec.Errors {
		h.broke("run", "", "%s", e)
	}
	h.checkCalls()
	h.checkLedger()
	for _, m := range h.order {
		h.checkEnd(m)
		h.checkAttempts(m)
		h.checkAbsence(m)
		h.checkDeadline(m)
		h.checkStatus(m)
		h.checkTruth(m)
		h.checkSilence(m)
	}
	h.checkFence()
	h.checkCallsAtOnce()
	h.checkPace()
	h.checkTurns()
	h.checkParks()
	h.checkCancels()
	h.checkReceipts()
	h.checkHooks()
	return h.found
}

// checkCalls: each call is that of the one start open at that moment (I3), comes before the deadline (I5), and is the only one of its
// attempt (I2).
func (h *history) checkCalls() {
	seen := map[attemptKey]int{}
	for i, c := range h.rec.Calls {
		k, ok := h.openAt(c, seen)
		m := h.messages[k.message]
		switch {
		case !ok:
			h.broke("I3", "", "a call of %q reached %s at %s while no start was open (group at %d)", c.Text, c.Instance, clock(c.At), c.Group)
			continue
		case m == nil || m.Text != c.Text:
			h.broke("I3", k.message, "a call of %q reached %s at %s while the open start was another message's", c.Text, c.Instance, clock(c.At))
			continue
		}
		h.byCall[i] = k
		if seen[k]++; seen[k] > 1 {
			h.broke("I2", k.message, "attempt %d called the gateway %d times", k.attempt, seen[k])
		}
		ahead := h.rec.Clocks[c.By]
		if !c.At.Add(ahead).Before(m.DeliverUntil) {
			h.broke("I5", k.message, "attempt %d called at %s, after its deadline", k.attempt, clock(c.At))
		}
		if ahead.Abs() > maxClockSkew {
			h.broke("I5", k.message, "attempt %d was called by %s, whose clock is %s ahead", k.attempt, c.By, ahead)
		}
	}
}

// openAt gives the attempt that is open at a call and is of a message with its text, one that was not seen to call if there is one; else
// any that is open. A proof says nothing about whether its call has returned.
func (h *history) openAt(c call, seen map[attemptKey]int) (k attemptKey, ok bool) {
	var open []attemptKey // in the order of their starts
	for _, r := range h.fenced[c.Instance] {
		if !c.Unread && r.Position.Sequence > c.Group || c.Unread && r.Stored.After(c.At) {
			break
		}
		if c.Unread && r.Stored.Equal(c.At) && r.Type != events.TypeDispatchStarted {
			continue // virtual time stands still while things happen: the outcome of this very call
		}
		switch r.Type {
		case events.TypeDispatchStarted:
			open = append(open, attemptKey{r.Subject, r.Attempt})
		case events.TypeDispatchAccepted, events.TypeDispatchRefused, events.TypeDispatchDeferred, events.TypeDispatchUnknown:
			open = slices.DeleteFunc(open, func(o attemptKey) bool { return o == attemptKey{r.Subject, r.Attempt} })
		}
	}
	best := -1
	for _, o := range open {
		fits := 0
		if m := h.messages[o.message]; m != nil && m.Text == c.Text {
			fits = 2
			if seen[o] > 0 {
				fits = 1
			}
		}
		if fits > best {
			k, best = o, fits
		}
	}
	return k, best >= 0
}

// checkLedger: what left, left by a call, once a message and once an attempt (I2), and no more at a time than the instance may (I4).
func (h *history) checkLedger() {
	used := map[int]bool{}
	for _, l := range h.rec.Ledgers {
		if l.Dropped > 0 {
			h.broke("run", "", "the ledger lost %d entries", l.Dropped)
		}
		for name, n := range l.MaxInFlight {
			if most := h.mostCalls(name); n > int64(most) {
				h.broke("I4", "", "%d sends of %s at once, where %d are allowed at most", n, name, most)
			}
		}
		for _, e := range l.Entries {
			h.book(e, used)
		}
	}
	for id, entries := range h.ledger {
		per := map[int]int{}
		for _, e := range entries {
			if per[e.attempt]++; per[e.attempt] > 1 {
				h.broke("I2", id, "attempt %d left %d times", e.attempt, per[e.attempt])
			}
		}
		for i, e := range entries {
			if i+1 < len(entries) && !h.excused(id, e) {
				h.broke("I2", id, "it left %d times, by attempt %d too", len(entries), e.attempt)
			}
		}
	}
}

// excused: what left may leave again only where its attempt was found absent, and the gateway had stored no row of it. Nobody can
// find that out: a gateway that loses its answer and its row of one message (docs/reference/gateway.md, Absence).
func (h *history) excused(id string, e ledgerEntry) bool {
	m := h.messages[id]
	return m != nil && !findable(m, e) && e.attempt >= 1 && e.attempt <= len(m.sum.Attempts) && m.sum.Attempts[e.attempt-1].Absent
}

// findable reports that a look-up can find what left: there is a row, of the recipient or under the id that the gateway was told. One
// that sends to somebody else, under an id of its own, and does not say so leaves no trace where anybody may look.
func findable(m *told, e ledgerEntry) bool {
	user, _, _ := strings.Cut(e.JID, "@")
	theirs := recipient.Canonical(user) == recipient.Canonical(e.Number)
	told := e.attempt >= 1 && e.attempt <= len(m.sum.Attempts) && m.sum.Attempts[e.attempt-1].Chosen == e.KeyID
	return e.Stored && (theirs || told)
}

// checkAbsence: an attempt is absent only under all its conditions, as far as log and ledger tell, and one that left with a row never is.
func (h *history) checkAbsence(m *told) {
	var unknown *events.DispatchUnknown
	for _, r := range m.recs {
		switch b := r.Body.(type) {
		case *events.DispatchUnknown:
			unknown = b
		case *events.DispatchAbsent:
			h.absences++
			rules := absence.DefaultRules()
			if unknown == nil || !absence.Silent(*unknown) || b.FirstMS < rules.After.Milliseconds() || b.LastMS-b.FirstMS < rules.Apart.Milliseconds() {
				h.broke("I2", m.ID, "attempt %d ended as %+v and was called absent by %+v", r.Attempt, unknown, b)
			}
			for _, e := range h.ledger[m.ID] {
				if e.attempt == r.Attempt && findable(m, e) {
					h.broke("I2", m.ID, "attempt %d was called absent, and left with a row at %s", r.Attempt, clock(e.AcceptedAt))
				}
			}
		}
	}
}

// book finds the call that an entry came from.
func (h *history) book(e evolutionsim.Entry, used map[int]bool) {
	text := marked.FindString(e.Text)
	found, other, mine := -1, -1, false
	for i, c := range h.rec.Calls {
		if used[i] || mine || c.Instance != e.Instance || c.Text != text || c.At.After(e.StartedAt) || e.StartedAt.Sub(c.At) >= time.Second {
			continue
		}
		// Of calls with one text in one moment it is that which was answered with its id.
		id := h.answeredWith(e.Instance, h.byCall[i])
		if mine = id == e.KeyID; mine || found < 0 && id == "" {
			found = i
		} else if other < 0 {
			other = i
		}
	}
	if found < 0 {
		found = other
	}
	if found >= 0 {
		used[found] = true
		k := h.byCall[found]
		h.ledger[k.message] = append(h.ledger[k.message], ledgerEntry{e, k.attempt})
		return
	}
	h.broke("I3", "", "%q left %s at %s without a call", text, e.Instance, clock(e.AcceptedAt))
}

// answeredWith is the gateway's id that an attempt of an instance was accepted with, as the log says; "" where it was not, or without one.
func (h *history) answeredWith(instance string, k attemptKey) string {
	for _, r := range h.fenced[instance] {
		if r.Type == events.TypeDispatchAccepted && r.Subject == k.message && r.Attempt == k.attempt {
			return r.GatewayID
		}
	}
	return ""
}

// checkEnd: each accepted message is over (I1): it ended, or it left.
func (h *history) checkEnd(m *told) {
	if m.state.Queued == nil {
		h.broke("I1", m.ID, "it was accepted, and the log does not have it")
		return
	}
	if !m.sum.Settled() {
		h.broke("I1", m.ID, "it is still %s", m.view.Stage)
	}
	ends := 0
	for _, f := range m.state.Record {
		if f.Kind == message.KindClosed {
			ends++
		}
	}
	if ends > 1 {
		h.broke("I1", m.ID, "it was closed %d times", ends)
	}
}

// checkAttempts: a start follows only what had no effect, and nothing that is over (I2).
func (h *history) checkAttempts(m *told) {
	var before message.Summary
	for i, f := range m.state.Record {
		if f.Kind == message.KindStarted {
			switch last := before.Last(); {
			case f.Attempt != len(before.Attempts)+1:
				h.broke("I2", m.ID, "attempt %d starts after %d attempts", f.Attempt, len(before.Attempts))
			case before.Settled():
				h.broke("I2", m.ID, "attempt %d starts after the message was over", f.Attempt)
			case f.Attempt > 1 && last.State != message.AttemptDeferred && last.State != message.AttemptDisproved && !mayFollowAbsence(m, last):
				h.broke("I2", m.ID, "attempt %d starts while attempt %d may have had an effect", f.Attempt, f.Attempt-1)
			}
		}
		before = m.state.Record[:i+1].Summarize()
	}
}

// mayFollowAbsence: the policy after_absence, which OTP does not have.
func mayFollowAbsence(m *told, last message.Attempt) bool {
	addr, err := events.ParseEventSubject(m.recs[0].Address)
	return err == nil && addr.Group == events.GroupQueued && addr.Lane.Class.Category() != events.OTP && last.State == message.AttemptUnknown && last.Absent
}

// checkFence: each fenced event names the one before it.
func (h *history) checkFence() {
	for _, group := range h.fenced {
		prev := uint64(0)
		for _, r := range group {
			if r.Prev != prev {
				h.broke("log", r.Subject, "%s follows %d and names %d", r.Position, prev, r.Prev)
			}
			prev = r.Position.Sequence
		}
	}
}

// An expiry is in the log this long after deliverUntil at the latest.
const expiredWithin = 5 * time.Second

// checkDeadline: a message none of whose attempts can have had effect is over 5 s after its deadline, or after the call or the
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
		if due := h.freeAt(m.Instance, from).Add(expiredWithin); r.Stored.After(due) {
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

// freeAt gives the first moment from at on when no call of the instance is under way and a dispatcher can work.
func (h *history) freeAt(instance string, at time.Time) time.Time {
	spans := slices.Clone(h.rec.Away)
	begun := map[attemptKey]time.Time{}
	for _, r := range h.fenced[instance] {
		k := attemptKey{r.Subject, r.Attempt}
		switch r.Type {
		case events.TypeDispatchStarted:
			begun[k] = r.Stored
		case events.TypeDispatchAccepted, events.TypeDispatchRefused, events.TypeDispatchDeferred, events.TypeDispatchUnknown:
			spans = append(spans, span{begun[k], r.Stored})
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

// checkStatus: the public status never goes back; an end is corrected once at most (I6).
func (h *history) checkStatus(m *told) {
	rank := map[events.Status]int{events.StatusQueued: 0, events.StatusSent: 1, events.StatusDelivered: 2, events.StatusRead: 3}
	status, corrected := events.StatusQueued, 0
	state := message.State{ID: m.ID}
	for _, r := range m.recs {
		state = state.Apply(r)
		next := state.View().Status()
		if next == status {
			continue
		}
		from, open := rank[status]
		to, up := rank[next]
		switch {
		case open && up && to < from:
			h.broke("I6", m.ID, "%s became %s at %s", status, next, r.Position)
		case !open && up:
			if corrected++; corrected > 1 || next == events.StatusQueued {
				h.broke("I6", m.ID, "%s became %s at %s", status, next, r.Position)
			}
		case !open && !up:
			h.broke("I6", m.ID, "%s became %s at %s", status, next, r.Position)
		}
		status = next
	}
}

// checkTruth: what is said of a message and what left agree. Only an unknown outcome may end as a guess, and it says so.
func (h *history) checkTruth(m *told) {
	left := h.ledger[m.ID]
	switch {
	case m.sum.End != nil && !m.sum.End.Presumed && m.view.Status() == events.StatusFailed && m.sum.End.Reason != "" && len(left) > 0:
		if !m.sum.Settled() || m.view.Stage == events.StageFailed && m.view.ErrorCode != events.FailGatewayRejected {
			h.broke("truth", m.ID, "it is FAILED for certain, and it left")
		}
	case !m.view.SentAt.IsZero() && len(left) == 0 && !strings.HasPrefix(m.Text, "same"):
		h.broke("truth", m.ID, "it was reported SENT, and nothing left")
	}
	if m.view.GatewayID == "" || strings.HasPrefix(m.Text, "same") || len(left) == 0 {
		return
	}
	if !slices.ContainsFunc(left, func(e ledgerEntry) bool { return e.KeyID == m.view.GatewayID }) {
		h.broke("truth", m.ID, "it is bound to %s, and left as %s", m.view.GatewayID, left[0].KeyID)
	}
}
