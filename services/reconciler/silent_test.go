package reconciler

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await/awaittest"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolutionsim"
)

// silentSim keeps no receipts.
var silentSim = evolutionsim.Options{Receipts: evolutionsim.Receipts{ServerAck: evolutionsim.Never, DeliveryAck: evolutionsim.Never, Read: evolutionsim.Never}}

const (
	late = 16 * time.Minute
	long = 7*24*time.Hour + time.Minute
)

// C1 17, 18: taken, and no receipt at all. It is said to be overdue, once, stays DISPATCHED, and nothing is sent again.
func TestC1SilenceIsSaidOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	m := r.left(instance, r.sent(instance, "silence"), late)
	fresh := r.left(instance, r.sent(instance, "fresh"), 14*time.Minute)
	unbound := r.left(instance, "", late) // nobody can be asked
	other := r.reconciler(r.log, Settings{})
	rec := r.reconciler(r.log, Settings{})
	for range 3 {
		rec.round(t.Context())
		other.round(t.Context()) // a second one that works all the same
	}
	for _, x := range []msg{m, unbound} {
		if v := r.stage(x); v.Stage != events.StageDispatched || !v.AckOverdue {
			t.Errorf("%s, overdue %v", v.Stage, v.AckOverdue)
		}
		if got := r.events(x); count(got, "evidence.ack_overdue") != 1 || count(got, "dispatch.started") != 1 || len(got) != 4 {
			t.Errorf("events %v", got)
		}
	}
	if v := r.stage(fresh); v.AckOverdue || len(r.events(fresh)) != 3 {
		t.Errorf("overdue after 14 minutes: %v", r.events(fresh))
	}
	if n := r.acts(rec, "ack_overdue") + r.acts(other, "ack_overdue"); n < 2 {
		t.Errorf("%d acts", n)
	}
	if n := len(r.sim.Ledger(evolutionsim.Filter{}).Entries); n != 2 {
		t.Errorf("%d messages left", n)
	}
	for _, e := range r.recs() {
		if b, ok := e.Body.(*events.EvidenceAckOverdue); ok && b.AfterMS < late.Milliseconds() {
			t.Errorf("%+v", b)
		}
	}
}

// C2 37, 39: the webhooks were lost while nobody could take them. What the gateway has kept is recorded as they would have been, and
// the webhooks themselves, if they come after all, record nothing twice.
func TestC2LostWebhooksAreAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, evolutionsim.Options{})
	key := r.sent(instance, "lost")
	m := r.left(instance, key, late)
	rec := r.reconciler(r.log, Settings{})
	// The gateway's own handling of the receipts may still be under way: it is asked until it has them.
	for r.stage(m).Stage != events.StageRead {
		r.clearAsked(rec)
		rec.round(t.Context())
		if t.Context().Err() != nil {
			t.Fatal("no receipts")
		}
	}
	for _, name := range []string{"receipt.sent", "receipt.delivered", "receipt.read"} {
		if got := r.events(m); count(got, name) > 1 {
			t.Errorf("events %v", got)
		}
	}
	if got := r.events(m); count(got, "evidence.ack_overdue") > 0 && r.stage(m).AckOverdue {
		t.Errorf("overdue although it was read: %v", got)
	}
}

// clearAsked lets a reconciler ask again at once.
func (r *rig) clearAsked(rec *Reconciler) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	clear(rec.asks)
}

// C1 19: the gateway kept an ERROR whose webhook was lost: FAILED with the gateway's code, not overdue.
func TestC1LostErrorIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	if _, err := r.sim.AddFault(evolutionsim.Fault{Kind: "receipts", Mode: "error"}); err != nil {
		t.Fatal(err)
	}
	key := r.sent(instance, "refused later")
	r.kept(key)
	m := r.left(instance, key, late)
	r.reconciler(r.log, Settings{}).round(t.Context())
	r.awaitStage(m, events.StageFailed)
	if v := r.stage(m); v.ErrorCode != events.FailGatewayRejected || count(r.events(m), "evidence.ack_overdue") != 0 {
		t.Errorf("%s: %v", v.ErrorCode, r.events(m))
	}
}

// DISPATCHED or SENT without DELIVERED for seven days: FAILED DELIVERED_NOT_CONFIRMED, without a refund; what comes later corrects it.
func TestDeliveryIsNotConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	dispatched := r.left(instance, r.sent(instance, "one"), long)
	sent := r.left(instance, r.sent(instance, "two"), long)
	r.receipt(instance, sent, "sent", "SERVER_ACK")
	delivered := r.left(instance, r.sent(instance, "three"), long)
	r.receipt(instance, delivered, "delivered", "DELIVERY_ACK")
	almost := r.left(instance, r.sent(instance, "four"), long-2*time.Minute)
	r.receipt(instance, almost, "sent", "SERVER_ACK")
	rec := r.reconciler(r.log, Settings{})
	for range 2 {
		rec.round(t.Context())
	}
	for _, m := range []msg{dispatched, sent} {
		if v := r.stage(m); v.Stage != events.StageFailed || v.ErrorCode != events.FailNotConfirmed || count(r.events(m), "message.delivery_unconfirmed") != 1 {
			t.Errorf("%s %s: %v", v.Stage, v.ErrorCode, r.events(m))
		}
	}
	for m, want := range map[msg]events.Stage{delivered: events.StageDelivered, almost: events.StageSent} {
		if v := r.stage(m); v.Stage != want {
			t.Errorf("%s, want %s: %v", v.Stage, want, r.events(m))
		}
	}
	r.receipt(instance, sent, "read", "READ")
	if v := r.stage(sent); v.Stage != events.StageRead || !v.Corrected {
		t.Errorf("%s after a late receipt", v.Stage)
	}
	if n := r.acts(rec, "delivery_unconfirmed"); n != 2 {
		t.Errorf("%d acts", n)
	}
}

// Before a message is failed for want of a delivery its gateway is asked: the webhook may have been lost.
func TestADeliveryThatWasLostIsFoundBeforeItFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, evolutionsim.Options{Receipts: evolutionsim.Receipts{Read: evolutionsim.Never}})
	key := r.sent(instance, "delivered")
	r.kept(key)
	m := r.left(instance, key, long)
	rec := r.reconciler(r.log, Settings{})
	rec.round(t.Context())
	rec.round(t.Context())
	r.awaitStage(m, events.StageDelivered)
	if got := r.events(m); count(got, "message.delivery_unconfirmed") != 0 {
		t.Errorf("events %v", got)
	}
}

// kept waits until the gateway has stored something of a message, and all that was planned before it.
func (r *rig) kept(key string) {
	r.t.Helper()
	in, _ := r.known(instance)
	awaittest.Eventually(r.t, limit, 5*time.Millisecond, "the gateway keeps it", func() bool {
		words, err := r.gateways().Statuses(r.t.Context(), in, key)
		if err != nil {
			r.t.Fatal(err)
		}
		return len(words) > 0 && words[len(words)-1] != "SERVER_ACK"
	}, nil)
}

// overtaken is a log in which something happens right before the first decision is appended.
type overtaken struct {
	*eventlog.Log
	happens func()
	seen    int
}

func (o *overtaken) once() {
	if o.seen++; o.seen == 1 {
		o.happens()
	}
}

func (o *overtaken) AppendSeen(ctx context.Context, ev events.Event, filter string, seen uint64) (eventlog.Ack, error) {
	o.once()
	return o.Log.AppendSeen(ctx, ev, filter, seen)
}

func (o *overtaken) AppendFenced(ctx context.Context, p events.Partition, instance string, ev events.Event, expected uint64) (uint64, error) {
	o.once()
	return o.Log.AppendFenced(ctx, p, instance, ev, expected)
}

// C3 51: the receipt comes between the picture and the act. The act carries the version it saw and is dropped.
func TestC3StaleSilenceIsDropped(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"overdue": late, "not confirmed": long} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, silentSim)
			m := r.left(instance, r.sent(instance, "raced"), age)
			log := &overtaken{Log: r.log, happens: func() { r.receipt(instance, m, "delivered", "DELIVERY_ACK") }}
			rec := r.reconciler(log, Settings{})
			rec.round(t.Context())
			if got := r.events(m); len(got) != 4 || got[3] != "receipt.delivered" || r.acts(rec, "dropped") != 1 {
				t.Errorf("events %v, %d dropped", got, r.acts(rec, "dropped"))
			}
		})
	}
}

// A receipt of another message of the instance moves the version, and changes nothing of the decision: it is made anew.
func TestC3AnothersReceiptOnlyDelays(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	m, o := r.left(instance, r.sent(instance, "raced"), late), r.left(instance, r.sent(instance, "other"), time.Minute)
	log := &overtaken{Log: r.log, happens: func() { r.receipt(instance, o, "sent", "SERVER_ACK") }}
	r.reconciler(log, Settings{}).round(t.Context())
	if got := r.events(m); count(got, "evidence.ack_overdue") != 1 || log.seen != 2 {
		t.Errorf("events %v after %d tries", got, log.seen)
	}
}

// A gateway that does not answer is left alone for a while, and each question has a limit. It is decided without it once it did not
// answer for an hour: whoever waits at it need not have been asked about, but must be due for as long.
func TestAGatewayThatDoesNotAnswerIsNotHammered(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	if _, err := r.sim.AddFault(evolutionsim.Fault{Kind: "hang", Call: "findStatusMessage"}); err != nil {
		t.Fatal(err)
	}
	var fresh, due msg
	for range 5 {
		fresh = r.left(instance, "3EB0AA", late)
	}
	due = r.left(instance, "3EB0BB", 76*time.Minute)
	rec := r.reconciler(r.log, Settings{AskLimit: 100 * time.Millisecond})
	questions := &heard{Gateway: rec.gateway} // where they are put: one may end before the gateway has it
	rec.gateway = questions
	rounds := func(name string, asked int64, overdue bool) {
		t.Helper()
		rec.round(t.Context())
		rec.round(t.Context())
		if n := questions.n.Load(); n != asked {
			t.Errorf("%s: a gateway that hangs was asked %d times", name, n)
		}
		if v := r.stage(due); v.AckOverdue != overdue {
			t.Errorf("%s: overdue %v", name, v.AckOverdue)
		}
		if v := r.stage(fresh); v.AckOverdue {
			t.Errorf("%s: overdue although the gateway may know more", name)
		}
	}
	rounds("at first", 1, false)
	r.shift(rec, 2*time.Hour, 11*time.Minute) // nobody asked in between: it does not count
	rounds("after an outage of ours", 2, false)
	r.shift(rec, 59*time.Minute, 0)
	rounds("almost an hour later", 2, false)
	r.shift(rec, time.Minute, 0)
	rounds("an hour later", 2, true)
}

// heard counts the questions to a gateway.
type heard struct {
	Gateway
	n atomic.Int64
}

func (h *heard) Statuses(ctx context.Context, in events.Instance, keyID string) ([]string, error) {
	h.n.Add(1)
	return h.Gateway.Statuses(ctx, in, keyID)
}

// shift makes the failures of a reconciler older: when they began, and until when it leaves alone who failed.
func (r *rig) shift(rec *Reconciler, since, until time.Duration) {
	r.t.Helper()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.quiet) == 0 {
		r.t.Fatal("nothing failed")
	}
	for of, b := range rec.quiet {
		rec.quiet[of] = backoff{b.failures, b.since.Add(-since), b.until.Add(-until)}
	}
	if until > 0 {
		clear(rec.asks) // as after its hour
	}
}

// What is asked of one instance in a round is bounded, and an instance that its gateway does not know holds up no other.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, silentSim)
	r.instance("inst2")
	if _, err := r.sim.AddFault(evolutionsim.Fault{
		Kind: "answer", Instance: instance, Call: "findStatusMessage", Status: http.StatusNotFound,
		Body: `{"status":404,"error":"Not Found","response":{"message":["The \"inst1\" instance does not exist"]}}`,
	}); err != nil {
		t.Fatal(err)
	}
	broken := r.left(instance, "3EB0AA", late)
	var others []msg
	for range 5 {
		others = append(others, r.left("inst2", "3EB0BB", late))
	}
	rec := r.reconciler(r.log, Settings{AskRound: 3})
	overdue := func() (n int) {
		for _, m := range others {
			if r.stage(m).AckOverdue {
				n++
			}
		}
		return n
	}
	for round, want := range []int{3, 5} {
		rec.round(t.Context())
		if n := overdue(); n != want {
			t.Errorf("round %d: %d are overdue, want %d", round, n, want)
		}
	}
	if r.stage(broken).AckOverdue {
		t.Error("overdue although the gateway was not asked")
	}
}
