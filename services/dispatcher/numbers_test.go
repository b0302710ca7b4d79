package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

func TestNumbersAreBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	n := newNumbers(time.Hour)
	for i := range maxNumbers {
		n.put(fmt.Sprintf("5511%09d", 900000000+i), resolved{number: "x", at: time.Now()})
	}
	first := fmt.Sprintf("5511%09d", 900000000)
	if _, ok := n.get(first); !ok { // and it is used now
		t.Fatal("the first is gone before it is full")
	}
	n.put("5521987654321", resolved{number: "y", at: time.Now()})
	if _, ok := n.get(first); !ok || len(n.seen) != maxNumbers || n.used.Len() != maxNumbers {
		t.Errorf("one that is used was let go; %d and %d are kept", len(n.seen), n.used.Len())
	}
	if _, ok := n.get(fmt.Sprintf("5511%09d", 900000001)); ok {
		t.Error("the one that was not used for longest is kept")
	}
	if r, ok := n.get("552187654321"); !ok || r.number != "y" {
		t.Error("the other spelling of a number is another number")
	}
	n.put("552187654321", resolved{number: "z", at: time.Now().Add(-time.Hour)})
	if _, ok := n.get("5521987654321"); ok || len(n.seen) != maxNumbers-1 {
		t.Error("what is older than its time is used")
	}
	n.forget(first)
	n.forget(first)
	if _, ok := n.get(first); ok || n.used.Len() != maxNumbers-2 {
		t.Error("what was forgotten is used")
	}
}

// C1 9, the ninth digit: a message goes to the form that is on WhatsApp, whichever was given; the check is asked once for both.
func TestC1NinthDigitGoesToTheFormThatIsThere(t *testing.T) {
	t.Parallel()
	const with, without = "5511988887777", "551188887777"
	for account, given := range map[string][]string{with: {with, without}, without: {without, with}} {
		t.Run(account, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, func(o *evolutionsim.Options) { o.Instances[0].Accounts = []string{account} })
			r.run(quick())
			asked := r.sim.Stats().Requests
			for i, g := range given {
				id := r.accept(order{text: "ninth", number: g})
				r.awaitStage(id, events.StageDispatched)
				if n := r.count(id, events.TypeEvidenceAnomaly); n != 0 {
					t.Errorf("%d anomalies for another form of the same number", n)
				}
				if i == 0 {
					asked = r.sim.Stats().Requests
				}
			}
			if n := r.sim.Stats().Requests - asked; n != 1 {
				t.Errorf("%d requests for a number that was resolved before", n)
			}
			for _, e := range r.sim.Ledger(evolutionsim.Filter{Text: "ninth"}).Entries {
				if e.JID != account+"@s.whatsapp.net" {
					t.Errorf("sent to %s", e.JID)
				}
			}
		})
	}
}

// A refusal is not remembered: a number that got WhatsApp a moment later is written to.
func TestARefusedNumberIsAskedForAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id, err := r.sim.AddFault(evolutionsim.Fault{
		Call: "whatsappNumbers", Kind: "answer", Status: 200, ContentType: "application/json",
		Body: `[{"jid":"5511988887777@s.whatsapp.net","exists":false,"number":"5511988887777"},{"jid":"551188887777@s.whatsapp.net","exists":false,"number":"551188887777"}]`,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.run(quick())
	if v := r.awaitStage(r.accept(order{text: "too early"}), events.StageFailed); v.ErrorCode != events.FailNotOnWhatsApp || v.Attempts != 0 || !v.Refunded {
		t.Errorf("%+v", v)
	}
	r.sim.RemoveFault(id)
	r.awaitStage(r.accept(order{text: "now it has"}), events.StageDispatched)
}

// An acceptance that names somebody else's number is an anomaly, and what was resolved is asked for again.
func TestWhatWentToSomebodyElseIsAskedForAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const foreign = "5519911112222@s.whatsapp.net"
	d, _ := r.run(quick())
	r.awaitStage(r.accept(order{text: "resolved"}), events.StageDispatched)
	r.fault(evolutionsim.Fault{Kind: "misroute", JID: foreign, TextContains: "astray", Times: 1})
	astray := r.accept(order{text: "astray"})
	r.awaitStage(astray, events.StageDispatched)
	eventually(t, "anomaly", func() bool { return r.count(astray, events.TypeEvidenceAnomaly) == 1 }, func() string { return r.story(astray) })
	before := r.sim.Stats().Requests
	r.awaitStage(r.accept(order{text: "afterwards"}), events.StageDispatched)
	if n := r.sim.Stats().Requests - before; n != 2 {
		t.Errorf("%d requests: the number is not asked for again", n)
	}
	for _, text := range []string{"resolved", "afterwards"} {
		for _, e := range r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries {
			if e.JID != number+"@s.whatsapp.net" {
				t.Errorf("%s was sent to %s", text, e.JID)
			}
		}
	}
	if n := testutil.ToFloat64(d.metrics.foreign.WithLabelValues("left")); n != 1 {
		t.Errorf("%v counted", n)
	}
}

// A LID that the check gives, or an address that is no number, says nothing of who would get the message: it is sent as given.
func TestALIDHoldsNothingBack(t *testing.T) {
	t.Parallel()
	for _, jid := range []string{"123456789012345@lid", "5511988887777@s.whatsapp.net@s.whatsapp.net"} {
		r := newRig(t)
		r.fault(evolutionsim.Fault{
			Call: "whatsappNumbers", Kind: "answer", Status: 200, ContentType: "application/json",
			Body: `[{"jid":"` + jid + `","exists":true,"number":"5511988887777"}]`,
		})
		r.run(quick())
		id := r.accept(order{text: "as given"})
		r.awaitStage(id, events.StageDispatched)
		if n := r.count(id, events.TypeEvidenceAnomaly); n != 0 {
			t.Errorf("%s: %d anomalies", jid, n)
		}
	}
}

// The other spelling of a Mexican or Argentine mobile is no stranger.
func TestC1MexicanAndArgentineSpellingsLeave(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(quick())
	for given, want := range map[string]string{"5215512345678": "525512345678", "5491112345678": "541112345678"} {
		id := r.accept(order{text: given, number: given})
		r.awaitStage(id, events.StageDispatched)
		if n := r.count(id, events.TypeEvidenceAnomaly); n != 0 {
			t.Errorf("%s: %d anomalies", given, n)
		}
		if e := r.sim.Ledger(evolutionsim.Filter{Text: given}).Entries; len(e) != 1 || e[0].JID != want+"@s.whatsapp.net" {
			t.Errorf("%s left as %+v", given, e)
		}
	}
}
