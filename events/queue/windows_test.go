package queue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// owner is who works for an instance, in virtual time: it sleeps until something is due, makes ends that are due, begins what it may, and
// makes ends each second while a call is under way.
type owner struct {
	*house
	windows map[string][2]time.Time // deliverAt, deliverUntil
	began   map[string]time.Time    // the last start
	over    map[string]time.Time    // accepted, or ended
	codes   map[string]events.ErrorCode
}

func (o *owner) ends() {
	for _, c := range o.q.Closes(o.now, 1000) {
		for _, m := range c.Messages {
			if _, twice := o.over[m.ID]; twice {
				panic("ended twice: " + m.ID)
			}
			o.over[m.ID], o.codes[m.ID] = o.now, c.Code
		}
		o.closed(c)
		o.q.Apply(o.log[len(o.log)-1])
	}
}

func (o *owner) say(name string) {
	o.instance(name)
	o.q.Apply(o.log[len(o.log)-1])
}

// work does all that is due now; a call takes so long and has an outcome.
func (o *owner) work(t *rapid.T) {
	o.ends()
	for range 50 {
		s, ok := o.q.Next(o.now)
		if !ok {
			return
		}
		id, n := s.Entry.ID, s.Attempt
		if w := o.windows[id]; o.now.Before(w[0]) || !o.now.Before(w[1]) {
			t.Fatalf("%s begins at %v, its window is %v", id, o.now, w)
		}
		o.began[id] = o.now
		o.started(id, n)
		o.q.Apply(o.log[len(o.log)-1])
		ends := o.now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "call")) * time.Second) // its limit
		for at := o.now.Add(time.Second); at.Before(ends); at = at.Add(time.Second) {
			o.now = at
			o.ends()
		}
		o.now = ends
		switch rapid.IntRange(0, 3).Draw(t, "outcome") {
		case 0:
			due := o.q.Rules().RetryAt(s.Entry.Category(), n, rapid.Float64Range(0, 0.99).Draw(t, "draw"), o.now, o.windows[id][1])
			o.deferred(id, n, due.Sub(o.now).Seconds(), events.DispatchDeferred{Called: rapid.Bool().Draw(t, "called")})
		default:
			o.accepted(id, n, "G-"+id)
			o.over[id] = o.now
		}
		o.q.Apply(o.log[len(o.log)-1])
		o.ends()
	}
}

// Promise P3 in virtual time: whatever holds an instance (a pause, a park, a lost connection, a suspended tenant, a drain, a backlog, slow
// calls), nothing begins outside its window, and what did not leave has ended a second after deliverUntil; only a call of its own that
// began before makes it later. The dispatcher adds the time of an append: five seconds is its bound.
func TestP3EndsAndStartsKeepTheWindowWhateverHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := &owner{
			house: newHouse(DefaultRules()), windows: map[string][2]time.Time{}, began: map[string]time.Time{}, over: map[string]time.Time{},
			codes: map[string]events.ErrorCode{},
		}
		accept := func() {
			o.next++
			from := o.now
			m := msg{
				id: fmt.Sprintf("m%04d", o.next), class: rapid.SampledFrom(events.Classes()).Draw(t, "class"),
				tenant: rapid.SampledFrom([]string{"t-a", "t-b"}).Draw(t, "tenant"), slot: rapid.Uint8Range(0, 1).Draw(t, "slot"),
			}
			if rapid.Bool().Draw(t, "scheduled") {
				from = from.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "in")) * time.Second)
				m.deliverAt = from
			}
			m.deliverUntil = from.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "window")) * time.Second)
			o.windows[m.id] = [2]time.Time{from, m.deliverUntil}
			o.queued(m)
			o.q.Apply(o.log[len(o.log)-1])
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				for range rapid.IntRange(1, 8).Draw(t, "messages") {
					accept()
				}
			case 3, 4:
				o.say(rapid.SampledFrom([]string{"paused", "resumed", "parked", "opened", "closed", "draining", "unparked"}).Draw(t, "word"))
			case 5:
				r := o.q.Rules()
				r.Suspended = map[string]bool{"t-a": rapid.Bool().Draw(t, "suspended")}
				o.q.SetRules(r)
			}
			o.until(t, o.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "then"))*time.Second))
		}
		o.until(t, o.now.Add(10*time.Minute)) // all windows are over, whatever holds
		for id, w := range o.windows {
			at, over := o.over[id]
			e, known := o.q.Entry(id)
			if !over || (known && !e.Summary().Settled()) {
				t.Fatalf("%s is not over at %v, its window was %v", id, o.now, w)
			}
			bound := w[1].Add(time.Second)
			if began := o.began[id]; began.Before(w[1]) && began.Add(15*time.Second).After(bound) {
				bound = began.Add(15 * time.Second)
			}
			if at.After(bound) {
				t.Fatalf("%s is over at %v, later than %v", id, at, bound)
			}
			if code := o.codes[id]; code == events.FailExpired && o.q.entries[id] != nil && o.q.entries[id].sum().Called() {
				t.Fatalf("%s: %s though it was called", id, code)
			}
		}
	})
}

// until works until a time, and sleeps as long as the fold lets it.
func (o *owner) until(t *rapid.T, end time.Time) {
	for {
		o.work(t)
		wake := o.q.Wake(o.now)
		if wake.IsZero() || wake.After(end) {
			if o.now.Before(end) {
				o.now = end
			}
			return
		}
		o.now = wake
	}
}
