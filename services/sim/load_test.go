package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/keyring"
)

// load accepts the planned messages, each at its time, as the API does. It gives the latest deadline.
func (w *world) load() (latest time.Time) {
	var mu sync.Mutex
	var accepting sync.WaitGroup
	for _, m := range w.plan.Messages {
		if m.Quiet {
			<-w.calmed
			m.At += w.late
		}
		w.sleepUntil(m.At)
		accepting.Go(func() { // the log may keep one waiting, and not the next
			a, err := w.accept(m)
			if err != nil {
				w.rec.hit("sends refused")
				return
			}
			w.rec.note(func(r *recording) { r.Accepted = append(r.Accepted, a) })
			if m.Cancel > 0 && !a.Unknown {
				w.later(m.Cancel, func() { w.callOff([]acceptedMessage{a}) })
			}
			mu.Lock()
			defer mu.Unlock()
			if a.DeliverUntil.After(latest) {
				latest = a.DeliverUntil
			}
		})
		synctest.Wait() // those of one moment keep their order
	}
	accepting.Wait()
	return latest
}

// act does the planned actions, each at its time or as soon as the one before is done.
func (w *world) act() {
	for _, a := range w.plan.Actions {
		w.sleepUntil(a.At + w.late)
		a.Do(w)
	}
}

func (w *world) sleepUntil(at time.Duration) {
	w.rec.mu.Lock()
	began := w.rec.rec.Began
	w.rec.mu.Unlock()
	pass(time.Until(began.Add(at)))
}

func (w *world) accept(m planned) (acceptedMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	content := template.Content{Body: m.Text}
	if m.Buttons {
		content = template.Content{Header: m.Text, Body: "choose", Buttons: []template.RenderedButton{{Type: template.QuickReply, Text: "yes"}}}
	}
	raw, err := json.Marshal(events.Payload{Destination: "+" + m.Number, Digits: m.Number, Content: content})
	if err != nil {
		return acceptedMessage{}, err
	}
	if m.Clock != 0 {
		w.rec.hit("sends by a wrong clock")
	}
	now := time.Now().Add(m.Clock).UTC().Truncate(time.Millisecond)
	p := events.PartitionOf(instanceID(m.Instance), partitions)
	id, cor := events.MessageID(idAt(now), p), events.CorrelationID(idAt(now))
	sealed, err := w.keys.Seal(ctx, m.Tenant, "day", keyring.AAD(m.Tenant, id, events.FieldPayload), raw)
	if err != nil {
		return acceptedMessage{}, fmt.Errorf("seal: %w", err)
	}
	ev := events.Event{
		Address: events.QueuedSubject(p, events.Lane{Instance: instanceID(m.Instance), Class: m.Class, Tenant: m.Tenant, Slot: slotOf(m)}),
		Envelope: events.Envelope{
			ID: id, Type: events.TypeMessageQueued, Source: "pilot/sim", Time: now, Subject: id, TenantID: m.Tenant,
			DeliverUntil: now.Add(m.DeliverAt + m.Window).Truncate(time.Millisecond),
		},
		Body: &events.MessageQueued{
			Project: "project-" + m.Tenant, Environment: events.Live, KeyID: "key-" + m.Tenant, Category: m.Class.Category(),
			Origin: "Sim", CorrelationID: cor, RecipientHash: "h", RetentionDays: 7, Sealed: sealed,
		},
	}
	if m.DeliverAt > 0 {
		ev.DeliverAt = now.Add(m.DeliverAt).Truncate(time.Millisecond)
	}
	a := acceptedMessage{ID: id, Instance: instanceID(m.Instance), Tenant: m.Tenant, Text: m.Text, DeliverUntil: ev.DeliverUntil, ReadyAt: newer(now, ev.DeliverAt)}
	for again := range 2 { // a client posts again after a 503, and gets the same id
		var err error
		a.Seq, err = w.store(ev)
		if a.Unknown = err != nil; !a.Unknown || again == m.Reposts {
			break
		}
		w.rec.hit("sends unknown, posted again")
		pass(time.Second)
	}
	if a.Unknown {
		w.rec.hit("sends unknown")
	}
	return a, nil
}

// idAt makes an id of version 7 whose time is another clock's.
func idAt(at time.Time) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

// appendFor is how long the API tries before it answers 503.
const appendFor = 20 * time.Second

func (w *world) store(ev events.Event) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), appendFor)
	defer cancel()
	ack, err := w.accepts.Append(ctx, ev)
	return ack.Sequence, err
}

func newer(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
