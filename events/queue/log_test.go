package queue

import (
	"fmt"
	"time"

	"pilotstatus.dev/events"
)

const instance = "inst-1"

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// after is a time of the tests, in seconds after their beginning.
func after(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

// tape is the log of one instance. Its clock is the time of the next event.
type tape struct {
	log        []events.Recorded
	seq, group uint64
	now        time.Time
	queuedSeq  map[string]uint64
}

func newTape() *tape { return &tape{now: epoch, queuedSeq: map[string]uint64{}} }

// at sets the clock, in seconds after the beginning.
func (p *tape) at(s float64) *tape {
	p.now = after(s)
	return p
}

func (p *tape) put(r events.Recorded) events.Recorded {
	p.seq++
	r.Position = events.Position{Partition: 1, Sequence: p.seq}
	r.Time, r.Stored = p.now, p.now
	r.ID = fmt.Sprintf("e-%d", p.seq)
	if _, _, ok := events.Standard.Lookup(r.Type); ok {
		r.Known = true
	}
	if addr, err := events.ParseEventSubject(r.Address); err == nil && addr.Group == events.GroupDispatch {
		r.Prev = p.group
		p.group = p.seq
	}
	p.log = append(p.log, r)
	return r
}

type msg struct {
	id           string
	class        events.Class
	tenant       string
	slot         uint8
	deliverAt    time.Time
	deliverUntil time.Time // an hour from now when zero
}

func (p *tape) queued(m msg) {
	if m.class == "" {
		m.class = events.ClassUtility
	}
	if m.tenant == "" {
		m.tenant = "t-1"
	}
	if m.deliverUntil.IsZero() {
		m.deliverUntil = p.now.Add(time.Hour)
	}
	var r events.Recorded
	r.Type, r.Subject, r.TenantID, r.DeliverAt, r.DeliverUntil = events.TypeMessageQueued, m.id, m.tenant, m.deliverAt, m.deliverUntil
	r.Address = events.QueuedSubject(1, events.Lane{Instance: instance, Class: m.class, Tenant: m.tenant, Slot: m.slot})
	p.queuedSeq[m.id] = p.put(r).Position.Sequence
}

// dispatch appends an event of the fenced group about one message.
func (p *tape) dispatch(id, name string, n int, body any, more ...func(*events.Recorded)) events.Recorded {
	var r events.Recorded
	r.Type, r.Subject, r.Attempt, r.QueuedSeq, r.Body = "dispatch."+name+".v1", id, n, p.queuedSeq[id], body
	r.Address = events.EventSubject(1, instance, events.GroupDispatch, name)
	for _, f := range more {
		f(&r)
	}
	return p.put(r)
}

func nonce(s string) func(*events.Recorded)   { return func(r *events.Recorded) { r.Nonce = s } }
func gateway(s string) func(*events.Recorded) { return func(r *events.Recorded) { r.GatewayID = s } }

func (p *tape) started(id string, n int) {
	p.dispatch(id, "started", n, &events.DispatchStarted{}, nonce(fmt.Sprintf("%s/%d", id, n)))
}

func (p *tape) accepted(id string, n int, key string) {
	p.dispatch(id, "accepted", n, &events.DispatchAccepted{}, gateway(key))
}

func (p *tape) refused(id string, n int) {
	p.dispatch(id, "refused", n, &events.DispatchRefused{Code: events.FailGatewayRejected})
}

func (p *tape) unknown(id string, n int) { p.dispatch(id, "unknown", n, &events.DispatchUnknown{}) }
func (p *tape) absent(id string, n int)  { p.dispatch(id, "absent", n, &events.DispatchAbsent{}) }

// proved names the row that proves it.
func (p *tape) proved(id string, n int) {
	p.dispatch(id, "proved", n, &events.DispatchProved{}, gateway("row of "+id))
}

func (p *tape) disproved(id string, n int, code events.ErrorCode) {
	p.dispatch(id, "disproved", n, &events.DispatchDisproved{Code: code})
}

// disprovedBy is a late answer or an operator's word that attempt n had no effect.
func (p *tape) disprovedBy(by, id string, n int) {
	p.dispatch(id, "disproved", n, &events.DispatchDisproved{By: by})
}

// deferred says that attempt n had no effect and the next is due in so many seconds.
func (p *tape) deferred(id string, n int, due float64, body events.DispatchDeferred) {
	body.DueAt = p.now.Add(time.Duration(due * float64(time.Second)))
	p.dispatch(id, "deferred", n, &body, func(r *events.Recorded) { r.Called, r.DueAt = body.Called, body.DueAt })
}

func (p *tape) closed(c Close) {
	b := &events.DispatchClosed{Reason: c.Reason, Code: c.Code, Presumed: c.Presumed, Messages: c.Messages}
	p.dispatch("", "closed", 0, b, func(r *events.Recorded) {
		if len(c.Messages) == 1 {
			r.Subject, r.QueuedSeq = c.Messages[0].ID, c.Messages[0].QueuedSeq
		}
	})
}

func (p *tape) ended(reason string, ids ...string) {
	c := Close{Reason: reason}
	for _, id := range ids {
		c.Messages = append(c.Messages, events.ClosedMessage{ID: id, QueuedSeq: p.queuedSeq[id]})
	}
	p.closed(c)
}

func (p *tape) instance(name string) {
	var r events.Recorded
	r.Type, r.Address, r.Body = "instance."+name+".v1", events.EventSubject(1, instance, events.GroupInstance, name), &events.InstanceChanged{}
	p.put(r)
}

func (p *tape) parked(scope string) {
	var r events.Recorded
	r.Type, r.Address = events.TypeInstanceParked, events.EventSubject(1, instance, events.GroupInstance, "parked")
	r.Body = &events.InstanceChanged{Scope: scope}
	p.put(r)
}

// restored says that the log was accepted as it ended at upTo, although it had lost events.
func (p *tape) restored(upTo uint64) events.Recorded {
	return p.dispatch("", "restored", 0, &events.DispatchRestored{UpTo: upTo, By: "test"})
}

// skipped is an operator's word to pass over what cannot be read.
func (p *tape) skipped(seq uint64) events.Recorded {
	return p.dispatch("", "skipped", 0, &events.DispatchSkipped{Sequence: seq, By: "test", Reason: "test"})
}

// retryRequested is an operator's word that the next attempt is due now.
func (p *tape) retryRequested(id string) {
	var r events.Recorded
	r.Type, r.Subject, r.QueuedSeq = events.TypeMessageRetryRequested, id, p.queuedSeq[id]
	r.Address, r.Body = events.EventSubject(1, instance, events.GroupMessage, "retry_requested"), &events.MessageRetryRequested{By: "operator:ana", Reason: "test"}
	p.put(r)
}

// other appends an event of any type and group.
func (p *tape) other(group, name string) events.Recorded {
	var r events.Recorded
	r.Type, r.Address = group+"."+name+".v1", events.EventSubject(1, instance, group, name)
	return p.put(r)
}

// receipt is what the gateway said later of a message that left, as tails read it: without its body.
func (p *tape) receipt(id, name string) {
	var r events.Recorded
	r.Type, r.Subject, r.QueuedSeq, r.Partial = "receipt."+name+".v1", id, p.queuedSeq[id], true
	r.Address = events.EventSubject(1, instance, events.GroupReceipt, name)
	p.put(r)
}

// queue folds the log.
func (p *tape) queue(rules Rules) *Queue {
	q := New(instance, rules)
	for _, r := range p.log {
		q.Apply(r)
	}
	return q
}
