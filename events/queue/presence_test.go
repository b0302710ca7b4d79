package queue

import (
	"testing"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
)

// C2 42: what the API and the levers know of an instance is what the dispatcher works by, after whatever was said of it, also when words
// come again: who is told that an instance is closed, paused, drained or parked finds it held, and no other.
func TestC2PresenceAndQueueAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, q := newTape(), New(instance, DefaultRules())
		var s presence.State
		for i, w := range rapid.SliceOfN(rapid.SampledFrom(append(presence.Words(), "polished", events.ParkGateway)), 1, 20).Draw(t, "words") {
			if w == events.ParkGateway {
				p.parked(w)
			} else {
				p.instance(w)
			}
			for _, rec := range []events.Recorded{p.log[i], p.log[rapid.IntRange(0, i).Draw(t, "again")]} {
				q.Apply(rec)
				s = s.Apply(rec)
			}
			known := [...]bool{s.Connection == presence.Closed, s.Paused, s.Draining, s.Parked, s.Parked && s.Park.Scope == events.ParkGateway}
			works := [...]bool{q.Closed(), q.Paused(), q.Draining(), q.Parked(), q.ParkedWide()}
			if known != works {
				t.Fatalf("closed, paused, draining, parked, for its gateway: known %v, worked by %v", known, works)
			}
			if needed, err := s.Pull(presence.LeverResume); err != nil || needed != (q.Held(p.now) != HoldNone || q.Draining()) {
				t.Fatalf("resume is needed: %v, %v; held by %q", needed, err, q.Held(p.now))
			}
		}
	})
}
