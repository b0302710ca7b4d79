package sim

import (
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/absence"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolutionsim"
)

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

// book finds the call that an entry came from: of calls with one text in one moment the one that its attempt fits best.
func (h *history) book(e evolutionsim.Entry, used map[int]bool) {
	text := marked.FindString(e.Text)
	found, best := -1, -1
	for i, c := range h.rec.Calls {
		if used[i] || c.Instance != e.Instance || c.Text != text || c.At.After(e.StartedAt) || e.StartedAt.Sub(c.At) >= time.Second {
			continue
		}
		if fits := h.fits(e, h.byCall[i]); fits > best {
			found, best = i, fits
		}
	}
	if found < 0 {
		h.broke("I3", "", "%q left %s at %s without a call", text, e.Instance, clock(e.AcceptedAt))
		return
	}
	used[found] = true
	k := h.byCall[found]
	h.ledger[k.message] = append(h.ledger[k.message], ledgerEntry{e, k.attempt})
}

// fits says how well an entry goes with an attempt, as the log knows it: best it was answered with the entry's id, or had asked for it;
// then comes one of which no id is known; then one that is said to have had no effect; last one that was answered with another id.
func (h *history) fits(e evolutionsim.Entry, k attemptKey) int {
	var a message.Attempt
	if m := h.messages[k.message]; m != nil && k.attempt >= 1 && k.attempt <= len(m.sum.Attempts) {
		a = m.sum.Attempts[k.attempt-1]
	}
	answered := h.answeredWith(e.Instance, k)
	switch {
	case answered == e.KeyID, a.Chosen == e.KeyID:
		return 3
	case answered != "":
		return 0
	case a.State == message.AttemptDeferred, a.State == message.AttemptRefused, a.State == message.AttemptDisproved:
		return 1
	}
	return 2
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
