package dispatcher

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
)

// A suspended tenant waits while others go on; released, it goes on too. What is over meanwhile ends in time.
func TestSuspendedTenantWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	suspend := func(yes bool) {
		r.catalog.apply(events.KindTenant, tenant, &events.Defined[events.Tenant]{Value: events.Tenant{ID: tenant, Suspended: yes}})
	}
	suspend(true)
	r.run(quick())
	held := r.accept(order{text: "held"})
	over := r.accept(order{text: "over", window: 700 * time.Millisecond})
	other := r.accept(order{text: "other", tenant: "rival"})
	r.awaitStage(other, events.StageDispatched)
	if v := r.awaitStage(over, events.StageFailed); v.ErrorCode != events.FailExpired {
		t.Errorf("ended as %+v", v)
	}
	if r.count(held, events.TypeDispatchStarted) != 0 {
		t.Errorf("a message of a suspended tenant was begun: %s", r.story(held))
	}
	suspend(false)
	r.awaitStage(held, events.StageDispatched)
	if r.ledger("over") != 0 || r.ledger("held") != 1 {
		t.Errorf("ledger: over %d, held %d", r.ledger("over"), r.ledger("held"))
	}
}

// Promise P6 over the whole way: an OTP leaves before a backlog of MARKETING, and tenants take turns by the weights of their plans, which
// change while it runs.
func TestChoiceOverTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plan := func(weight int) {
		r.catalog.apply(events.KindPlan, "big", &events.Defined[events.Plan]{Value: events.Plan{ID: "big", Weight: weight}})
	}
	plan(3)
	r.catalog.apply(events.KindTenant, tenant, &events.Defined[events.Tenant]{Value: events.Tenant{ID: tenant, PlanID: "big"}})
	r.catalog.apply(events.KindTenant, "rival", &events.Defined[events.Tenant]{Value: events.Tenant{ID: "rival"}})
	r.instanceEvent(events.TypeInstancePaused, "paused")
	for range 20 {
		r.accept(order{text: "bulk", class: events.ClassMarketing})
	}
	for range 10 {
		r.accept(order{text: "rival bulk", class: events.ClassMarketing, tenant: "rival"})
	}
	otp := r.accept(order{text: "code", tenant: "rival"})
	r.run(quick())
	r.instanceEvent(events.TypeInstanceResumed, "resumed")
	begun := func() (tenants []string) {
		for _, rec := range r.history() {
			if rec.Type == events.TypeDispatchStarted {
				tenants = append(tenants, rec.TenantID)
				if len(tenants) == 1 && rec.Subject != otp {
					t.Fatalf("%s was first, not the OTP %s", rec.Subject, otp)
				}
			}
		}
		return tenants
	}
	eventually(t, "all have left", func() bool { return len(begun()) == 31 }, func() string { return "" })
	mine := 0
	for _, name := range begun()[1:13] { // three rounds
		if name == tenant {
			mine++
		}
	}
	if mine != 9 {
		t.Errorf("%d of 12 turns for a weight of 3 beside 1: %v", mine, begun())
	}
	plan(1)
	if d := New(Config{Catalog: r.catalog}); d.set.Rules.Weight(tenant) != 1 || d.set.Rules.Weight("rival") != 0 || d.set.Rules.Weight("nobody") != 0 {
		t.Error("weights are not those of the plans as they are now")
	}
}

// An operator stops sending for all, and lets it go on.
func TestStopForAllHoldsEveryStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stop := func(yes bool) {
		r.catalog.apply(events.KindPlatform, events.PlatformID, &events.Defined[events.Platform]{Value: events.Platform{Stopped: yes}})
	}
	stop(true)
	r.run(quick())
	held := r.accept(order{text: "held"})
	over := r.accept(order{text: "over", window: 700 * time.Millisecond})
	r.awaitStage(over, events.StageFailed)
	if r.count(held, events.TypeDispatchStarted) != 0 {
		t.Error("a message was begun")
	}
	stop(false)
	r.awaitStage(held, events.StageDispatched)
}

// Who opted out after a message was accepted is not written to any more.
func TestOptOutEndsWhatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := events.OptOutID(tenant, "hash-1")
	r.catalog.apply(events.KindOptOut, id, &events.Defined[events.OptOut]{Value: events.OptOut{ID: id, TenantID: tenant, RecipientHash: "hash-1"}})
	out := r.accept(order{text: "out", recipient: "hash-1"})
	in := r.accept(order{text: "in", recipient: "hash-2"})
	elsewhere := r.accept(order{text: "elsewhere", recipient: "hash-1", tenant: "rival"})
	r.run(quick())
	if v := r.awaitStage(out, events.StageFailed); v.ErrorCode != events.FailOptedOut || v.Presumed || !v.Refunded {
		t.Errorf("ended as %+v", v)
	}
	r.awaitStage(in, events.StageDispatched)
	r.awaitStage(elsewhere, events.StageDispatched)
	if r.ledger("out") != 0 {
		t.Error("it was sent")
	}
}
