package sim

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
)

// Of calls with one text in one moment the gateway's entry belongs to the one that fits best, whichever came first.
func TestWhatLeftIsBookedToTheCallThatFits(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	type attempt struct {
		state  message.AttemptState
		id     string // that it was answered with
		chosen string
	}
	unknown, deferred := attempt{state: message.AttemptUnknown}, attempt{state: message.AttemptDeferred}
	for name, c := range map[string]struct{ worse, better attempt }{
		"the id, before nobody knows":           {unknown, attempt{state: message.AttemptAccepted, id: "key"}},
		"an id that was asked for":              {unknown, attempt{state: message.AttemptUnknown, chosen: "key"}},
		"nobody knows, before no effect":        {deferred, unknown},
		"accepted without an id, and no effect": {attempt{state: message.AttemptDisproved}, attempt{state: message.AttemptAccepted}},
		"no effect, before another id":          {attempt{state: message.AttemptAccepted, id: "other"}, deferred},
	} {
		for _, first := range []bool{true, false} {
			h := &history{byCall: map[int]attemptKey{}, messages: map[string]*told{}, fenced: map[string][]events.Recorded{}, ledger: map[string][]ledgerEntry{}}
			add := func(id string, a attempt) {
				h.byCall[len(h.rec.Calls)] = attemptKey{id, 1}
				h.rec.Calls = append(h.rec.Calls, call{Instance: "inst-0", Text: "same-1", At: at})
				h.messages[id] = &told{sum: message.Summary{Attempts: []message.Attempt{{State: a.state, Chosen: a.chosen}}}}
				if a.state == message.AttemptAccepted {
					h.fenced["inst-0"] = append(h.fenced["inst-0"], events.Recorded{Event: events.Event{Envelope: events.Envelope{
						Type: events.TypeDispatchAccepted, Subject: id, Attempt: 1, GatewayID: a.id,
					}}})
				}
			}
			if first {
				add("better", c.better)
			}
			add("worse", c.worse)
			if !first {
				add("better", c.better)
			}
			h.book(evolutionsim.Entry{Instance: "inst-0", Text: "same-1", KeyID: "key", StartedAt: at}, map[int]bool{})
			if len(h.ledger["better"]) != 1 {
				t.Errorf("%s: booked as %v", name, h.ledger)
			}
		}
	}
}

// A call is of a start that the log does not deny a call, where one is open.
func TestACallIsOfAStartThatMayHaveMadeIt(t *testing.T) {
	t.Parallel()
	s := newScene(ownedCalm, 2, events.Pacing{})
	for _, id := range []string{"denied", "called"} {
		s.put(id, events.ClassOTP, 0, 0)
		s.h.messages[id].Text = "same-1"
		s.start(id, 1)
	}
	s.h.called[attemptKey{"called", 1}] = true
	c := call{Instance: s.in, Text: "same-1", Group: s.seq}
	if k, ok := s.h.openAt(c, map[attemptKey]int{}); !ok || k.message != "called" {
		t.Errorf("it is of %v", k)
	}
	s.take("called", 2)
	c.Group = s.seq
	if k, ok := s.h.openAt(c, map[attemptKey]int{}); !ok || k.message != "denied" {
		t.Errorf("where no other is open, it is of %v", k)
	}
}

// What is planned for the quiet end begins when all that breaks is over, however late that is.
func TestTheQuietEndWaitsForWhatBreaks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := &world{rec: &recorder{rec: recording{Began: now.Add(-time.Hour), Quiet: now}}, calmed: make(chan struct{})}
	w.fleet = newFleet(w)
	w.fleet.seats["left"] = &life{broken: now.Add(5 * time.Minute)}
	w.calmDown(time.Hour)
	if <-w.calmed; w.late != 5*time.Minute || !w.rec.rec.Quiet.Equal(now.Add(5*time.Minute)) {
		t.Errorf("it is %s late, and quiet from %s on", w.late, w.rec.rec.Quiet)
	}
}

// A gateway that is parked may be asked what became of messages, as often as there are some in doubt.
func TestLookUpsAreNoQuestions(t *testing.T) {
	t.Parallel()
	w := &world{rec: &recorder{rec: recording{Began: time.Now(), Asked: []map[int]int{{}}}}}
	tap := &gatewayTap{w: w, next: http.NotFoundHandler()}
	for _, path := range []string{"/chat/findMessages/inst-0", "/chat/findStatusMessage/inst-0", "/instance/connectionState/inst-0", "/chat/whatsappNumbers/inst-0"} {
		tap.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, http.NoBody))
	}
	if n := w.rec.rec.Asked[0][0]; n != 2 {
		t.Errorf("it was asked %d times, want 2", n)
	}
}

// However short a run is: what left last is told as not delivered, and a customer hears of it, before it ends.
func TestARunEndsWhenAllIsSaid(t *testing.T) {
	t.Parallel()
	for _, hours := range []int{1, 2, 3, 8, 24} {
		p := plan{Length: time.Duration(hours) * time.Hour}
		if after := p.latest() + p.settle(); after < silences.Delivery+silences.AskFor+20*time.Minute || p.settle() < 20*time.Minute {
			t.Errorf("a run of %d hours ends %s after the last message may have left", hours, after)
		}
	}
}
