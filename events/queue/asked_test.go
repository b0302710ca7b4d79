package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// A weight of 5 has five turns to one however many slots there are, paced or not, and whenever the queue is asked when to wake: as an actor
// asks while a turn is under way, which may hold every tenant of the class.
func TestWeightsHoldWheneverTheQueueIsAsked(t *testing.T) {
	t.Parallel()
	for name, pace := range map[string]events.Pacing{"paced": own(events.Pace{RatePerMinute: 60}), "unpaced": {}} {
		for _, slots := range []uint8{1, 4} {
			for _, calls := range []int{1, 8} {
				rules := pacedRules(pace)
				rules.Concurrency = calls
				rules.Weight = func(tenant string) int { return map[string]int{"t-a": 5, "t-b": 1}[tenant] }
				h := newHouse(rules)
				for i := range 200 {
					h.accept(events.ClassMarketing, "t-a", uint8(i)%slots, 1)
					h.accept(events.ClassMarketing, "t-b", uint8(i)%slots, 1)
				}
				ask := func() {
					h.q.Wake(h.now)
					if slots == 1 { // nothing else may start, whatever is allowed at once
						if s, ok := h.q.Next(h.now); ok {
							t.Fatalf("%s goes beside another of its slot", s.Entry.ID)
						}
					}
				}
				got := map[string]int{}
				for range 120 {
					s, ok := h.q.Next(h.now)
					for !ok {
						h.now = h.q.Wake(h.now)
						s, ok = h.q.Next(h.now)
					}
					got[s.Entry.Lane.Tenant]++
					h.q.Take(s.Entry.ID)
					ask()
					h.started(s.Entry.ID, 1)
					h.q.Apply(h.log[len(h.log)-1])
					ask()
					h.accepted(s.Entry.ID, 1, "G-"+s.Entry.ID)
					h.q.Apply(h.log[len(h.log)-1])
					h.q.Release(s.Entry.ID)
					h.q.Wake(h.now)
				}
				if diff := cmp.Diff(map[string]int{"t-a": 100, "t-b": 20}, got); diff != "" {
					t.Errorf("%s, %d slots, %d calls at once: %s", name, slots, calls, diff)
				}
			}
		}
	}
}

// asks asks a queue everything that is no choice.
func asks(t *rapid.T, q *Queue, ids []string, now time.Time) {
	q.Held(now)
	q.Wake(now)
	q.QuietUntil()
	q.Backlog(now)
	q.Left()
	q.Pending()
	q.Doubts()
	for _, c := range events.Categories() {
		q.PacedUntil(c)
	}
	for _, id := range ids {
		q.MayStart(id, now)
		q.MayCall(id)
		q.MayClose(id, events.ClosedCanceled, now)
		q.Overtaken(id, now)
	}
	if rapid.Bool().Draw(t, "once more") {
		q.Wake(now)
	}
}

// Questions change nothing: who is asked between any two steps chooses as who is not. Both see at the same times who has become ready,
// since tenants take their places in the order in which they are seen.
func TestAskingChangesNoChoice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := pacedRules(drawPacing(t))
		rules.Concurrency = rapid.IntRange(1, 3).Draw(t, "concurrency")
		rules.Weight = func(tenant string) int { return map[string]int{"a": 1, "b": 2, "c": 5}[tenant] }
		slots := rapid.Uint8Range(1, 3).Draw(t, "slots")
		p := newTape()
		silent, asked := New(instance, rules), New(instance, rules)
		both := []*Queue{silent, asked}
		fold := func() {
			for _, r := range p.log {
				for _, q := range both {
					q.Apply(r)
				}
			}
			p.log = p.log[:0]
		}
		var ids, under []string
		tries := map[string]int{} // of those that are under way; 0: not started
		over := func(id string) {
			for _, q := range both {
				q.Release(id)
			}
			under = slices.DeleteFunc(under, func(x string) bool { return x == id })
			delete(tries, id)
		}
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				for range rapid.IntRange(1, 4).Draw(t, "messages") {
					id := fmt.Sprintf("m%d", len(ids))
					ids = append(ids, id)
					p.queued(msg{
						id: id, class: rapid.SampledFrom(events.Classes()).Draw(t, "class"), tenant: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"),
						slot: rapid.Uint8Range(0, slots-1).Draw(t, "slot"), deliverUntil: p.now.Add(time.Duration(rapid.SampledFrom([]int{5, 1e6, 1e6}).Draw(t, "window")) * time.Second),
					})
				}
			case 2:
				p.now = p.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "tenths")) * max(rules.Pace.GapMin, time.Second) / 10)
				for _, c := range silent.Closes(p.now, 1000) {
					if !slices.ContainsFunc(c.Messages, func(m events.ClosedMessage) bool { return slices.Contains(under, m.ID) }) {
						p.closed(c)
					}
				}
			case 3:
				p.instance(rapid.SampledFrom([]string{"paused", "resumed", "draining"}).Draw(t, "word"))
			case 4, 5, 6:
				a, ok := silent.Next(p.now)
				b, too := asked.Next(p.now)
				if ok != too || ok && (a.Entry.ID != b.Entry.ID || a.Claimed != b.Claimed) {
					t.Fatalf("%+v %v is next, when asked before %+v %v", a.Entry, ok, b.Entry, too)
				}
				if ok {
					silent.Take(a.Entry.ID)
					asked.Take(a.Entry.ID)
					under = append(under, a.Entry.ID)
				}
			default:
				if len(under) == 0 {
					break
				}
				id := rapid.SampledFrom(under).Draw(t, "under way")
				e, ok := silent.Entry(id)
				switch what := rapid.IntRange(0, 3).Draw(t, "becomes"); {
				case tries[id] > 0 && what == 0:
					p.deferred(id, tries[id], 0, events.DispatchDeferred{Called: rapid.Bool().Draw(t, "called")})
				case tries[id] > 0:
					p.accepted(id, tries[id], "G-"+id)
				case ok && what <= 1 && silent.MayStart(id, p.now) == HoldNone:
					tries[id] = e.NextAttempt()
					p.started(id, tries[id])
				case what == 2:
					for _, q := range both {
						q.GiveWay(id)
					}
				default:
					p.ended(events.ClosedFailed, id)
				}
				fold()
				if e, ok := silent.Entry(id); !ok || e.Summary().Open() == 0 {
					over(id)
				}
			}
			fold()
			for _, q := range both {
				q.advance(p.now)
			}
			if rapid.Bool().Draw(t, "asked") {
				asks(t, asked, ids, p.now)
			}
		}
	})
}
