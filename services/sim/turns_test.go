package sim

import (
	"fmt"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// scene is a made-up piece of a quiet end: one instance and what its log says, second by second.
type scene struct {
	h   *history
	in  string
	seq uint64
}

func newScene(n, calls int, pace events.Pacing) *scene {
	h := &history{messages: map[string]*told{}, fenced: map[string][]events.Recorded{}, called: map[attemptKey]bool{}}
	h.rec.Settings = []setting{{Instance: instanceID(n), Calls: calls, Pace: pace}}
	return &scene{h: h, in: instanceID(n)}
}

func second(s float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(s * float64(time.Second)))
}

// put has a message accepted.
func (s *scene) put(id string, class events.Class, slot uint8, at float64) {
	s.seq++
	m := &told{
		acceptedMessage: acceptedMessage{ID: id, Instance: s.in, ReadyAt: second(at), Seq: s.seq},
		lane:            events.Lane{Instance: s.in, Class: class, Tenant: tenants[0], Slot: slot},
		state:           message.State{ID: id, Queued: &message.Queued{Position: events.Position{Sequence: s.seq}}},
		recs:            []events.Recorded{{Position: events.Position{Sequence: s.seq}, Stored: second(at)}},
	}
	s.h.messages[id], s.h.order = m, append(s.h.order, m)
}

// say appends an event of the fenced group.
func (s *scene) say(id string, at float64, wire string, body any) {
	s.seq++
	r := events.Recorded{
		Event:    events.Event{Envelope: events.Envelope{Type: wire, Subject: id, Attempt: 1, Time: second(at)}, Body: body},
		Position: events.Position{Sequence: s.seq}, Stored: second(at),
	}
	s.h.fenced[s.in] = append(s.h.fenced[s.in], r)
	s.h.messages[id].recs = append(s.h.messages[id].recs, r)
}

func (s *scene) start(id string, at float64) {
	s.say(id, at, events.TypeDispatchStarted, &events.DispatchStarted{})
}

func (s *scene) take(id string, at float64) {
	s.say(id, at, events.TypeDispatchAccepted, &events.DispatchAccepted{})
}

func (s *scene) end(id string, at float64, reason string) {
	s.say(id, at, events.TypeDispatchClosed, &events.DispatchClosed{Reason: reason, Messages: []events.ClosedMessage{{ID: id}}})
}

// codes lets codes have turns of slot 0, one a second, each with a call of half a second.
func (s *scene) codes(from, n int) {
	for at := from; at < from+n; at++ {
		id := fmt.Sprint("code ", at)
		s.put(id, events.ClassOTP, 0, float64(at)-0.1)
		s.start(id, float64(at))
		s.take(id, float64(at)+0.5)
	}
}

// What is counted as a turn, for whom, and whose turn it could have been.
func TestTurnsThatCount(t *testing.T) {
	t.Parallel()
	free := events.Pacing{OTP: 1, Utility: 1, Marketing: 1, Burst: 1}
	paced := events.Pacing{GapMin: time.Second, GapMax: time.Second, Burst: 2, OTP: 0.1, Utility: 1, Marketing: 1}
	nothing := paced
	nothing.OTP = 0
	// Two classes have had a turn each whose calls last: one in slot 1, then one in slot 2 whose next message has just come.
	held := func(s *scene) {
		for _, id := range []string{"utility", "next utility"} {
			s.put(id, events.ClassUtility, 1, -100)
		}
		s.put("marketing", events.ClassMarketing, 2, -100)
		s.put("next marketing", events.ClassMarketing, 2, -1)
		s.start("marketing", 0)
		s.start("utility", 0.1)
		s.codes(1, 12)
	}
	for name, c := range map[string]struct {
		calls int
		pace  events.Pacing
		with  func(*scene)
		found bool
	}{
		"ten turns of others": {1, free, func(s *scene) { s.put("utility", events.ClassUtility, 0, -100); s.codes(0, 10) }, false},
		"eleven":              {1, free, func(s *scene) { s.put("utility", events.ClassUtility, 0, -100); s.codes(0, 11) }, true},
		"eleven that cost a tenth of what waits": {
			1, paced, func(s *scene) { s.put("utility", events.ClassUtility, 0, -100); s.codes(0, 11) }, false,
		},
		"a hundred of them":         {1, paced, func(s *scene) { s.put("utility", events.ClassUtility, 0, -100); s.codes(0, 100) }, false},
		"more than a hundred":       {1, paced, func(s *scene) { s.put("utility", events.ClassUtility, 0, -100); s.codes(0, 102) }, true},
		"any number without a cost": {1, nothing, func(s *scene) { s.put("utility", events.ClassUtility, 0, -100); s.codes(0, 300) }, false},
		"its own turn ended without a start": {1, free, func(s *scene) {
			s.put("same again", events.ClassUtility, 0, -100)
			s.put("utility", events.ClassUtility, 0, -100)
			s.codes(0, 8)
			s.end("same again", 8, events.ClosedFailed)
			s.codes(9, 8)
		}, false},
		"one of its own expired": {1, free, func(s *scene) {
			s.put("too late", events.ClassUtility, 0, -100)
			s.put("utility", events.ClassUtility, 0, -100)
			s.codes(0, 8)
			s.end("too late", 8, events.ClosedExpired)
			s.codes(9, 8)
		}, true},
		"its slot became free after the choice": {4, free, func(s *scene) {
			held(s)
			s.take("utility", 13)
			s.codes(13, 1)
		}, false},
		"its slot was free": {4, free, func(s *scene) {
			held(s)
			s.take("utility", 12.2)
			s.codes(13, 2)
		}, true},
		"who goes has waited for as long, unseen": {3, free, func(s *scene) {
			held(s)
			s.take("utility", 13)
			s.take("marketing", 13.1)
			s.start("next marketing", 14)
		}, false},
		"who goes has not": {3, free, func(s *scene) {
			held(s)
			s.take("utility", 13)
			s.take("marketing", 13.1)
			s.put("marketing of another", events.ClassMarketingUrgent, 2, 13.2)
			s.start("marketing of another", 14)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(ownedCalm, c.calls, c.pace)
			c.with(s)
			s.h.turnsOf(s.in)
			if got := len(s.h.found) > 0; got != c.found {
				t.Errorf("violations: %v", s.h.found)
			}
		})
	}
}
