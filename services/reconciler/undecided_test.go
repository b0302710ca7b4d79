package reconciler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/projections/views"
)

// corrected is a message that was told as FAILED, and of which the gateway then said that it was sent.
func (r *rig) corrected(gatewayID string, ago time.Duration) msg {
	r.t.Helper()
	m := r.queued(instance, -8*24*time.Hour)
	r.fenced(instance, "started", m, "", ago+time.Hour, &events.DispatchStarted{Call: "sendText"})
	r.fenced(instance, "unknown", m, "", ago+time.Hour, &events.DispatchUnknown{Cause: "no_answer"})
	r.fenced(instance, "closed", m, "", ago+time.Hour, &events.DispatchClosed{
		Reason: events.ClosedFailed, Code: events.FailDeliveryTimeout, Presumed: true, Messages: []events.ClosedMessage{{ID: m.id, QueuedSeq: m.seq}},
	})
	r.fenced(instance, "proved", m, gatewayID, ago, &events.DispatchProved{By: events.ProofReceipt})
	r.receipt(instance, m, "sent", "SERVER_ACK")
	return m
}

// A message that was corrected is never FAILED again: it is no candidate, nothing is said of it, and those behind it have their turn.
func TestACorrectedMessageIsNotFailedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	var older []msg
	for i := range 3 {
		older = append(older, r.corrected(fmt.Sprint("K", i), long+time.Hour))
	}
	behind := r.left(instance, "KF", long)
	r.receipt(instance, behind, "sent", "SERVER_ACK")
	rec := r.reconciler(r.log, Settings{PerInstance: 3})
	requests := r.sim.Stats().Requests
	for range 3 {
		rec.round(t.Context())
	}
	for _, m := range older {
		if v := r.stage(m); v.Stage != events.StageSent || !v.Corrected || count(r.events(m), "message.delivery_unconfirmed") != 0 {
			t.Errorf("%s, corrected %v: %v", v.Stage, v.Corrected, r.events(m))
		}
	}
	if v := r.stage(behind); v.ErrorCode != events.FailNotConfirmed || r.acts(rec, "delivery_unconfirmed") != 1 {
		t.Errorf("the one behind is %s, %d acts", v.Stage, r.acts(rec, "delivery_unconfirmed"))
	}
	if n := r.sim.Stats().Requests - requests; n != 1 {
		t.Errorf("%d questions", n)
	}
}

// Nobody could ask for longer than a gateway is waited for, and what is due is more than can be asked about at once: it is asked all the
// same, and what has no turn waits for it.
func TestNothingIsDecidedUnaskedAfterAnOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t, evolutionsim.Options{Receipts: evolutionsim.Receipts{Read: evolutionsim.Never}})
	var delivered []msg
	for i := range 3 {
		key := r.sent(instance, fmt.Sprint("delivered ", i))
		r.kept(key)
		m := r.left(instance, key, long+2*time.Hour)
		r.receipt(instance, m, "sent", "SERVER_ACK")
		delivered = append(delivered, m)
	}
	rec := r.reconciler(r.log, Settings{AskRound: 1})
	for range 6 { // each finds its way, and the list begins anew
		rec.round(t.Context())
	}
	for _, m := range delivered {
		r.awaitStage(m, events.StageDelivered)
		if got := r.events(m); count(got, "message.delivery_unconfirmed") != 0 {
			t.Errorf("events %v", got)
		}
	}
}

// What the gateway shows of some can be bound to none of them: two have one key id, and the first keeps it. They wait, and hide nobody.
func TestWhatCannotBeDecidedHidesNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, evolutionsim.Options{Receipts: evolutionsim.Receipts{Read: evolutionsim.Never}})
	key := r.sent(instance, "twice")
	r.kept(key)
	first := r.left(instance, key, long)
	r.receipt(instance, first, "sent", "SERVER_ACK")
	r.receipt(instance, first, "delivered", "DELIVERY_ACK")
	var same []msg
	for range 5 {
		same = append(same, r.left(instance, key, long+time.Hour))
	}
	behind := r.left(instance, "KF", long)
	rec := r.reconciler(r.log, Settings{PerInstance: 2})
	for range 4 {
		rec.round(t.Context())
	}
	for _, m := range same {
		if v := r.stage(m); v.Stage != events.StageDispatched {
			t.Errorf("%s although the gateway showed a delivery", v.Stage)
		}
	}
	if v := r.stage(behind); v.ErrorCode != events.FailNotConfirmed {
		t.Errorf("the one behind them is %s: %v", v.Stage, r.events(behind))
	}
}

// picky is a gateway that answers about all messages but one.
type picky struct {
	Gateway
	not string
}

func (g picky) Statuses(ctx context.Context, in events.Instance, keyID string) ([]string, error) {
	if keyID == g.not {
		return nil, errors.New("not about this one")
	}
	return g.Gateway.Statuses(ctx, in, keyID)
}

// One message about which a gateway never answers holds up no other of its instance, and is decided in the end: it failed for long
// enough, although the gateway answers about others.
func TestOneQuestionThatFailsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	odd := r.left(instance, "ODD", long+2*time.Hour)
	var others []msg
	for range 2 {
		others = append(others, r.left(instance, "KF", long))
	}
	const rest = 50 * time.Millisecond
	rec := r.reconciler(r.log, Settings{BackoffMin: rest, BackoffMax: rest})
	rec.gateway = picky{rec.gateway, "ODD"}
	awaittest.Eventually(t, limit, rest/10, "the others", func() bool {
		rec.round(t.Context())
		return r.acts(rec, "delivery_unconfirmed") == len(others)
	}, func() string { return fmt.Sprint(r.events(others[0])) })
	if v := r.stage(odd); v.Stage != events.StageDispatched {
		t.Fatalf("it is %s at once", v.Stage)
	}
	rec.mu.Lock()
	for q, a := range rec.asks {
		if q.message == odd.id {
			a.failing = a.failing.Add(-time.Hour)
			rec.asks[q] = a
		}
	}
	rec.mu.Unlock()
	awaittest.Eventually(t, limit, rest/10, "the end of it", func() bool {
		rec.round(t.Context())
		return r.stage(odd).ErrorCode == events.FailNotConfirmed
	}, func() string { return fmt.Sprint(r.events(odd)) })
}

// stuck are views that name the same candidates for ever.
type stuck struct {
	Views
	list []views.Awaited
}

func (s *stuck) Undelivered(
	ctx context.Context, p events.Partition, before time.Time, perInstance int, reached []views.Reached,
) (list []views.Awaited, err error) {
	if s.list == nil {
		s.list, err = s.Views.Undelivered(ctx, p, before, perInstance, reached)
	}
	return s.list, err
}

// Whatever the views name again: what was said is not said, nor asked, again.
func TestWhatWasSaidIsNotSaidAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	m := r.left(instance, "KF", long)
	rec := r.reconciler(r.log, Settings{})
	rec.views = &stuck{Views: rec.views}
	before := r.sim.Stats().Requests
	for range 3 {
		rec.round(t.Context())
	}
	if n := r.acts(rec, "delivery_unconfirmed"); n != 1 || r.stage(m).ErrorCode != events.FailNotConfirmed {
		t.Errorf("said %d times", n)
	}
	if n := r.sim.Stats().Requests - before; n != 1 {
		t.Errorf("asked %d times", n)
	}
}
