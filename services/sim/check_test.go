package sim

import (
	"slices"
	"strings"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
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
	h.checkHolds()
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
		if !h.called[k] && !sameText(m) {
			h.broke("I2", k.message, "attempt %d called at %s, and the log says that it made no call", k.attempt, clock(c.At))
		}
		if ahead.Abs() > maxClockSkew {
			h.broke("I5", k.message, "attempt %d was called by %s, whose clock is %s ahead", k.attempt, c.By, ahead)
		}
	}
}

// openAt gives the attempt that is open at a call and is of a message with its text, one that was not seen to call and of which the log
// does not deny a call if there is one; else any that is open. A proof says nothing about whether its call has returned.
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
			fits = 3
			if seen[o] > 0 {
				fits--
			}
			if !h.called[o] {
				fits--
			}
		}
		if fits > best {
			k, best = o, fits
		}
	}
	return k, best >= 0
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
	left, same := h.ledger[m.ID], sameText(m)
	switch {
	case m.sum.End != nil && !m.sum.End.Presumed && m.view.Status() == events.StatusFailed && m.sum.End.Reason != "" && len(left) > 0:
		if !m.sum.Settled() || m.view.Stage == events.StageFailed && m.view.ErrorCode != events.FailGatewayRejected {
			h.broke("truth", m.ID, "it is FAILED for certain, and it left")
		}
	case !m.view.SentAt.IsZero() && len(left) == 0 && !same:
		h.broke("truth", m.ID, "it was reported SENT, and nothing left")
	case acceptedByID(m) && len(left) == 0 && !same:
		h.broke("truth", m.ID, "it is in the log as accepted by the gateway, and nothing left")
	}
	if m.view.GatewayID == "" || same || len(left) == 0 {
		return
	}
	if !slices.ContainsFunc(left, func(e ledgerEntry) bool { return e.KeyID == m.view.GatewayID }) {
		h.broke("truth", m.ID, "it is bound to %s, and left as %s", m.view.GatewayID, left[0].KeyID)
	}
}

// acceptedByID reports that the log has an acceptance with the gateway's id. The answers of success without one (faults_test.go, ambiguous) are
// given where a send failed as well: there the gateway lies.
func acceptedByID(m *told) bool {
	return slices.ContainsFunc(m.recs, func(r events.Recorded) bool { return r.Type == events.TypeDispatchAccepted && r.GatewayID != "" })
}

// sameText reports that other messages may have the text of this one: what a gateway took is not told apart by it.
func sameText(m *told) bool { return strings.HasPrefix(m.Text, "same") }
