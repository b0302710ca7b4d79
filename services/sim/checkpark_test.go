package sim

import (
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
)

// What a gateway may be asked in a minute in which it is parked as a whole: one dispatcher asks for it, and the one that went astray, each
// as often as every 2.5 s, and each refusal lets it ask for the version, since another gateway may be back; look-ups do not count. A send is
// one that had begun elsewhere before.
const (
	mostQuestions = 2 * 24 * 2
	mostSends     = troubled / calm
)

// checkParks: a gateway that is parked as a whole is left in peace, and nothing is parked for good.
func (h *history) checkParks() {
	for g := range calm {
		var words []events.Recorded
		for n := range troubled {
			if home(n) == g {
				words = append(words, h.words[instanceID(n)]...)
			}
		}
		slices.SortStableFunc(words, func(a, b events.Recorded) int { return a.Stored.Compare(b.Stored) })
		states, since := map[string]presence.State{}, time.Time{}
		for _, r := range words {
			addr, err := events.ParseEventSubject(r.Address)
			if err != nil {
				continue
			}
			states[addr.Instance] = states[addr.Instance].Apply(r)
			wide := false
			for _, s := range states {
				wide = wide || s.Parked && s.Park.Scope == events.ParkGateway
			}
			switch {
			case wide && since.IsZero():
				since = r.Stored
			case !wide && !since.IsZero():
				h.peace(g, since, r.Stored)
				since = time.Time{}
			}
		}
	}
	for n := range instances {
		var s presence.State
		for _, r := range h.words[instanceID(n)] {
			s = s.Apply(r)
		}
		if s.Parked {
			h.broke("park", "", "%s is still parked since %s: %s", instanceID(n), clock(s.Park.Since), s.Park.Reason)
		}
	}
}

// A word that holds an instance is known to whoever starts this long after it at the latest: longer than the way of a process to the log is
// ever held up.
const wordKnown = 5 * time.Minute

// checkHolds: what an operator's word or a park holds does not start. It may be started by who does not know of the word yet, but then it is
// not called: the log is read up to the start before.
func (h *history) checkHolds() {
	called := map[attemptKey]time.Time{}
	for i, k := range h.byCall {
		called[k] = h.rec.Calls[i].At
	}
	for instance, words := range h.words {
		var s presence.State
		var since time.Time // of the first word that holds it; what others say meanwhile changes nothing
		var drained uint64  // sequence of the newest drain
		for _, r := range h.fenced[instance] {
			for len(words) > 0 && words[0].Position.Sequence < r.Position.Sequence {
				held := s.Paused || s.Parked
				s = s.Apply(words[0])
				if !held && (s.Paused || s.Parked) {
					since = words[0].Stored
				}
				if words[0].Type == events.TypeInstanceDraining {
					drained = words[0].Position.Sequence
				}
				words = words[1:]
			}
			m, k := h.messages[r.Subject], attemptKey{r.Subject, r.Attempt}
			if r.Type != events.TypeDispatchStarted || m == nil {
				continue
			}
			at, calls := called[k]
			switch {
			case s.Draining && m.recs[0].Position.Sequence > drained: // who knows of the message knows of the drain before it
				h.broke("park", m.ID, "attempt %d starts at %s, and %s is drained since %s, before it was accepted", r.Attempt, clock(r.Stored), instance, clock(s.Drain.Since))
			case !s.Paused && !s.Parked:
			case r.Stored.Sub(since) > wordKnown:
				h.broke("park", m.ID, "attempt %d starts at %s, and %s was paused or parked since %s", r.Attempt, clock(r.Stored), instance, clock(since))
			case calls:
				h.broke("park", m.ID, "attempt %d called at %s, and %s was paused or parked since %s, before its start", r.Attempt, clock(at), instance, clock(since))
			}
		}
	}
}

// peace judges the whole minutes of a park, from a minute after its begin on.
func (h *history) peace(g int, from, to time.Time) {
	sends := map[int]int{}
	for _, c := range h.rec.Calls {
		for n := range troubled {
			if instanceID(n) == c.Instance && home(n) == g {
				sends[h.rec.minute(c.At)]++
			}
		}
	}
	for m := h.rec.minute(from.Add(time.Minute)) + 1; m < h.rec.minute(to); m++ {
		h.parked++
		if n := h.rec.Asked[g][m]; n > mostQuestions {
			h.broke("park", "", "gateway %d was asked %d times in minute %d, while it was parked from %s to %s", g, n, m, clock(from), clock(to))
		}
		if n := sends[m]; n > mostSends {
			h.broke("park", "", "gateway %d was sent %d messages in minute %d, while it was parked from %s to %s", g, n, m, clock(from), clock(to))
		}
	}
}

// minute numbers the minutes of a run.
func (r recording) minute(at time.Time) int { return int(at.Sub(r.Began) / time.Minute) }
