package dispatcher

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/absence"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/evolutionsim"
)

// doubting are settings under which absence comes within a second or two.
func doubting() Settings {
	set := quick()
	set.CallLimit, set.Budget = 300*time.Millisecond, 250*time.Millisecond
	set.LookUps = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}
	set.LookUpMax = 200 * time.Millisecond
	set.Absence = absence.Rules{After: 800 * time.Millisecond, Apart: 200 * time.Millisecond}
	return set
}

// savesFirst makes the dispatcher know that the gateway saves: one message has left.
func (r *rig) savesFirst() {
	r.t.Helper()
	r.awaitStage(r.accept(order{text: "known", class: events.ClassUtility}), events.StageDispatched)
}

// swallowed is a fault under which a send gets no answer and never leaves.
func swallowed(text string) evolutionsim.Fault {
	return evolutionsim.Fault{Kind: "hang", When: "before", TextContains: text, Times: 1}
}

// absences gives what the log says of the absence of a message's attempts.
func (r *rig) absences(id string) (out []*events.DispatchAbsent) {
	for _, rec := range r.history() {
		if b, ok := rec.Body.(*events.DispatchAbsent); ok && rec.Subject == id {
			out = append(out, b)
		}
	}
	return out
}

// C1 2: no answer and no trace. Once its absence is proved, UTILITY and MARKETING are sent once more; OTP never is.
func TestC1AbsencePermitsAnotherAttemptByPolicy(t *testing.T) {
	t.Parallel()
	for class, again := range map[events.Class]bool{events.ClassUtility: true, events.ClassMarketing: true, events.ClassOTP: false} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.run(doubting())
			r.savesFirst()
			r.fault(swallowed("swallowed"))
			want, starts, window := events.StageDispatched, 2, time.Minute
			if !again {
				want, starts, window = events.StageFailed, 1, 6*time.Second // in which its absence is seen
			}
			id := r.accept(order{text: "swallowed", class: class, window: window})
			v := r.awaitStage(id, want)
			if r.called(id) != starts || r.ledger("swallowed") != starts-1 || v.Presumed == again {
				t.Fatalf("view %+v\n%s", v, r.story(id))
			}
			found := r.absences(id)
			if len(found) != 1 || found[0].FirstMS < 800 || found[0].LastMS-found[0].FirstMS < 200 || found[0].Count != 0 {
				t.Fatalf("absent: %+v\n%s", found, r.story(id))
			}
		})
	}
}

// Each condition of an absence, missing, keeps the message from being sent again: it ends presumed after one attempt.
func TestNoAbsenceWithoutEveryCondition(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) func(*rig) {
		return func(r *rig) {
			r.fault(evolutionsim.Fault{
				Kind: "answer", When: "before", Status: status, Body: body, ContentType: "application/json", TextContains: "doubtful", Times: 1,
			})
		}
	}
	hang := func(r *rig) { r.fault(swallowed("doubtful")) }
	connection := func(state string) func(*rig) {
		return func(r *rig) {
			if err := r.sim.ChangeInstance(simName, evolutionsim.Change{State: &state}); err != nil {
				r.t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		sim     func(*evolutionsim.Options)
		fault   func(*rig)
		unknown func(*rig) // once the attempt is unknown
		unsaved bool       // nothing is known to have left before
	}{
		"the answer was a 400":          {fault: answer(400, `{"status":400,"error":"Bad Request","response":{"message":["Error: Connection Closed"]}}`)},
		"the answer was a 408":          {fault: answer(408, ``)},
		"the gateway saves nothing":     {sim: func(o *evolutionsim.Options) { o.NoSaving = true }, fault: hang},
		"nothing is known to have left": {fault: hang, unsaved: true},
		"the socket closed and opened": {fault: hang, unknown: func(r *rig) {
			connection("connecting")(r)
			before := r.sim.Stats().Requests
			eventually(r.t, "a look-up", func() bool { return r.sim.Stats().Requests >= before+8 }, nil) // at least one asked for the state
			connection("open")(r)
		}},
		"the log says it opened": {fault: hang, unknown: func(r *rig) { r.instanceEvent(events.TypeInstanceOpened, "opened") }},
		"the gateway said it reconnects": {fault: hang, unknown: func(r *rig) {
			r.observed(events.GatewayObserved{Event: "connection.update", State: "connecting"})
		}},
		"the number is not resolved": {fault: func(r *rig) {
			hang(r)
			r.fault(evolutionsim.Fault{Call: "whatsappNumbers", Kind: "answer", When: "before", Status: 400, Body: `{}`, ContentType: "application/json"})
		}},
		"a row nobody explains": {fault: hang, unknown: func(r *rig) { r.strayText(number, "somebody else's") }},
		"the look-ups fail": {fault: func(r *rig) {
			hang(r)
			r.fault(evolutionsim.Fault{Call: "findMessages", Kind: "answer", When: "before", Status: 500, Body: `{}`, ContentType: "application/json"})
		}},
		"the state is not told": {fault: func(r *rig) {
			hang(r)
			r.fault(evolutionsim.Fault{Call: "connectionState", Kind: "reset", When: "before"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, c.sim)
			set := doubting()
			set.Absence = absence.Rules{After: 500 * time.Millisecond, Apart: 100 * time.Millisecond}
			r.run(set)
			if !c.unsaved {
				r.savesFirst()
			}
			c.fault(r)
			id := r.accept(order{text: "doubtful", class: events.ClassUtility, window: 3 * time.Second})
			r.awaitUnknown(id)
			if c.unknown != nil {
				c.unknown(r)
			}
			v := r.awaitStage(id, events.StageFailed)
			if !v.Presumed || r.called(id) != 1 || len(r.absences(id)) != 0 || r.ledger("doubtful") != 0 {
				t.Fatalf("view %+v\n%s", v, r.story(id))
			}
		})
	}
}

// observed stores what a gateway said, as the ingest does.
func (r *rig) observed(o events.GatewayObserved) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := r.log.Append(ctx, events.Event{
		Address:  events.ReceiptSubject(r.p, instanceID, o.Event),
		Envelope: events.Envelope{ID: uuid.NewString(), Type: events.TypeGatewayObserved, Source: "pilot/test", Time: time.Now().UTC()},
		Body:     &o,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// strayText lets the gateway send a text that is no message of ours.
func (r *rig) strayText(to, text string) {
	r.t.Helper()
	client, err := evolution.New(evolution.Config{BaseURL: r.sim.URL(), APIKey: r.sim.APIKey()})
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	res := client.SendText(r.t.Context(), evolution.Text{Instance: r.name, Number: to, Text: text, Check: func() error { return nil }})
	if res.GatewayID == "" {
		r.t.Fatal(res)
	}
}

// Late sends: an abandoned request waits inside the gateway and leaves after we gave up. Its row proves it: it is never sent again, and
// absence is not recorded however the look-ups before it fell out.
func TestC1AnAbandonedRequestThatLeavesLateIsNotSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := doubting()
	set.Absence.Apart = 3 * time.Second
	r.run(set)
	r.savesFirst()
	for _, late := range []int{400, 700, 2200} { // the last one leaves between the two counts, about 1 s and 4 s after its intent
		text := "late " + time.Duration(late).String()
		r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: late, TextContains: text, Times: 1})
		id := r.accept(order{text: text, class: events.ClassUtility})
		r.awaitStage(id, events.StageDispatched)
		if r.ledger(text) != 1 || r.called(id) != 1 || r.count(id, events.TypeDispatchProved) != 1 {
			t.Fatalf("after %d ms: left %d times\n%s", late, r.ledger(text), r.story(id))
		}
	}
}

// A row that appears after its attempt was called absent proves it, and blocks the attempt that absence had permitted.
func TestARowThatAppearsAfterAbsenceProvesAndBlocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := doubting()
	set.Absence.Apart = time.Second // in which the pause is stored and read
	r.run(set)
	r.savesFirst()
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 6000, TextContains: "very late", Times: 1}) // longer than any gateway holds one
	id := r.accept(order{text: "very late", class: events.ClassUtility})
	r.awaitUnknown(id)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	r.await(id, "absent", func(message.View) bool { return len(r.absences(id)) == 1 })
	r.awaitStage(id, events.StageDispatched)
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(r.accept(order{text: "the next", class: events.ClassUtility}), events.StageDispatched)
	if r.ledger("very late") != 1 || r.called(id) != 1 {
		t.Fatalf("left %d times\n%s", r.ledger("very late"), r.story(id))
	}
}

// Identical texts to one recipient: with fewer rows than unknown attempts, here none, none is re-sent; the same text to another
// recipient is another matter.
func TestIdenticalTextsAreNotSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := doubting()
	set.Absence = absence.Rules{After: 1500 * time.Millisecond, Apart: time.Second} // by then all have been tried
	r.run(set)
	r.savesFirst()
	f := swallowed("twin")
	f.Times = 3
	r.fault(f)
	window := 7 * time.Second
	one := r.accept(order{text: "twin", class: events.ClassUtility, window: window})
	two := r.accept(order{text: "twin", class: events.ClassUtility, window: window})
	other := r.accept(order{text: "twin", class: events.ClassUtility, number: "5511977776666"})
	r.awaitStage(other, events.StageDispatched)
	for _, id := range []string{one, two} {
		if v := r.awaitStage(id, events.StageFailed); !v.Presumed || r.called(id) != 1 || len(r.absences(id)) != 0 {
			t.Fatalf("view %+v\n%s", v, r.story(id))
		}
	}
	if n := r.ledger("twin"); n != 1 {
		t.Fatalf("left %d times", n)
	}
}

// C3 44, 55: a life that begins anew starts its counts anew, and an attempt whose owner died is never absent: nobody knows what was
// answered.
func TestC3CountsBeginAnewWithALife(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := doubting()
	set.Absence = absence.Rules{After: 300 * time.Millisecond, Apart: 4 * time.Second}
	_, stop := r.run(set)
	r.savesFirst()
	r.fault(swallowed("orphan"))
	id := r.accept(order{text: "orphan", class: events.ClassUtility})
	r.awaitUnknown(id)
	started := r.startedAt(id)
	eventually(t, "the first count is taken", func() bool { return time.Since(started) > time.Second }, nil)
	stop()
	begun := time.Now()
	r.run(set)
	r.awaitStage(id, events.StageDispatched)
	found := r.absences(id)
	if len(found) != 1 || time.Duration(found[0].FirstMS)*time.Millisecond < begun.Sub(started)-time.Second/10 || r.ledger("orphan") != 1 {
		t.Fatalf("the new life began %s after the intent: %+v\n%s", begun.Sub(started), found, r.story(id))
	}
}

func (r *rig) startedAt(id string) time.Time {
	s, _ := r.state(id)
	return s.Record.Summarize().Last().StartedAt
}

// C3 44: the owner of an attempt is gone, with whatever answer it had: never absent.
func TestC3AnAttemptOfAnotherLifeIsNeverAbsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := doubting()
	set.SuccessorWait = unowned().SuccessorWait
	_, stop := r.run(set)
	r.savesFirst()
	stop()
	id := r.accept(order{text: "gone", class: events.ClassUtility, window: 3 * time.Second})
	r.startOfAnother(id)
	r.run(set)
	if v := r.awaitStage(id, events.StageFailed); !v.Presumed || v.Attempts != 1 || len(r.absences(id)) != 0 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

// startOfAnother appends the first start of a message as another life would, and nothing after it.
func (r *rig) startOfAnother(id string) {
	r.t.Helper()
	history := r.history()
	ev := events.Event{
		Address: events.EventSubject(r.p, instanceID, events.GroupDispatch, "started"),
		Envelope: events.Envelope{
			ID: newID(), Type: events.TypeDispatchStarted, Source: source, Time: time.Now().UTC(), Subject: id, TenantID: tenant,
			Attempt: 1, Nonce: "another life",
		},
		Body: &events.DispatchStarted{Call: "sendText"},
	}
	var last uint64
	for _, rec := range history {
		if addr, err := events.ParseEventSubject(rec.Address); err == nil && addr.Group == events.GroupDispatch {
			last = rec.Position.Sequence
		}
		if rec.Type == events.TypeMessageQueued && rec.Subject == id {
			ev.QueuedSeq = rec.Position.Sequence
		}
	}
	if _, err := r.log.AppendFenced(r.t.Context(), r.p, instanceID, ev, last); err != nil {
		r.t.Fatal(err)
	}
}
