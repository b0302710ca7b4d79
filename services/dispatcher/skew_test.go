package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// hidden is a fault under which a send leaves and gets no answer.
func hidden(text string) evolutionsim.Fault {
	return evolutionsim.Fault{Kind: "hang", When: "after", TextContains: text, Times: 1}
}

// C1 2: what a gateway stores at times of its own that are off is not absent, whether its clock was off before the last message that is
// known to have left, or is since. So it leaves once.
func TestC1AGatewayWhoseClockIsOffMakesNothingAbsent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		off    time.Duration
		before bool // the last message that is known to have left
	}{
		{-8 * time.Second, false},
		{-8 * time.Second, true},
		{8 * time.Second, false},
		{-50 * time.Minute, false},
		{50 * time.Minute, true},
		{-26 * time.Hour, true},
		{26 * time.Hour, true},
	} {
		t.Run(fmt.Sprintf("%s, before %v", c.off, c.before), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.run(doubting())
			off := func() {
				ms := c.off.Milliseconds()
				if err := r.sim.ChangeGateway(evolutionsim.GatewayChange{ClockOffMS: &ms}); err != nil {
					t.Fatal(err)
				}
			}
			if c.before {
				off()
			}
			r.savesFirst()
			off()
			r.fault(hidden("swallowed"))
			id := r.accept(order{text: "swallowed", class: events.ClassUtility, window: 4 * time.Second})
			over := func() bool {
				s, _ := r.state(id)
				return s.View().Stage == events.StageFailed || s.View().Stage == events.StageDispatched // found, once our clock is there
			}
			eventually(t, "over", over, func() string { return r.story(id) })
			if n := r.ledger("swallowed"); n != 1 || len(r.absences(id)) != 0 {
				t.Errorf("left %d times\n%s", n, r.story(id))
			}
		})
	}
}

// An instance that is moved to another gateway while an attempt has no answer: what the new one does not show may have left by the old one.
func TestAnAttemptOfAnInstanceThatWasMovedIsNotAbsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	standby, err := evolutionsim.Start(t.Context(), evolutionsim.Options{
		Receipts:  evolutionsim.Receipts{ServerAck: evolutionsim.Never, DeliveryAck: evolutionsim.Never, Read: evolutionsim.Never},
		Instances: []evolutionsim.Instance{{Name: simName, Number: "5511900000000", State: "open"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Close)
	r.run(doubting())
	r.savesFirst()
	r.fault(hidden("swallowed"))
	r.fault(evolutionsim.Fault{Call: "findMessages", Kind: "hang", When: "before"}) // the gateway hangs altogether
	id := r.accept(order{text: "swallowed", class: events.ClassUtility, window: 6 * time.Second})
	r.awaitUnknown(id)
	inst := r.instance()
	inst.GatewayURL, inst.GatewayKey = standby.URL(), events.Sealed{Blob: []byte(standby.APIKey())}
	r.catalog.define(inst)
	r.awaitStage(r.accept(order{text: "another", class: events.ClassUtility, number: "5521977776666"}), events.StageDispatched)
	r.awaitStage(id, events.StageFailed)
	again := len(standby.Ledger(evolutionsim.Filter{Text: "swallowed"}).Entries)
	if r.ledger("swallowed") != 1 || again != 0 || len(r.absences(id)) != 0 {
		t.Errorf("left %d times by the old gateway, %d by the new\n%s", r.ledger("swallowed"), again, r.story(id))
	}
}

// lostKeys open no payload of some messages.
type lostKeys struct {
	plainKeys
	lost sync.Map
}

func (k *lostKeys) OpenPayload(ctx context.Context, tenant, id string, s events.Sealed) ([]byte, error) {
	if _, lost := k.lost.Load(id); lost {
		return nil, errors.New("the key is missing")
	}
	return k.plainKeys.OpenPayload(ctx, tenant, id, s)
}

// What was sent and cannot be read any more is not looked for. The others are; but nothing is said of those of the same slot, whose rows may
// be its.
func TestOneUnreadableMessageKeepsNoOtherFromBeingFound(t *testing.T) {
	t.Parallel()
	r, keys := newRig(t), &lostKeys{}
	r.keys = keys
	set := doubting()
	set.Rules.Quiet = 50 * time.Millisecond
	r.run(set)
	r.savesFirst()
	for _, text := range []string{"lost", "found"} {
		r.fault(evolutionsim.Fault{Kind: "reset", When: "after", TextContains: text, Times: 1})
	}
	r.fault(evolutionsim.Fault{Kind: "reset", When: "before", TextContains: "beside", Times: 1})
	lost := r.accept(order{text: "lost", slot: 1, class: events.ClassUtility, window: 20 * time.Second})
	r.awaitUnknown(lost)
	keys.lost.Store(lost, true)
	beside := r.accept(order{text: "beside", slot: 1, number: "5511988887701", class: events.ClassUtility, window: 6 * time.Second})
	found := r.accept(order{text: "found", slot: 2, number: "5511988887702", class: events.ClassUtility, window: 20 * time.Second})
	r.awaitStage(found, events.StageDispatched)
	if v := r.awaitStage(beside, events.StageFailed); v.ErrorCode != events.FailDeliveryTimeout || len(r.absences(beside)) != 0 {
		t.Errorf("%+v\n%s", v, r.story(beside))
	}
}
