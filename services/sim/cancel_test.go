package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
)

const (
	cancelEvery  = 9                // one message in so many is canceled by itself
	cancelTries  = 3                // appends of one request, as the API's
	cancelWithin = 20 * time.Second // the request
	mostCanceled = 60               // messages of one request
)

// drawCancels plans requests to cancel: of one message just after it was accepted, around its deliverAt or at any time; and of all
// that was accepted for an instance of late.
func (p *plan) drawCancels(r *rand.Rand) {
	for i, m := range p.Messages {
		if r.IntN(cancelEvery) > 0 {
			continue
		}
		after := within(r, time.Millisecond, m.DeliverAt+m.Window)
		switch r.IntN(3) {
		case 0:
			after = within(r, time.Millisecond, 3*time.Second)
		case 1:
			if m.DeliverAt > 2*time.Second {
				after = m.DeliverAt + within(r, -time.Second, 2*time.Second)
			}
		default:
		}
		p.Messages[i].Cancel = after
	}
	for range 2*int(p.Length/time.Hour) + 1 {
		n, most := r.IntN(instances), 2+r.IntN(mostCanceled-2)
		p.do(within(r, time.Minute, p.Length), func(w *world) {
			asked := w.newest(n, most)
			w.later(time.Millisecond, func() { w.callOff(asked) }) // the log may keep it waiting, and no other action
		})
	}
}

// newest gives the messages that were accepted last for an instance and are known to be stored.
func (w *world) newest(n, most int) (found []acceptedMessage) {
	w.rec.note(func(r *recording) {
		for i := len(r.Accepted) - 1; i >= 0 && len(found) < most; i-- {
			if a := r.Accepted[i]; a.Instance == instanceID(n) && !a.Unknown {
				found = append(found, a)
			}
		}
	})
	return found
}

// callOff cancels messages of one instance through its fenced group, as the API does while it has no views, and records what it answers.
func (w *world) callOff(asked []acceptedMessage) {
	if len(asked) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), cancelWithin)
	defer stop()
	p := events.PartitionOf(asked[0].Instance, partitions)
	said, after := map[string]cancel.Verdict{}, asked[0].Seq
	messages := make([]cancel.Message, len(asked))
	for i, a := range asked {
		said[a.ID], after = cancel.TryAgain, min(after, a.Seq)
		messages[i] = cancel.Message{ID: a.ID, QueuedSeq: a.Seq, Tenant: a.Tenant, ReadyAt: a.ReadyAt}
	}
	began, g := time.Now(), cancel.NewGroup(after, messages)
	for range cancelTries {
		recs, last, err := w.accepts.ReadGroup(ctx, p, asked[0].Instance, g.At())
		if err != nil {
			break
		}
		g.Apply(recs...)
		for id := range said {
			if said[id] = g.Verdict(id); said[id] == cancel.May { // decided below, or not in time
				said[id] = cancel.TryAgain
			}
		}
		end, some := g.Close()
		if !some {
			break
		}
		_, err = w.accepts.AppendFenced(ctx, p, asked[0].Instance, events.Event{
			Address:  events.EventSubject(p, asked[0].Instance, events.GroupDispatch, "closed"),
			Envelope: events.Envelope{ID: uuid.NewString(), Type: events.TypeDispatchClosed, Source: "pilot/sim", Time: time.Now().UTC()},
			Body:     &end,
		}, last)
		if err == nil {
			for _, m := range end.Messages {
				said[m.ID] = cancel.Canceled
			}
		}
		if events.CodeOf(err) != events.CodeFenced {
			break
		}
	}
	w.rec.note(func(r *recording) {
		for _, a := range asked {
			r.Cancels = append(r.Cancels, cancelAnswer{ID: a.ID, Asked: began, Verdict: said[a.ID]})
		}
	})
}
