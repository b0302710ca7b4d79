package dispatcher

import (
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// On a shared number the same last message is not sent again, whoever is the dispatcher by then; a code is, and another text, and one of
// another tenant, and the same on an own number.
func TestTheSameLastMessageIsSuppressed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inst := r.instance()
	inst.Shared, inst.TenantID, inst.Pace = true, events.PlatformTenant, events.Pace{RatePerMinute: events.MaxBurst * 600}
	r.catalog.define(inst)
	_, stop := r.run(quick())
	utility := func(text string) order { return order{text: text, class: events.ClassUtility} }
	r.awaitStage(r.accept(utility("your order left.")), events.StageDispatched)
	stop()
	set := quick()
	set.ID = "next"
	r.run(set)
	again := r.accept(utility("your order left."))
	v := r.awaitStage(again, events.StageFailed)
	s, _ := r.state(again)
	if sum := s.Record.Summarize(); v.ErrorCode != events.FailDuplicateSuppressed || v.Presumed || v.Attempts != 0 || !sum.Refunded() {
		t.Fatalf("%+v\n%s", v, r.story(again))
	}
	stranger := utility("your order left.")
	stranger.tenant = "tenant-2"
	for _, o := range []order{stranger, utility("it is here."), utility("your order left."), {text: "1234"}, {text: "1234"}} {
		r.awaitStage(r.accept(o), events.StageDispatched)
	}
	if n := r.ledger("your order left."); n != 3 {
		t.Errorf("left %d times", n)
	}
	own := r.instance()
	r.catalog.define(own)
	r.awaitStage(r.accept(utility("your order left.")), events.StageDispatched)
}

// A first message that came to nothing suppresses nothing.
func TestWhatHadNoEffectSuppressesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inst := r.instance()
	inst.Shared, inst.TenantID, inst.Pace = true, events.PlatformTenant, events.Pace{RatePerMinute: events.MaxBurst * 600}
	r.catalog.define(inst)
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 413, Body: `{"status":413}`, ContentType: "application/json", TextContains: "hello", Times: 1,
	})
	r.run(quick())
	one := r.accept(order{text: "hello", class: events.ClassUtility})
	r.awaitStage(one, events.StageFailed)
	r.awaitStage(r.accept(order{text: "hello", class: events.ClassUtility}), events.StageDispatched)
}

// WhatsApp's ERROR makes a message FAILED, and its customer hears so: the same text is not suppressed then, whoever is the dispatcher by
// then. What arrived is, whatever else the gateway says of it.
func TestWhatFailedAtWhatsAppSuppressesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inst := r.instance()
	inst.Shared, inst.TenantID, inst.Pace = true, events.PlatformTenant, events.Pace{RatePerMinute: events.MaxBurst * 600}
	r.catalog.define(inst)
	_, stop := r.run(quick())
	send := func(text string) string { return r.accept(order{text: text, class: events.ClassUtility}) }
	receipt := func(id, typ, name string, b *events.Receipt) {
		r.about(id, typ, events.EventSubject(r.p, instanceID, events.GroupReceipt, name), b)
	}
	failed := func(id string) {
		receipt(id, events.TypeReceiptFailed, "failed", &events.Receipt{GatewayStatus: "ERROR", Code: events.FailGatewayRejected})
	}
	one := send("hello")
	r.awaitStage(one, events.StageDispatched)
	failed(one)
	again := send("hello")
	r.awaitStage(again, events.StageDispatched)
	failed(again)
	stop()
	set := quick()
	set.ID = "next"
	r.run(set)
	third := send("hello")
	r.awaitStage(third, events.StageDispatched)
	receipt(third, events.TypeReceiptDelivered, "delivered", &events.Receipt{GatewayStatus: "DELIVERY_ACK"})
	failed(third)
	if v := r.awaitStage(send("hello"), events.StageFailed); v.ErrorCode != events.FailDuplicateSuppressed {
		t.Fatalf("%+v", v)
	}
	if n := r.ledger("hello"); n != 3 {
		t.Errorf("left %d times", n)
	}
}
