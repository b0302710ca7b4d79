package bench

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
)

// Where a message is in its life, counted in messages of its partition that were accepted after it: events of many messages
// overlap, as they do under load.
const (
	calledAfter    = 8
	againAfter     = 24 // the second attempt, where the first was deferred or its answer is unknown
	sentAfter      = 32
	deliveredAfter = 64
	readAfter      = 512
)

// teller makes up the log of one partition: the events that the roles write, in orders in which they write them. It is for one
// goroutine.
type teller struct {
	part  events.Partition
	lines []*line
	seq   uint64 // of the newest event: nobody else may write to the partition
	send  func(events.Event) error

	source  *rand.ChaCha8
	rnd     *rand.Rand
	told    [readAfter + 1]*tale
	started int // messages
}

// line is an instance.
type line struct {
	instance string
	prev     uint64 // sequence of its newest fenced event
}

// tale is a message.
type tale struct {
	n                     int
	id, tenant, gatewayID string
	line                  *line
	queuedSeq             uint64
	until                 time.Time
	left                  bool // the gateway took it
}

func newTeller(p events.Partition, instances []string, send func(events.Event) error) *teller {
	source := rand.NewChaCha8([32]byte{byte(p)})
	t := &teller{part: p, send: send, source: source, rnd: rand.New(source)} //nolint:gosec // made-up data, the same in every run
	for _, id := range instances {
		t.lines = append(t.lines, &line{instance: id})
	}
	return t
}

// step accepts one message and lets earlier ones go on. Of a hundred one is refused, five are deferred and called again, one is
// unknown until a look-up proves it; of ten that were delivered seven are read.
func (t *teller) step() error {
	m, err := t.accept(time.Time{})
	if err != nil {
		return err
	}
	t.told[m.n%len(t.told)] = m
	for _, age := range []int{calledAfter, againAfter, sentAfter, deliveredAfter, readAfter} {
		if m.n < age {
			break
		}
		if err := t.goOn(t.told[(m.n-age)%len(t.told)], age); err != nil {
			return err
		}
	}
	return nil
}

func (t *teller) goOn(m *tale, age int) error {
	fate := m.n % 100
	switch age {
	case calledAfter:
		if err := t.call(m, 1); err != nil {
			return err
		}
		switch {
		case fate == 0:
			return t.outcome(m, events.TypeDispatchRefused, 1, &events.DispatchRefused{
				Code: events.FailGatewayRejected, Cause: "rejected", HTTPStatus: 400, ElapsedMS: 31,
			})
		case fate <= 5:
			return t.outcome(m, events.TypeDispatchDeferred, 1, &events.DispatchDeferred{Cause: "not_ready", Called: true, HTTPStatus: 500, ElapsedMS: 12})
		case fate == 6:
			return t.outcome(m, events.TypeDispatchUnknown, 1, &events.DispatchUnknown{Cause: "limit", ElapsedMS: 15000})
		}
		return t.take(m, 1)
	case againAfter:
		switch {
		case fate >= 1 && fate <= 5:
			if err := t.call(m, 2); err != nil {
				return err
			}
			return t.take(m, 2)
		case fate == 6:
			m.left = true
			return t.outcome(m, events.TypeDispatchProved, 1, &events.DispatchProved{By: events.ProofLookUp})
		}
		return nil
	case sentAfter:
		return t.receipt(m, events.TypeReceiptSent, "SERVER_ACK")
	case deliveredAfter:
		return t.receipt(m, events.TypeReceiptDelivered, "DELIVERY_ACK")
	}
	if fate%10 >= 7 {
		return nil
	}
	return t.receipt(m, events.TypeReceiptRead, "READ")
}

// accept appends a message as the API does; deliverAt may be zero. What is sealed is as long as a payload, and random as one.
func (t *teller) accept(deliverAt time.Time) (*tale, error) {
	now := time.Now().UTC()
	u, err := uuid.NewV7FromReader(t.source)
	if err != nil {
		return nil, fmt.Errorf("draw an id: %w", err)
	}
	m := &tale{n: t.started, id: events.MessageID(u, t.part), line: t.lines[t.started%len(t.lines)], queuedSeq: t.seq + 1}
	t.started++
	m.tenant = fmt.Sprintf("tenant-%d", m.n%20)
	m.gatewayID = "3EB0" + strings.ToUpper(t.hex(9))
	body := &events.MessageQueued{
		Project: "project-" + m.tenant, Environment: events.Live, KeyID: "key-" + m.tenant, Category: events.Utility,
		TemplateID: "order-shipped", TemplateVersion: 3, Origin: m.line.instance, SourceNumber: "5511900000000",
		CorrelationID: events.CorrelationID(u), RecipientHash: t.hex(32), RetentionDays: 30,
	}
	switch m.n % 10 {
	case 0, 1:
		body.Category = events.OTP
	case 2, 3, 4:
		body.Category, body.Labels = events.Marketing, []string{"campaign"}
	}
	body.Sealed = events.Sealed{
		KeyID: events.DataKeyID(m.id, body.Project, body.RetentionDays, now),
		Blob:  t.bytes(280 + t.rnd.IntN(160)),
	}
	m.until = now.Add(events.Window(body.Category))
	if !deliverAt.IsZero() {
		m.until = deliverAt.Add(events.Window(body.Category))
	}
	lane := events.Lane{Instance: m.line.instance, Class: events.ClassOf(body.Category, false), Tenant: m.tenant}
	return m, t.append(m.line, events.Event{
		Envelope: events.Envelope{
			ID: m.id, Type: events.TypeMessageQueued, Source: "pilot/api", Time: now, Subject: m.id, TenantID: m.tenant,
			DeliverAt: deliverAt, DeliverUntil: m.until, TraceParent: "00-" + t.hex(16) + "-" + t.hex(8) + "-01",
		},
		Address: events.QueuedSubject(t.part, lane), Body: body,
	})
}

func (t *teller) call(m *tale, attempt int) error {
	e := t.about(m, events.TypeDispatchStarted, attempt, &events.DispatchStarted{
		Call: "sendText", BudgetMS: 2000, LimitMS: 15000, JIDHash: t.hex(32),
	})
	e.Nonce, e.DeliverUntil = t.id(), m.until
	return t.append(m.line, e)
}

// take is the outcome of a call that the gateway took.
func (t *teller) take(m *tale, attempt int) error {
	m.left = true
	return t.outcome(m, events.TypeDispatchAccepted, attempt, &events.DispatchAccepted{HTTPStatus: 201, ElapsedMS: 87, Timestamp: time.Now().Unix()})
}

func (t *teller) outcome(m *tale, wireType string, attempt int, body any) error {
	e := t.about(m, wireType, attempt, body)
	switch b := body.(type) {
	case *events.DispatchAccepted, *events.DispatchProved:
		e.GatewayID = m.gatewayID
	case *events.DispatchDeferred:
		b.DueAt = e.Time.Add(time.Second)
		e.Called, e.DueAt = b.Called, b.DueAt
	}
	return t.append(m.line, e)
}

func (t *teller) receipt(m *tale, wireType, word string) error {
	if !m.left {
		return nil
	}
	now := time.Now().UTC()
	e := t.about(m, wireType, 0, &events.Receipt{GatewayStatus: word, At: now.Truncate(time.Second), ReceivedAt: now})
	e.ID, e.Source, e.GatewayID = m.id+"."+nameOf(wireType), "pilot/correlator", m.gatewayID
	return t.append(m.line, e)
}

func (t *teller) about(m *tale, wireType string, attempt int, body any) events.Event {
	return events.Event{
		Envelope: events.Envelope{
			ID: t.id(), Type: wireType, Source: "pilot/dispatcher", Time: time.Now().UTC(), Subject: m.id, TenantID: m.tenant,
			Attempt: attempt, QueuedSeq: m.queuedSeq,
		},
		Body: body,
	}
}

// append gives an event its address, and a fenced one its place in the chain of its instance.
func (t *teller) append(l *line, e events.Event) error {
	spec, _, ok := events.Standard.Lookup(e.Type)
	if !ok {
		return fmt.Errorf("make up a log: there is no event %s", e.Type)
	}
	if e.Address == "" {
		group, name, _ := strings.Cut(spec.Name, ".")
		e.Address = events.EventSubject(t.part, l.instance, group, name)
	}
	t.seq++
	if spec.Fenced {
		e.Prev, l.prev = l.prev, t.seq
	}
	return t.send(e)
}

// nameOf gives the last word of a wire name, without its version.
func nameOf(wireType string) string {
	spec, _, _ := events.Standard.Lookup(wireType)
	_, name, _ := strings.Cut(spec.Name, ".")
	return name
}

func (t *teller) bytes(n int) []byte {
	b := make([]byte, n)
	_, _ = t.source.Read(b) // it never fails
	return b
}

func (t *teller) hex(n int) string { return hex.EncodeToString(t.bytes(n)) }

// id draws the id of an event.
func (t *teller) id() string {
	u := uuid.UUID(t.bytes(16))
	u[6], u[8] = 0x70|u[6]&0x0f, 0x80|u[8]&0x3f
	return u.String()
}
