package queue

import (
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// crash loses the memory of a dispatcher; the fold begins anew. What it had published may still land.
func (m *machine) crash(d int) {
	delete(m.inCall, d)
	m.actors[d] = &actor{q: New(instance, m.rules), life: m.actors[d].life}
	for _, id := range m.ids {
		delete(m.looked, key(id, d))
	}
}

// doubt is an operator accepting the log as it ends now, through a dispatcher, fenced as all that decides whether a call may follow;
// or a look-up of that dispatcher that finds nothing of some messages in doubt.
func (m *machine) doubt(t *rapid.T, d int) {
	a := m.actors[d]
	if rapid.Bool().Draw(t, "accepted") {
		if a.q.GroupSequence() == m.group {
			m.restored(m.seq)
		}
		return
	}
	for _, e := range a.q.Doubtful() {
		if rapid.Bool().Draw(t, "found nothing") {
			a.q.LookedUp(e.ID)
			m.looked[key(e.ID, d)] = a.read
		}
	}
}

// resolve ends the open starts of others, once no call of theirs can be under way (rules R6, R9).
func (m *machine) resolve(d int) {
	a := m.actors[d]
	for _, e := range a.q.Open() {
		n := e.Summary().Open()
		at := e.Summary().Attempts[n-1]
		mine := a.pc != idle && a.nonce == at.Nonce
		if !mine && a.q.GroupSequence() == m.group && m.now.Sub(at.StartedAt) >= successorWait {
			m.unknown(e.ID, n)
			return
		}
	}
}

// lookUp asks the gateway about an attempt that is unknown.
func (m *machine) lookUp(t *rapid.T) {
	a := m.actors[2]
	for _, e := range a.q.Unknown() {
		s := e.Summary()
		for n := 1; n <= len(s.Attempts); n++ {
			at := s.Attempts[n-1]
			if at.State != message.AttemptUnknown || s.Settled() || a.q.GroupSequence() != m.group || rapid.Bool().Draw(t, "not asked") {
				continue
			}
			r := m.gw[key(e.ID, n)]
			switch {
			case r != nil && r.state == "effect":
				m.proved(e.ID, n)
				return
			case m.rules.Policies[e.Category()] == AfterAbsence && !at.Absent && m.now.Sub(at.StartedAt) > 180*time.Second:
				m.absent(e.ID, n) // wrong when the request is still queued inside the gateway
				return
			}
		}
	}
}

// receipt is what the gateway reports of a message: fenced as a proof when the fold does not know that it left.
func (m *machine) receipt(t *rapid.T) {
	a := m.actors[2]
	for _, id := range m.ids {
		for n := 1; n <= 9; n++ {
			r := m.gw[key(id, n)]
			e, ok := a.q.Entry(id)
			if r == nil || r.state != "effect" || !ok || e.Summary().Settled() || a.q.GroupSequence() != m.group || rapid.Bool().Draw(t, "not yet") {
				continue
			}
			m.proved(id, rapid.SampledFrom([]int{0, n}).Draw(t, "of attempt"))
			return
		}
	}
}

// end appends an end that is due by the fold of any of the three.
func (m *machine) end(t *rapid.T, d int) {
	a := m.actors[d]
	ends := a.q.Closes(m.now, 500)
	if len(ends) == 0 || a.q.GroupSequence() != m.group {
		return
	}
	c := rapid.SampledFrom(ends).Draw(t, "end")
	for _, x := range c.Messages {
		m.mustEnd(t, x.ID, c.Reason)
	}
	m.closed(c)
}

func (m *machine) cancel(t *rapid.T) {
	if len(m.ids) == 0 {
		return
	}
	a, id := m.actors[2], rapid.SampledFrom(m.ids).Draw(t, "canceled")
	if a.q.MayClose(id, events.ClosedCanceled, m.now) == HoldNone && a.q.GroupSequence() == m.group {
		m.mustEnd(t, id, events.ClosedCanceled)
		m.ended(events.ClosedCanceled, id)
	}
}
