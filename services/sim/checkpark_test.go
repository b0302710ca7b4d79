package sim

import (
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
)

// What a gateway may be asked in a minute in which it is parked as a whole: one dispatcher asks for it, and the one that went astray, each
// as often as every 2.5 s; look-ups back off. A send is one that had begun elsewhere before.
const (
	mostQuestions = 60
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
