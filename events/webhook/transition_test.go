package webhook_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/webhook"
)

func state(facts ...message.Fact) message.State {
	s := message.State{ID: "msg_1", Queued: &message.Queued{
		Position: events.Position{Partition: 1, Sequence: 7}, Instance: "inst1",
		Body: &events.MessageQueued{Environment: events.Live, CorrelationID: "cor_1", Origin: "ACME", SourceNumber: "5511888880000"},
	}}
	for _, f := range facts {
		f.At = at
		s.Record = s.Record.With(f)
	}
	return s
}

func TestDeliveryOfTransitions(t *testing.T) {
	t.Parallel()
	s := state(
		message.Fact{Seq: 8, Kind: message.KindStarted, Attempt: 1},
		message.Fact{Seq: 9, Kind: message.KindAccepted, Attempt: 1, GatewayID: "3EB0AA"},
		message.Fact{Seq: 10, Kind: message.KindDelivered},
		message.Fact{Seq: 11, Kind: message.KindSent},
		message.Fact{Seq: 12, Kind: message.KindDelivered},
		message.Fact{Seq: 13, Kind: message.KindRead, GatewayID: "3EB0AA"},
	)
	got := map[uint64]string{}
	for seq := uint64(7); seq < 16; seq++ {
		if c, ok := webhook.At(s, seq); ok {
			d, ok := webhook.Delivery("ep1", s, c, true)
			if !ok {
				t.Fatalf("no delivery of the transition at %d", seq)
			}
			got[seq] = d.Event
		}
	}
	if diff := cmp.Diff(map[uint64]string{10: events.CustomerMessageDelivered, 13: events.CustomerMessageRead}, got); diff != "" {
		t.Errorf("customer events (-want +got):\n%s", diff)
	}
	c, _ := webhook.At(s, 10)
	d, _ := webhook.Delivery("ep1", s, c, true)
	want := delivery(events.StatusDelivered)
	want.Cause.Sequence = 10
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
}

func TestDeliveryDoesNotDependOnLaterFacts(t *testing.T) {
	t.Parallel()
	early := state(message.Fact{Seq: 8, Kind: message.KindStarted, Attempt: 1}, message.Fact{Seq: 9, Kind: message.KindSent})
	late := state(message.Fact{Seq: 8, Kind: message.KindStarted, Attempt: 1}, message.Fact{Seq: 9, Kind: message.KindSent},
		message.Fact{Seq: 10, Kind: message.KindProved, Attempt: 1, GatewayID: "3EB0BB"}, message.Fact{Seq: 11, Kind: message.KindRead})
	a, okA := webhook.At(early, 9)
	b, okB := webhook.At(late, 9)
	if diff := cmp.Diff(a, b); diff != "" || !okA || !okB {
		t.Errorf("the change differs (%t, %t):\n%s", okA, okB, diff)
	}
}

func TestCorrectionIsAnEventOfItsOwn(t *testing.T) {
	t.Parallel()
	s := state(message.Fact{Seq: 8, Kind: message.KindFailed}, message.Fact{Seq: 9, Kind: message.KindDelivered}, message.Fact{Seq: 10, Kind: message.KindFailed})
	failed, ok1 := webhook.At(s, 8)
	delivered, ok2 := webhook.At(s, 9)
	if _, again := webhook.At(s, 10); !ok1 || !ok2 || again || failed.Status != events.StatusFailed || delivered.Correction != 1 {
		t.Errorf("changes: %+v %t, %+v %t, third %t", failed, ok1, delivered, ok2, again)
	}
}

func TestNoDelivery(t *testing.T) {
	t.Parallel()
	for _, status := range []events.Status{events.StatusQueued, events.StatusCanceled} {
		if _, ok := webhook.Delivery("ep1", state(), webhook.Change{Transition: message.Transition{Status: status}}, true); ok {
			t.Errorf("%s is told to customers", status)
		}
	}
	s := state()
	s.Queued.Body = nil
	if _, ok := webhook.Delivery("ep1", s, webhook.Change{Transition: message.Transition{Status: events.StatusSent}}, true); ok {
		t.Error("a delivery was made of a message whose body is not known")
	}
}

func TestIDInput(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, in := range []string{
		webhook.IDInput("ep1", "msg_1", events.StatusSent, 0), webhook.IDInput("ep2", "msg_1", events.StatusSent, 0),
		webhook.IDInput("ep1", "msg_2", events.StatusSent, 0), webhook.IDInput("ep1", "msg_1", events.StatusRead, 0),
		webhook.IDInput("ep1", "msg_1", events.StatusSent, 1),
	} {
		if seen[in] {
			t.Errorf("%s comes twice", in)
		}
		seen[in] = true
	}
	if len(webhook.Names()) != 4 {
		t.Errorf("names: %v", webhook.Names())
	}
}
