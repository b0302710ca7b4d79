package sim

import (
	"maps"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
)

// checkCallsAtOnce: an instance has no more starts open at once than it was allowed to, and one in each slot (I4).
func (h *history) checkCallsAtOnce() {
	for instance, group := range h.fenced {
		open := map[attemptKey]uint8{} // → slot
		for _, r := range group {
			k := attemptKey{r.Subject, r.Attempt}
			switch r.Type {
			case events.TypeDispatchStarted:
				m := h.messages[r.Subject]
				if m == nil {
					continue
				}
				for other, slot := range open {
					if slot == m.lane.Slot {
						h.broke("I4", r.Subject, "a start of %s is open in the same slot at %s", other.message, r.Position)
						delete(open, other) // it is told once
					}
				}
				open[k] = m.lane.Slot
				if most := h.callsAllowed(instance, r.Stored); len(open) > most {
					h.broke("I4", r.Subject, "%d starts of %s are open at %s, where %d are allowed", len(open), instance, r.Position, most)
					clear(open)
				}
			case events.TypeDispatchAccepted, events.TypeDispatchRefused, events.TypeDispatchDeferred, events.TypeDispatchUnknown:
				delete(open, k)
			}
		}
	}
}

// settled is how long a change of an instance may take to reach every dispatcher.
const settled = 2 * time.Minute

// callsAllowed gives the most calls at once that some dispatcher may have taken for allowed at a time.
func (h *history) callsAllowed(instance string, at time.Time) (most int) {
	h.inForce(instance, at, func(s setting) { most = max(most, s.Calls) })
	return most
}

// mostCalls gives the most calls at once that an instance was ever allowed.
func (h *history) mostCalls(instance string) (most int) {
	for _, s := range h.rec.Settings {
		if s.Instance == instance {
			most = max(most, s.Calls)
		}
	}
	return most
}

// inForce calls with each setting of an instance that some dispatcher may have acted by at a time.
func (h *history) inForce(instance string, at time.Time, use func(setting)) {
	var last *setting
	for i, s := range h.rec.Settings {
		if s.Instance != instance || s.At.After(at) {
			continue
		}
		if last != nil && s.At.After(at.Add(-settled)) {
			use(*last)
		}
		last = &h.rec.Settings[i]
	}
	if last != nil {
		use(*last)
	}
}

// checkPace: no more starts than what a full bucket and the shortest gaps let through, by the clocks of who starts, whoever that is
// and whatever happened in between. A start that made no call gave its tokens back.
func (h *history) checkPace() {
	for instance, group := range h.fenced {
		var level float64
		var last time.Time
		for _, r := range group {
			m := h.messages[r.Subject]
			if r.Type != events.TypeDispatchStarted || m == nil || !h.called[attemptKey{r.Subject, r.Attempt}] {
				continue
			}
			burst, gap, cost := 0.0, time.Duration(1<<62), 1e9
			h.inForce(instance, r.Stored, func(s setting) {
				if s.Pace.Free() {
					gap = 0
					return
				}
				burst, gap = max(burst, s.Pace.Burst), min(gap, s.Pace.GapMin)
				cost = min(cost, s.Pace.Cost(m.lane.Class.Category()))
			})
			if gap == 0 {
				last = time.Time{}
				continue
			}
			if last.IsZero() {
				level = burst
			} else {
				level = min(burst, level+max(0, float64(r.Time.Sub(last)))/float64(gap))
			}
			last = newer(last, r.Time)
			if level -= cost; level < -2*float64(maxClockSkew)/float64(gap)-1e-6 {
				h.broke("pace", r.Subject, "attempt %d at %s of %s is %.2f tokens too early", r.Attempt, clock(r.Time), instance, -level)
				level = 0
			}
		}
	}
}

// quiet reports whether a message was accepted for the calm gateway in the quiet end of the run.
func (h *history) quiet(m *told) bool {
	return (m.Instance == instanceID(sharedCalm) || m.Instance == instanceID(ownedCalm)) && m.state.Queued != nil &&
		m.state.Queued.Position.Sequence > 0 && !m.recs[0].Stored.Before(h.rec.Quiet)
}

// stirs counts how often who works may have changed in a time.
func (h *history) stirs(from, to time.Time) (n int) {
	for _, s := range h.rec.Stirred {
		if s.From.Before(to) && s.To.After(from) {
			n++
		}
	}
	return n
}

// waiting is what waits in one line: a class of an instance, or a tenant in it.
type waiting struct {
	since  time.Time // something of it could start
	passed int       // turns of others since then, or since its own last one
}

// checkTurns: in the quiet end of the run each class that waits has its turn within the turns of aging, a tenant within those that the
// others may have before it, and a lane keeps its order. What could not have the turn that was its own, since calls of its slots were under
// way, goes as soon as it can, behind those that waited longer. Who takes over begins to count anew.
func (h *history) checkTurns() {
	for _, n := range []int{sharedCalm, ownedCalm} {
		h.turnsOf(instanceID(n))
	}
}

func (h *history) turnsOf(instance string) {
	var line []*told
	for _, m := range h.order {
		if m.Instance == instance && h.quiet(m) {
			line = append(line, m)
		}
	}
	begun := map[string]bool{}
	classes, shares := map[events.Class]*waiting{}, map[share]*waiting{}
	calls := map[attemptKey]uint8{} // under way → slot
	for _, r := range h.fenced[instance] {
		m := h.messages[r.Subject]
		busy := slices.Collect(maps.Values(calls))
		switch k := (attemptKey{r.Subject, r.Attempt}); r.Type {
		case events.TypeDispatchStarted:
			if m != nil {
				calls[k] = m.lane.Slot
			}
		case events.TypeDispatchAccepted, events.TypeDispatchRefused, events.TypeDispatchDeferred, events.TypeDispatchUnknown:
			delete(calls, k)
		}
		if r.Type != events.TypeDispatchStarted || m == nil || !h.quiet(m) || r.Attempt > 1 {
			continue
		}
		h.turns++
		begun[m.ID] = true
		waits, waitShares := map[events.Class]bool{}, map[share]bool{} // → one of its slots is free
		for _, other := range line {                                   // what was there when this turn was chosen, and could have had it
			chosen := r.Time.Add(-choosing)
			if begun[other.ID] || other.overAt(r.Position.Sequence) || !other.recs[0].Stored.Before(chosen) || other.ReadyAt.After(chosen) {
				continue
			}
			if other.lane == m.lane && other.before(m) && h.stirs(other.ReadyAt, r.Time) == 0 {
				h.broke("turns", m.ID, "it starts at %s before %s, which was ready before it in the same lane", clock(r.Time), other.ID)
			}
			free, s := !slices.Contains(busy, other.lane.Slot), share{other.lane.Class, other.lane.Tenant}
			waits[other.lane.Class], waitShares[s] = waits[other.lane.Class] || free, waitShares[s] || free
		}
		passes(h, classes, waits, m.lane.Class, r, func(events.Class) int { return queue.DefaultRules().AgingTurns })
		passes(h, shares, waitShares, share{m.lane.Class, m.lane.Tenant}, r, func(s share) int {
			if s.class != m.lane.Class {
				return 0
			}
			return 2 * (len(tenants) - 1)
		})
	}
}

// share is what a tenant has of a class.
type share struct {
	class  events.Class
	tenant string
}

// passes takes one turn of mine into account for all that waits, with whether it could have had this turn; most gives how many turns of
// others each may wait for, 0 where this one does not count.
func passes[K comparable](h *history, lines map[K]*waiting, waits map[K]bool, mine K, r events.Recorded, most func(K) int) {
	for k := range waits {
		if lines[k] == nil {
			lines[k] = &waiting{since: r.Time}
		}
	}
	claim := 0 // of who has the turn
	if w := lines[mine]; w != nil {
		claim = w.passed
	}
	delete(lines, mine)
	for k, w := range lines {
		n := most(k)
		free, there := waits[k]
		switch {
		case !there:
			delete(lines, k)
			continue
		case n == 0:
			continue
		}
		if w.passed++; free && w.passed > claim+1 && w.passed > n*(1+h.stirs(w.since, r.Time)) {
			h.broke("turns", r.Subject, "%v waits since %s, and by %s others had %d turns: %d are allowed, and as many once more with each change of who works",
				k, clock(w.since), clock(r.Time), w.passed, n)
		}
	}
}

// overAt reports that a message had ended before a place in its log.
func (m *told) overAt(seq uint64) bool {
	for _, r := range m.recs {
		if r.Position.Sequence < seq && (r.Type == events.TypeDispatchClosed || r.Type == events.TypeDispatchRefused) {
			return true
		}
	}
	return false
}

// choosing is how long before its start a turn may have been chosen: a number check and typing come between.
const choosing = 20 * time.Second

// before is the order inside a lane.
func (m *told) before(o *told) bool {
	if !m.ReadyAt.Equal(o.ReadyAt) {
		return m.ReadyAt.Before(o.ReadyAt)
	}
	return m.Seq < o.Seq
}

// callers notes which attempts called the gateway, as the log says.
func (h *history) callers(m *told) {
	for _, f := range m.state.Record {
		if f.Kind != message.KindStarted {
			continue
		}
		k := attemptKey{m.ID, f.Attempt}
		h.called[k] = true
		for _, o := range m.state.Record {
			if o.Attempt == f.Attempt && o.Kind == message.KindDeferred && !o.Called {
				delete(h.called, k)
			}
		}
	}
}
