package dispatcher

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// C1 8, sent but 400: the message left, its row was never stored and the answer is a 400. The look-ups find nothing for as long as they
// may, absence is never recorded, and nothing is sent again.
func TestC1SentBut400IsNeverAbsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(doubting())
	r.savesFirst()
	r.fault(evolutionsim.Fault{Kind: "unsaved", TextContains: "no row", Times: 1})
	id := r.accept(order{text: "no row", class: events.ClassUtility, window: 3 * time.Second})
	v := r.awaitStage(id, events.StageFailed)
	if !v.Presumed || r.called(id) != 1 || r.ledger("no row") != 1 || len(r.absences(id)) != 0 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

// C1 23, LID: a number check that answers with a LID resolves nothing, and a row under one is nobody's proof: the message goes to the
// digits, is not bound by the LID, and is not sent again while such a row is there.
func TestC1ALIDNeitherSendsNorBinds(t *testing.T) {
	t.Parallel()
	const lid = "123456789012345@lid"
	r := newRigWith(t, func(o *evolutionsim.Options) { o.Instances[0].LIDs = map[string]string{number: lid} })
	r.run(doubting())
	r.savesFirst()
	// Stored under the LID, by a send whose answer is lost.
	r.fault(evolutionsim.Fault{Kind: "misroute", JID: lid, TextContains: "under a lid", Times: 1})
	r.fault(evolutionsim.Fault{Kind: "hang", When: "after", TextContains: "under a lid", Times: 1})
	id := r.accept(order{text: "under a lid", class: events.ClassUtility, window: 3 * time.Second})
	v := r.awaitStage(id, events.StageFailed)
	if !v.Presumed || r.called(id) != 1 || v.GatewayID != "" || len(r.absences(id)) != 0 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
	// A check that knows the number by its LID only.
	const other = "5511977776666"
	r.fault(evolutionsim.Fault{Call: "whatsappNumbers", Kind: "misroute", JID: lid})
	r.awaitStage(r.accept(order{text: "to digits", number: other}), events.StageDispatched)
	for _, e := range r.sim.Ledger(evolutionsim.Filter{}).Entries {
		if e.Number != number && e.Number != other {
			t.Errorf("sent to %s", e.Number)
		}
	}
}

// Ninth digit: what the gateway stored under the other form of the number is found, whichever form was given and whether or not the
// number check answers.
func TestLookUpFindsBothNinthDigitForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, stored string }{
		"dropped by the gateway": {"5531988887777", "553188887777@s.whatsapp.net"},
		"added by WhatsApp":      {"551188887777", "5511988887777@s.whatsapp.net"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, func(o *evolutionsim.Options) { o.Instances[0].Accounts = []string{"5511988887777"} })
			r.run(doubting())
			for _, checked := range []bool{true, false} {
				text := map[bool]string{true: "checked", false: "unchecked"}[checked]
				if !checked {
					r.fault(evolutionsim.Fault{Call: "whatsappNumbers", Kind: "answer", When: "before", Status: 400, Body: `{}`, ContentType: "application/json"})
				}
				r.fault(evolutionsim.Fault{Kind: "hang", When: "after", TextContains: text, Times: 1})
				id := r.accept(order{text: text, number: c.given})
				r.awaitStage(id, events.StageDispatched)
				entries := r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries
				if len(entries) < 1 || entries[len(entries)-1].JID != c.stored || r.count(id, events.TypeDispatchProved) != 1 {
					t.Fatalf("%s: left as %+v\n%s", text, entries, r.story(id))
				}
			}
		})
	}
}

// Cross-delivery: the answer names somebody else. It is an acceptance, never sent again, and an anomaly; a look-up by the chosen id
// finds it there too.
func TestCrossDeliveryIsAcceptedWithAnAnomaly(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, version24)
	r.run(doubting())
	for text, fault := range map[string]string{"answered": "", "unanswered": "hang"} {
		r.fault(evolutionsim.Fault{Kind: "misroute", JID: "5519988887777@s.whatsapp.net", TextContains: text, Times: 1})
		if fault != "" {
			r.fault(evolutionsim.Fault{Kind: fault, When: "after", TextContains: text, Times: 1})
		}
		id := r.accept(order{text: text})
		r.awaitStage(id, events.StageDispatched)
		eventually(t, "anomaly", func() bool { return r.count(id, events.TypeEvidenceAnomaly) == 1 }, func() string { return r.story(id) })
		if n := len(r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries); n == 0 || r.called(id) != 1 {
			t.Fatalf("%s left %d times\n%s", text, n, r.story(id))
		}
	}
}

// C1 3: our limit is over, the answer would have come a moment later and the message was delivered: exactly one on the phone.
func TestC1AnswerAfterOurLimitIsProved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(doubting())
	r.fault(evolutionsim.Fault{Kind: "delay", When: "after", DelayMS: 600, TextContains: "a moment late", Times: 1})
	id := r.accept(order{text: "a moment late", class: events.ClassMarketing})
	r.awaitStage(id, events.StageDispatched)
	if r.ledger("a moment late") != 1 || r.called(id) != 1 {
		t.Fatalf("left %d times\n%s", r.ledger("a moment late"), r.story(id))
	}
}

// C1 6, 7: 400 and 500 with the words in a list come from the send itself: verified, never sent again for them. The 500 alone may be
// found absent.
func TestC1ErrorsOfTheSendItselfAreVerified(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(doubting())
	r.savesFirst()
	for text, c := range map[string]struct{ status, attempts int }{"four hundred": {400, 1}, "five hundred": {500, 2}} {
		r.fault(evolutionsim.Fault{
			Kind: "answer", When: "before", Status: c.status, ContentType: "application/json", TextContains: text, Times: 1,
			Body: `{"status":0,"error":"Error","response":{"message":["Error: Connection Closed"]}}`,
		})
		want, window := events.StageFailed, 3*time.Second
		if c.attempts > 1 {
			want, window = events.StageDispatched, time.Minute // its absence has to be seen, however long that takes
		}
		id := r.accept(order{text: text, class: events.ClassUtility, window: window})
		if v := r.awaitStage(id, want); r.called(id) != c.attempts || r.ledger(text) != c.attempts-1 {
			t.Fatalf("view %+v\n%s", v, r.story(id))
		}
	}
}
