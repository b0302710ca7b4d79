package dispatcher

import (
	"net/http"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
)

func version24(o *evolutionsim.Options) { o.Version = "2.4.0" }

// chosen gives the gateway id that the newest attempt of a message asked for.
func (r *rig) chosen(id string) string {
	s, _ := r.state(id)
	return s.Record.Summarize().Last().Chosen
}

// Chosen ids: a gateway from 2.4 on is told the id, which stands in the log before the call; an older one and buttons are not.
func TestChosenIDStandsInTheLogBeforeTheCall(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"2.3.7": false, "2.4.0": true} {
		r := newRigWith(t, func(o *evolutionsim.Options) { o.Version = version })
		r.run(quick())
		id := r.accept(order{text: "mine"})
		v := r.awaitStage(id, events.StageDispatched)
		chosen, entries := r.chosen(id), r.sim.Ledger(evolutionsim.Filter{Text: "mine"}).Entries
		if (chosen != "") != want || len(entries) != 1 || v.GatewayID != entries[0].KeyID || want && chosen != v.GatewayID {
			t.Errorf("%s: chosen %q, bound %q, left as %+v", version, chosen, v.GatewayID, entries)
		}
	}
}

// An attempt that is unknown is found by the id it chose, also where its text cannot tell: two with the same text, of which one left.
func TestChosenIDTellsIdenticalTextsApart(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, version24)
	set := doubting()
	set.LookUps = []time.Duration{800 * time.Millisecond} // both are unknown by then
	set.Rules.Quiet = time.Millisecond
	r.run(set)
	r.fault(swallowed("twin"))
	gone := r.accept(order{text: "twin", window: 3 * time.Second})
	r.awaitUnknown(gone)
	r.fault(evolutionsim.Fault{Kind: "hang", When: "after", TextContains: "twin", Times: 1})
	left := r.accept(order{text: "twin"})
	v := r.awaitStage(left, events.StageDispatched)
	if v.GatewayID != r.chosen(left) || r.count(left, events.TypeDispatchProved) != 1 {
		t.Fatalf("view %+v\n%s", v, r.story(left))
	}
	if v := r.awaitStage(gone, events.StageFailed); !v.Presumed || v.GatewayID != "" || r.ledger("twin") != 1 {
		t.Fatalf("view %+v\n%s", v, r.story(gone))
	}
}

// C1 15: a 201 with an empty body, where the id was chosen: a look-up finds it under that id.
func TestC1EmptyAcceptanceIsBoundByItsChosenID(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, version24)
	r.fault(evolutionsim.Fault{Kind: "answer", When: "after", Status: http.StatusCreated, TextContains: "empty", Times: 1})
	r.run(doubting())
	id := r.accept(order{text: "empty"})
	if v := r.awaitBound(id); v.GatewayID != r.chosen(id) || v.GatewayID != r.keyOf("empty") || r.ledger("empty") != 1 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

// The same of a gateway that ignores the id it is told: the message is bound to the one it left under, not to one that nobody used.
func TestC1EmptyAcceptanceUnderAnotherIDIsBoundByThat(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, version24)
	r.fault(evolutionsim.Fault{Kind: "renamed", TextContains: "empty", Times: 1})
	r.fault(evolutionsim.Fault{Kind: "answer", When: "after", Status: http.StatusOK, Body: "{}", TextContains: "empty", Times: 1})
	r.run(doubting())
	id := r.accept(order{text: "empty"})
	if v := r.awaitBound(id); v.GatewayID == r.chosen(id) || v.GatewayID != r.keyOf("empty") || r.ledger("empty") != 1 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

// awaitBound waits until the gateway id of a message is known.
func (r *rig) awaitBound(id string) (v message.View) {
	r.t.Helper()
	eventually(r.t, "it is bound", func() bool {
		_, v = r.state(id)
		return v.GatewayID != ""
	}, func() string { return r.story(id) })
	return v
}

// keyOf gives the id under which a text left.
func (r *rig) keyOf(text string) string {
	return r.sim.Ledger(evolutionsim.Filter{Text: text}).Entries[0].KeyID
}

// Several gateway ids for one message: the gateway answers with another id than it was told. The log has both.
func TestTwoGatewayIDsOfOneMessageStandInTheLog(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, version24)
	r.fault(evolutionsim.Fault{Kind: "renamed", TextContains: "renamed", Times: 1})
	r.run(quick())
	id := r.accept(order{text: "renamed"})
	v := r.awaitStage(id, events.StageDispatched)
	if chosen := r.chosen(id); chosen == "" || chosen == v.GatewayID || v.GatewayID != r.sim.Ledger(evolutionsim.Filter{Text: "renamed"}).Entries[0].KeyID {
		t.Fatalf("chosen %q, bound %q", chosen, v.GatewayID)
	}
}

// A gateway that is told an id, ignores it and gives no answer: found by its text all the same.
func TestIgnoredChosenIDIsFoundByText(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, version24)
	r.fault(evolutionsim.Fault{Kind: "renamed", TextContains: "renamed", Times: 1})
	r.fault(evolutionsim.Fault{Kind: "hang", When: "after", TextContains: "renamed", Times: 1})
	r.run(doubting())
	id := r.accept(order{text: "renamed"})
	v := r.awaitStage(id, events.StageDispatched)
	if v.GatewayID != r.sim.Ledger(evolutionsim.Filter{Text: "renamed"}).Entries[0].KeyID || r.count(id, events.TypeDispatchProved) != 1 {
		t.Fatalf("view %+v\n%s", v, r.story(id))
	}
}

// Every attempt chooses an id of its own.
func TestEachAttemptChoosesAnew(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, version24)
	r.run(doubting())
	r.savesFirst()
	r.fault(swallowed("again"))
	id := r.accept(order{text: "again", class: events.ClassUtility})
	r.awaitStage(id, events.StageDispatched)
	s, v := r.state(id)
	at := s.Record.Summarize().Attempts
	if len(at) != 2 || at[0].Chosen == "" || at[0].Chosen == at[1].Chosen || v.GatewayID != at[1].Chosen {
		t.Fatalf("%+v, bound %q", at, v.GatewayID)
	}
}
