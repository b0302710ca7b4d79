package sim

import (
	"time"

	"pilotstatus.dev/events"
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
