package dispatcher

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/evolutionsim"
)

func TestAcceptedMessageIsDispatchedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(quick())
	id := r.accept(order{text: "hello one"})
	v := r.awaitStage(id, events.StageDispatched)
	if v.GatewayID == "" || r.called(id) != 1 || r.ledger("hello one") != 1 {
		t.Fatalf("view %+v, ledger %d", v, r.ledger("hello one"))
	}
}

func TestButtonsAreSentAsButtons(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(quick())
	id := r.accept(order{content: &template.Content{
		Body: "Your order is ready.\nPick it up.", Footer: "Acme", Buttons: []template.RenderedButton{{Type: template.QuickReply, Text: "OK"}},
	}})
	r.awaitStage(id, events.StageDispatched)
	e := r.sim.Ledger(evolutionsim.Filter{}).Entries
	if len(e) != 1 || e[0].Call != "sendButtons" || e[0].Text == "" {
		t.Fatalf("ledger %+v", e)
	}
}

// C1 2, 3: the gateway takes the message and never answers, or answers after we gave up.
func TestC1HangAfterAcceptIsProvedByLookUpNeverSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "hang", When: "after", TextContains: "hangs", Times: 1})
	set := quick()
	set.Budget, set.CallLimit = time.Second, 2*time.Second
	r.run(set)
	id := r.accept(order{text: "this hangs"})
	v := r.awaitStage(id, events.StageDispatched)
	if v.GatewayID == "" || r.count(id, events.TypeDispatchUnknown) != 1 || r.count(id, events.TypeDispatchProved) != 1 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
	if n := r.ledger("this hangs"); n != 1 {
		t.Fatalf("ledger %d", n)
	}
}

// Fault catalogue G8: reset after the gateway took it, on a kept-alive connection.
func TestG8ResetAfterAcceptIsProvedByLookUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(quick())
	r.awaitStage(r.accept(order{text: "first, keeps the connection"}), events.StageDispatched)
	r.fault(evolutionsim.Fault{Kind: "reset", When: "after", TextContains: "reset", Times: 1})
	id := r.accept(order{text: "reset me"})
	r.awaitStage(id, events.StageDispatched)
	if n := r.ledger("reset me"); n != 1 {
		t.Fatalf("ledger %d", n)
	}
}

// C1 8: sent, then the gateway's insert fails: 400 and no row. It ends presumed, without a second send.
func TestC1SentBut400WithoutARowEndsPresumed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "unsaved", TextContains: "unsaved", Times: 1})
	r.run(quick())
	id := r.accept(order{text: "unsaved one", window: 3 * time.Second})
	r.awaitUnknown(id)
	v := r.awaitStage(id, events.StageFailed)
	if v.ErrorCode != events.FailDeliveryTimeout || !v.Presumed || r.ledger("unsaved one") != 1 || r.called(id) != 1 {
		t.Fatalf("view %+v, ledger %d\n%s", v, r.ledger("unsaved one"), r.story(id))
	}
}

// C1 15: a 201 without a key id is an acceptance; the look-up binds it, nothing is sent again.
func TestC1EmptyAcceptanceIsBoundByLookUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "answer", When: "after", Status: 201, Body: "", TextContains: "no id", Times: 1})
	r.run(quick())
	id := r.accept(order{text: "no id here"})
	v := r.await(id, "a gateway id", func(v message.View) bool { return v.GatewayID != "" })
	if v.Stage != events.StageDispatched || r.ledger("no id here") != 1 || r.count(id, events.TypeDispatchUnknown) != 0 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

// C1 9: not on WhatsApp is final, once both forms of the number are refused.
func TestC1NumberNotOnWhatsApp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	missing := "5521911112222"
	if err := r.sim.ChangeInstance(simName, evolutionsim.Change{Missing: []string{missing}}); err != nil {
		t.Fatal(err)
	}
	r.run(quick())
	id := r.accept(order{number: missing, text: "to nobody"})
	v := r.awaitStage(id, events.StageFailed)
	if v.ErrorCode != events.FailNotOnWhatsApp || v.Presumed || r.ledger("to nobody") != 0 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

// C1 5: a definite "not sent" is tried again, as attempt 2.
func TestC1DeferredIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 500, Body: `{"status":500,"error":"Internal Server Error","response":{"message":"Connection Closed"}}`,
		ContentType: "application/json", TextContains: "again", Times: 2,
	})
	r.run(quick())
	id := r.accept(order{text: "try again"})
	v := r.awaitStage(id, events.StageDispatched)
	if v.Attempts != 3 || r.ledger("try again") != 1 {
		t.Fatalf("view %+v, ledger %d\n%s", v, r.ledger("try again"), r.story(id))
	}
}

func TestAttemptsExhausted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 500, ContentType: "application/json",
		Body: `{"status":500,"error":"Internal Server Error","response":{"message":"Cannot read properties of undefined (reading 'find')"}}`,
	})
	set := quick()
	set.Rules.Attempts = map[events.Category]int{events.OTP: 3}
	r.run(set)
	v := r.awaitStage(r.accept(order{text: "never"}), events.StageFailed)
	if v.ErrorCode != events.FailAttemptsExhausted || v.Attempts != 3 || v.Presumed {
		t.Fatalf("view %+v", v)
	}
}

func TestRefusedIsFinal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 400, Body: `{"status":400,"error":"Bad Request","response":{"message":["Text is required"]}}`,
		ContentType: "application/json",
	})
	r.run(quick())
	v := r.awaitStage(r.accept(order{text: "x"}), events.StageFailed)
	if v.ErrorCode != events.FailGatewayRejected || v.Attempts != 1 {
		t.Fatalf("view %+v", v)
	}
}

func TestExpiresWhileTheInstanceIsPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	r.run(quick())
	id := r.accept(order{text: "too late", window: 400 * time.Millisecond})
	v := r.awaitStage(id, events.StageFailed)
	if v.ErrorCode != events.FailExpired || r.ledger("too late") != 0 {
		t.Fatalf("view %+v", v)
	}
	s, _ := r.state(id)
	if late := v.FailedAt.Sub(s.Queued.DeliverUntil); late < 0 || late > 5*time.Second {
		t.Fatalf("ended %s after the deadline", late)
	}
	next := r.accept(order{text: "after the pause"})
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(next, events.StageDispatched)
}

func TestScheduledIsNeverEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(quick())
	at := time.Now().Add(700 * time.Millisecond)
	id := r.accept(order{text: "later", deliverAt: at})
	now := r.accept(order{text: "now"})
	r.awaitStage(now, events.StageDispatched)
	r.awaitStage(id, events.StageDispatched)
	e := r.sim.Ledger(evolutionsim.Filter{Text: "later"}).Entries
	if len(e) != 1 || e[0].StartedAt.Before(at) {
		t.Fatalf("sent at %v, due %v", e, at)
	}
}

// C1 11: an unknown instance parks; messages wait, and leave once a probe finds it open.
func TestC1UnknownInstanceParksAndResumesByProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.name = "unknown"
	r.catalog.define(r.instance())
	set := quick()
	set.SkipNumbers = true
	r.run(set)
	id := r.accept(order{text: "wait for it"})
	eventually(t, "parked", func() bool {
		for _, rec := range r.history() {
			if rec.Type == events.TypeInstanceParked {
				return true
			}
		}
		return false
	}, nil)
	if err := r.sim.AddInstance(evolutionsim.Instance{Name: "unknown", Number: "5511900000001", State: "open"}); err != nil {
		t.Fatal(err)
	}
	v := r.awaitStage(id, events.StageDispatched)
	if r.ledger("wait for it") != 1 || v.Attempts < 2 {
		t.Fatalf("view %+v", v)
	}
}

// Fault catalogue D2, D3: an open start of another life is unknown after the successor's wait, then looked up; no blind send.
func TestR6R9OpenStartOfAnotherLife(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.accept(order{text: "half done", window: 3 * time.Second})
	ev := events.Event{
		Address: events.EventSubject(r.p, instanceID, events.GroupDispatch, "started"),
		Envelope: events.Envelope{
			ID: newID(), Type: events.TypeDispatchStarted, Source: source, Time: time.Now().UTC(), Subject: id, TenantID: tenant,
			Attempt: 1, Nonce: "another life", QueuedSeq: 1,
		},
		Body: &events.DispatchStarted{Call: "sendText"},
	}
	if _, err := r.log.AppendFenced(t.Context(), r.p, instanceID, ev, 0); err != nil {
		t.Fatal(err)
	}
	set := unowned()
	began := time.Now()
	r.run(set)
	r.awaitUnknown(id)
	if waited := time.Since(began); waited < set.SuccessorWait {
		t.Fatalf("called unknown after %s", waited)
	}
	v := r.awaitStage(id, events.StageFailed)
	if !v.Presumed || r.ledger("half done") != 0 {
		t.Fatalf("view %+v, ledger %d", v, r.ledger("half done"))
	}
}

// Promise P5 without the lease: two dispatchers that both believe to own the instance never call twice, and never overlap.
func TestR1TwoDispatchersThatBothLeadCallOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := quick(), quick()
	two.ID = "d2"
	d1, _ := r.run(one)
	d2, _ := r.runAstray(two)
	awaitOwner(t, d1)
	awaitOwner(t, d2)
	const n = 40
	ids := make([]string, n)
	for i := range ids {
		ids[i] = r.accept(order{text: "both lead", class: events.ClassUtility})
	}
	eventually(t, "all dispatched", func() bool { return r.ledger("both lead") >= n }, nil)
	if !d1.owns(instanceID) || !d2.owns(instanceID) {
		t.Error("one of them gave way: nothing was tried")
	}
	for _, id := range ids {
		if v := r.awaitStage(id, events.StageDispatched); v.Attempts != 1 && r.count(id, events.TypeDispatchAccepted) != 1 {
			t.Fatalf("view %+v\n%s", v, r.story(id))
		}
	}
	report := r.sim.Ledger(evolutionsim.Filter{})
	if report.Total != n || report.MaxInFlight[simName] > 1 {
		t.Fatalf("%d sends for %d messages, %d at once", report.Total, n, report.MaxInFlight[simName])
	}
}

func TestRestartSendsWhatIsPendingOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	_, stop := r.run(quick())
	var ids []string
	for range 20 {
		ids = append(ids, r.accept(order{text: "pending"}))
	}
	stop()
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.run(quick())
	for _, id := range ids {
		r.awaitStage(id, events.StageDispatched)
	}
	if n := r.ledger("pending"); n != len(ids) {
		t.Fatalf("ledger %d", n)
	}
}

func TestOTPOvertakesMarketing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.instanceEvent(events.TypeInstancePaused, "paused")
	r.run(quick())
	var last string
	for range 30 {
		last = r.accept(order{text: "sale", class: events.ClassMarketing})
	}
	otp := r.accept(order{text: "code", class: events.ClassOTP})
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	r.awaitStage(last, events.StageDispatched)
	r.awaitStage(otp, events.StageDispatched)
	if e := r.sim.Ledger(evolutionsim.Filter{}).Entries; e[0].Text != "code" {
		t.Fatalf("first sent was %q", e[0].Text)
	}
}
