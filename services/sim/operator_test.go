package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
)

const operator = "operator:sim"

// drawOperator pauses or drains an instance and resumes it.
func (p *plan) drawOperator(r *rand.Rand) {
	at, n, length := within(r, 0, p.Length), r.IntN(instances), within(r, time.Second, 40*time.Minute)
	typ, name := events.TypeInstancePaused, "paused"
	if r.IntN(3) == 0 {
		typ, name = events.TypeInstanceDraining, "draining"
	}
	p.do(at, func(w *world) {
		w.operate(n, typ, name)
		w.later(length, func() { w.operate(n, events.TypeInstanceResumed, "resumed") })
	})
}

// drawLevers plans what operators do beside that: they end parks, bring retries forward, and say that an attempt had no effect.
func (p *plan) drawLevers(r *rand.Rand) {
	for range 2*int(p.Length/time.Hour) + 2 {
		n := r.IntN(instances)
		p.do(within(r, 0, p.Length), func(w *world) { w.operate(n, events.TypeInstanceUnparked, "unparked") })
	}
	for range 8*int(p.Length/time.Hour) + 4 {
		n, most := r.IntN(instances), 1+r.IntN(5)
		p.do(within(r, 0, p.Length), func(w *world) {
			for _, a := range w.newest(n, most) {
				w.retry(a)
			}
		})
	}
	for at := 5 * time.Minute; at < p.Length+time.Hour; at += within(r, time.Minute, 9*time.Minute) {
		n := r.IntN(instances)
		p.do(at, func(w *world) { w.disprove(n) })
	}
}

func (w *world) operate(n int, typ, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*longestOutage)
	defer cancel()
	p := events.PartitionOf(instanceID(n), partitions)
	_, err := w.log.Append(ctx, events.Event{
		Address:  events.EventSubject(p, instanceID(n), events.GroupInstance, name),
		Envelope: events.Envelope{ID: uuid.NewString(), Type: typ, Source: "pilot/sim", Time: time.Now().UTC()},
		Body:     &events.InstanceChanged{By: operator},
	})
	if err != nil {
		w.rec.fail("operate instance", err)
	}
}

// retry is an operator's word that the next attempt of a message is due, whatever has become of it.
func (w *world) retry(a acceptedMessage) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*longestOutage)
	defer cancel()
	p := events.PartitionOf(a.Instance, partitions)
	_, err := w.log.Append(ctx, events.Event{
		Address: events.EventSubject(p, a.Instance, events.GroupMessage, "retry_requested"),
		Envelope: events.Envelope{
			ID: uuid.NewString(), Type: events.TypeMessageRetryRequested, Source: "pilot/sim", Time: time.Now().UTC(), Subject: a.ID,
			TenantID: a.Tenant, QueuedSeq: a.Seq,
		},
		Body: &events.MessageRetryRequested{By: operator},
	})
	if err != nil {
		w.rec.fail("ask for a retry", err)
		return
	}
	w.rec.hit("retries asked for")
}

// mostDisproved bounds how many messages an operator looks at in one go.
const mostDisproved = 40

// disprove lets an operator look at what is unknown of an instance, and say that it had no effect where the gateway shows it. A word
// that is wrong is the operator's fault, and not tried here.
func (w *world) disprove(n int) {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	for _, a := range w.newest(n, mostDisproved) {
		p := events.PartitionOf(a.Instance, partitions)
		recs, last, err := w.accepts.ReadGroup(ctx, p, a.Instance, a.Seq)
		if err != nil {
			return // the operator tries again another day
		}
		g := cancel.NewGroup(a.Seq, []cancel.Message{{ID: a.ID, QueuedSeq: a.Seq, Tenant: a.Tenant, ReadyAt: a.ReadyAt}})
		g.Apply(recs...)
		attempt, unknown := lastUnknown(recs, a.ID)
		if g.Verdict(a.ID) != cancel.Unconfirmed || !unknown || !w.hadNoEffect(n, a) {
			continue
		}
		_, err = w.accepts.AppendFenced(ctx, p, a.Instance, events.Event{
			Address: events.EventSubject(p, a.Instance, events.GroupDispatch, "disproved"),
			Envelope: events.Envelope{
				ID: uuid.NewString(), Type: events.TypeDispatchDisproved, Source: "pilot/sim", Time: time.Now().UTC(), Subject: a.ID,
				TenantID: a.Tenant, QueuedSeq: a.Seq, Attempt: attempt,
			},
			Body: &events.DispatchDisproved{By: events.DisprovedOperator, Who: operator, Reason: "the gateway has no such message"},
		}, last)
		if err == nil {
			w.rec.hit("disproved by an operator")
		}
	}
}

// lastUnknown gives the number of a message's last attempt, and whether it is unknown.
func lastUnknown(recs []events.Recorded, id string) (attempt int, unknown bool) {
	var record message.Record
	for _, r := range recs {
		f, ok := message.FactOf(r)
		for _, s := range message.Subjects(r) {
			if ok && s.ID == id {
				record = record.With(f)
			}
		}
	}
	s := record.Summarize()
	return len(s.Attempts), s.Last().State == message.AttemptUnknown
}

// longSince is when no request of an attempt can be on its way to the gateway any more: nothing is written after the budget of an
// intent, and a dispatcher that stands still stands no longer than a fault of its wire.
const longSince = 5 * time.Minute

// hadNoEffect reports that the gateway never sent a message, and has nothing of it under way.
func (w *world) hadNoEffect(n int, a acceptedMessage) bool {
	if a.Text[:4] == "same" { // several messages may have it
		return false
	}
	at := time.Time{}
	w.rec.note(func(r *recording) {
		for _, c := range r.Calls {
			if c.Text == a.Text {
				at = c.At
			}
		}
	})
	g := w.gatewayOf(n)
	return !at.IsZero() && time.Since(at) > longSince && !g.tap.busyWith(a.Text) &&
		len(g.sim.Ledger(evolutionsim.Filter{Instance: a.Instance, Text: a.Text}).Entries) == 0
}
