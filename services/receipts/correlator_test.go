package receipts

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// quick makes a correlator that waits for nothing long.
var quick = Settings{Grace: 200 * time.Millisecond, Sweep: 20 * time.Millisecond, ProveAfter: time.Hour, Debounce: time.Nanosecond}

func TestReceiptsBindOnceInAnyOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.correlate(r.log, quick)
	r.started("msg_1", "")
	r.receipt("K1", "SERVER_ACK") // before the 201 (C1.1)
	r.accepted("msg_1", "K1")
	r.wait(receiptFilter, "msg_1.sent")
	r.receipt("K1", "READ")
	r.wait(receiptFilter, "msg_1.sent", "msg_1.read")
	r.receipt("K1", "DELIVERY_ACK") // reversed (C2.28)
	r.wait(receiptFilter, "msg_1.sent", "msg_1.read", "msg_1.delivered")
	r.started("msg_2", "")
	r.accepted("msg_2", "K2")
	for range 3 { // repeated (C2.34), meaningless (C2.31), another's
		r.receipt("K1", "READ")
		r.receipt("K1", "DELETED")
		r.receipt("K1", "")
		r.said(events.GatewayObserved{Event: EventMessagesUpdate, KeyID: "K2", Status: "READ"})
		r.receipt("K2", "DELETED")
		r.receipt("K2", "PENDING")
	}
	r.receipt("K1", "ERROR") // the last in the stream: all before it were consumed when it is bound
	r.wait(receiptFilter, "msg_1.sent", "msg_1.read", "msg_1.delivered", "msg_1.failed")
	recs := r.events(receiptFilter)
	body, _ := recs[3].Body.(*events.Receipt)
	if body == nil || body.Code != events.FailGatewayRejected || body.GatewayStatus != "ERROR" || body.At.IsZero() {
		t.Errorf("failed as %+v", recs[3].Body)
	}
	if e := recs[0]; e.Subject != "msg_1" || e.TenantID != "acme" || e.QueuedSeq != 1 || e.GatewayID != "K1" {
		t.Errorf("envelope %+v", e.Envelope)
	}
	if got := r.ids(events.TypeFilter(partition, events.GroupDispatch, "proved")); len(got) != 0 {
		t.Errorf("an accepted message was proved: %v", got)
	}
}

func TestUnmatchedReceiptSurvivesRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stop := r.correlate(r.log, quick)
	r.receipt("K1", "DELIVERY_ACK")
	r.started("msg_2", "")
	r.accepted("msg_2", "K2")
	r.receipt("K2", "SERVER_ACK")
	r.wait(receiptFilter, "msg_2.sent")
	stop()
	r.receipt("K2", "READ")
	r.started("msg_1", "")
	r.accepted("msg_1", "K1")
	r.correlate(r.log, quick)
	eventually(t, func() bool {
		got := r.ids(receiptFilter)
		slices.Sort(got)
		return slices.Equal(got, []string{"msg_1.delivered", "msg_2.read", "msg_2.sent"})
	}, func() any { return r.ids(receiptFilter) })
}

func TestReceiptProvesAnAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := quick
	s.Concurrency = 1
	r.correlate(r.log, s)
	r.started("msg_1", "K1")
	r.receipt("K1", "SERVER_ACK")
	r.started("msg_2", "")
	r.accepted("msg_2", "K2")
	r.receipt("K2", "SERVER_ACK")       // consumed behind the first
	r.wait(receiptFilter, "msg_2.sent") // and the first is not recorded while its answer is outstanding
	r.fenced("unknown", "msg_1", 1, "", &events.DispatchUnknown{Cause: "timeout"})
	r.wait(receiptFilter, "msg_2.sent", "msg_1.sent")
	r.wait(events.DispatchFilter(partition, instance), "msg_1.started", "msg_2.started", "msg_2.accepted", "msg_1.unknown", "msg_1.proved.1")
	recs := r.events(events.TypeFilter(partition, events.GroupDispatch, "proved"))
	body, _ := recs[0].Body.(*events.DispatchProved)
	if body == nil || body.By != events.ProofReceipt || recs[0].Prev == 0 || recs[0].Attempt != 1 {
		t.Errorf("proved by %+v %+v", recs[0].Body, recs[0].Envelope)
	}
}

func TestReceiptProvesAnOpenStartAfterAWhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := quick
	s.ProveAfter = time.Millisecond
	r.correlate(r.log, s)
	r.started("msg_1", "K1")
	r.receipt("K1", "DELIVERY_ACK")
	r.wait(receiptFilter, "msg_1.delivered")
	r.wait(events.DispatchFilter(partition, instance), "msg_1.started", "msg_1.proved.1")
}

// overtaken is a log in which somebody else is always a little faster in the fenced group.
type overtaken struct {
	Log
	first func()
	tries atomic.Int32
}

func (o *overtaken) AppendFenced(ctx context.Context, p events.Partition, instance string, ev events.Event, expected uint64) (uint64, error) {
	if o.tries.Add(1) == 1 {
		o.first()
	}
	return o.Log.AppendFenced(ctx, p, instance, ev, expected)
}

// TestRefusedProofIsDecidedAnew holds rule R1: what the fence refuses is not appended on another state blindly.
func TestRefusedProofIsDecidedAnew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then  func(*rig)
		group []string
		tries int32
	}{
		"another message moved the group": {
			func(r *rig) { r.started("msg_9", "") },
			[]string{"msg_1.started", "msg_1.unknown", "msg_9.started", "msg_1.proved.1"},
			2,
		},
		"the answer came": {
			func(r *rig) {
				r.fenced("proved", "msg_1", 1, "K1", &events.DispatchProved{By: events.ProofLate})
			},
			[]string{"msg_1.started", "msg_1.unknown", "msg_1.proved"},
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			log := &overtaken{Log: r.log, first: func() { tt.then(r) }}
			r.correlate(log, quick)
			r.started("msg_1", "K1")
			r.fenced("unknown", "msg_1", 1, "", &events.DispatchUnknown{Cause: "timeout"})
			r.receipt("K1", "READ")
			r.wait(receiptFilter, "msg_1.read")
			r.wait(events.DispatchFilter(partition, instance), tt.group...)
			if n := log.tries.Load(); n != tt.tries {
				t.Errorf("%d tries, want %d", n, tt.tries)
			}
		})
	}
}

func TestReceiptAfterAnEndRaisesAnAnomaly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.correlate(r.log, quick)
	r.started("msg_1", "K1")
	r.fenced("unknown", "msg_1", 1, "", &events.DispatchUnknown{Cause: "timeout"})
	r.fenced("closed", "", 0, "", &events.DispatchClosed{
		Reason: events.ClosedTimeout, Code: events.FailDeliveryTimeout, Presumed: true, Messages: []events.ClosedMessage{{ID: "msg_1", QueuedSeq: 1}},
	})
	r.receipt("K1", "DELIVERY_ACK")
	r.wait(receiptFilter, "msg_1.delivered")
	r.wait(events.GroupFilter(partition, events.GroupEvidence), "msg_1.receipt_after_end")
}

// finder is a read side that is down at first.
type finder struct{ asked atomic.Int32 }

func (f *finder) ByGatewayID(_ context.Context, in, id string) (Known, bool, error) {
	if f.asked.Add(1) < 3 {
		return Known{}, false, errors.New("read side is down")
	}
	if in != instance || id != "OLD" {
		return Known{}, false, nil
	}
	return Known{MessageID: "msg_7", TenantID: "acme", QueuedSeq: 7, Attempt: 1, Left: true, Recorded: []events.Status{events.StatusSent}}, true, nil
}

func TestOlderMessagesAreLookedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := quick
	s.Finder = &finder{}
	s.Grace = time.Millisecond
	r.correlate(r.log, s)
	r.receipt("OLD", "SERVER_ACK")
	r.receipt("OLD", "READ")
	r.receipt("TYPED-ON-THE-PHONE", "READ")
	r.wait(receiptFilter, "msg_7.read")
	if rec := r.events(receiptFilter)[0]; rec.QueuedSeq != 7 || rec.TenantID != "acme" {
		t.Errorf("envelope %+v", rec.Envelope)
	}
}

// unproved knows a message that was started before anything this process has read.
type unproved struct{}

func (unproved) ByGatewayID(context.Context, string, string) (Known, bool, error) {
	return Known{MessageID: "msg_1", TenantID: "acme", QueuedSeq: 1, Attempt: 1}, true, nil
}

func TestProofWhereTheGroupIsOlderThanMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.started("msg_1", "K1")
	r.fenced("unknown", "msg_1", 1, "", &events.DispatchUnknown{Cause: "timeout"})
	s := quick
	s.Finder, s.Kept, s.Unmatched, s.Grace = unproved{}, time.Nanosecond, time.Nanosecond, time.Millisecond
	r.correlate(r.log, s)
	r.receipt("K1", "READ")
	r.wait(receiptFilter, "msg_1.read")
	r.wait(events.DispatchFilter(partition, instance), "msg_1.started", "msg_1.unknown", "msg_1.proved.1")
}

// appends counts what is appended.
type appends struct {
	Log
	ids []string
}

func (a *appends) Append(_ context.Context, ev events.Event) (eventlog.Ack, error) {
	a.ids = append(a.ids, ev.ID)
	return eventlog.Ack{Sequence: uint64(len(a.ids))}, nil
}

func TestOldWordOfTheGatewayIsHistory(t *testing.T) {
	t.Parallel()
	log := &appends{}
	c := NewCorrelator(log, partition, quick)
	c.live = true
	now := time.Now()
	say := func(seq uint64, state string, at time.Time) {
		o := events.GatewayObserved{Event: EventConnectionUpdate, State: state}
		c.connection(t.Context(), instance, events.Recorded{Position: events.Position{Sequence: seq}, Stored: at}, o)
	}
	learn := func(wire, id, from string, at time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.learnInstance(events.Recorded{
			Event: events.Event{
				Envelope: events.Envelope{ID: id, Type: wire, Source: from},
				Address:  events.EventSubject(partition, instance, events.GroupInstance, "x"),
			}, Stored: at,
		})
	}
	say(1, "open", now)
	learn(events.TypeInstanceParked, "park-1", "pilot/dispatcher", now.Add(time.Second))
	c.settleAll(t.Context()) // it was parked after it was open
	say(2, "open", now.Add(2*time.Second))
	// The log brings the event of the second word after the third word was said: the third is newer all the same.
	say(3, "close", now.Add(2*time.Second+time.Millisecond))
	learn(events.TypeInstanceOpened, "inst1.opened.0:2", source, now.Add(3*time.Second))
	c.settleAll(t.Context())
	want := []string{"inst1.opened.0:1", "inst1.opened.0:2", "inst1.closed.0:3", "inst1.closed.0:3"}
	if !slices.Equal(log.ids, want) {
		t.Errorf("appended %v, want %v", log.ids, want)
	}
}

func TestConnectionOfAnInstance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	filter := events.GroupFilter(partition, events.GroupInstance)
	types := func() (out []string) {
		for _, rec := range r.events(filter) {
			out = append(out, rec.Type)
		}
		return out
	}
	expect := func(want ...string) {
		t.Helper()
		eventually(t, func() bool { return slices.Equal(types(), want) }, func() any { return types() })
	}
	connection := func(state string) {
		r.said(events.GatewayObserved{Event: EventConnectionUpdate, State: state})
	}
	stop := r.correlate(r.log, quick)
	connection("open")
	expect(events.TypeInstanceOpened)
	for range 3 {
		connection("connecting")
		connection("open")
	}
	r.said(events.GatewayObserved{Event: EventStatusInstance, State: "closed", StatusReason: 401})
	r.said(events.GatewayObserved{Event: EventLogoutInstance})
	connection("close")
	expect(events.TypeInstanceOpened, events.TypeInstanceClosed)
	stop()
	connection("open")
	connection("close")
	connection("open") // of what was said meanwhile only the last word counts
	r.correlate(r.log, quick)
	expect(events.TypeInstanceOpened, events.TypeInstanceClosed, events.TypeInstanceOpened)
	if _, err := r.log.Append(r.ctx(), events.Event{
		Envelope: events.Envelope{ID: "park-1", Type: events.TypeInstanceParked, Source: "pilot/dispatcher", Time: time.Now()},
		Address:  events.EventSubject(partition, instance, events.GroupInstance, "parked"), Body: &events.InstanceChanged{By: "dispatcher", Scope: "instance"},
	}); err != nil {
		t.Fatal(err)
	}
	connection("open") // ends a park
	expect(events.TypeInstanceOpened, events.TypeInstanceClosed, events.TypeInstanceOpened, events.TypeInstanceParked, events.TypeInstanceOpened)
}

func TestBookIsBounded(t *testing.T) {
	t.Parallel()
	b, now := newBook(2, 2), time.Now()
	for i, id := range []string{"msg_1", "msg_2", "msg_3"} {
		b.apply(events.Recorded{
			Event: events.Event{
				Envelope: events.Envelope{Type: events.TypeDispatchAccepted, Subject: id, GatewayID: id},
				Address:  events.EventSubject(partition, instance, events.GroupDispatch, "accepted"),
			},
			Position: events.Position{Sequence: uint64(i + 1)}, Stored: now, Known: true,
		}, now)
		b.hold(key{instance, "x" + id}, sighting{state: events.StatusSent, received: now}, time.Second)
		b.hold(key{instance, "x" + id}, sighting{state: events.StatusSent, received: now}, time.Second)
	}
	if len(b.claims) != 2 || len(b.messages) != 2 || len(b.held) != 2 || b.group[instance] != 3 {
		t.Errorf("claims %d, messages %d, held %d, group %d", len(b.claims), len(b.messages), len(b.held), b.group[instance])
	}
	b.prune(now.Add(time.Second), now.Add(time.Second))
	if len(b.claims)+len(b.messages)+len(b.held)+b.order.Len()+b.heldOrder.Len()+len(b.questions) != 0 {
		t.Error("old entries stay")
	}
}

// heldBack is a log that takes one receipt only when it is let.
type heldBack struct {
	Log
	id  string
	let chan struct{}
}

func (h *heldBack) Append(ctx context.Context, ev events.Event) (eventlog.Ack, error) {
	if ev.ID == h.id {
		if !await.Closed(ctx, h.let) {
			return eventlog.Ack{}, ctx.Err()
		}
	}
	return h.Log.Append(ctx, ev)
}

// What a gateway says of one message is recorded in that order, however long each takes: of a status that comes to the log behind a later
// one no customer hears. Other messages do not wait for it.
func TestReceiptsOfAMessageKeepTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for id, k := range map[string]string{"msg_1": "K1", "msg_2": "K2"} {
		r.started(id, "")
		r.accepted(id, k)
	}
	log := &heldBack{r.log, "msg_1.sent", make(chan struct{})}
	r.correlate(log, Settings{Grace: time.Minute, Sweep: time.Minute, ProveAfter: time.Hour, Debounce: time.Nanosecond})
	for _, k := range []string{"K1", "K2"} {
		for _, status := range []string{"SERVER_ACK", "DELIVERY_ACK", "READ"} {
			r.receipt(k, status)
		}
	}
	r.wait(receiptFilter, "msg_2.sent", "msg_2.delivered", "msg_2.read")
	close(log.let)
	r.wait(receiptFilter, "msg_2.sent", "msg_2.delivered", "msg_2.read", "msg_1.sent", "msg_1.delivered", "msg_1.read")
}
