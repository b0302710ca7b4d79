package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// dispatched gives the events of the fenced group behind a sequence.
func (p *tape) dispatched(after uint64) (out []events.Recorded) {
	for _, r := range p.log {
		if addr, err := events.ParseEventSubject(r.Address); err == nil && addr.Group == events.GroupDispatch && r.Position.Sequence > after {
			out = append(out, r)
		}
	}
	return out
}

// R1, R7: the ends that a part of the log allows are those that the whole log allows, wherever the part begins.
func TestSinceEndsAsTheWholeFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, rules := legalTape(t), drawRules(t)
		whole := p.queue(rules)
		now := p.now.Add(time.Duration(rapid.IntRange(-50, 1200).Draw(t, "now")) * time.Second)
		var accepted []events.Recorded
		chosen := map[string]bool{}
		for _, r := range p.log {
			if r.Type == events.TypeMessageQueued && !chosen[r.Subject] && rapid.Bool().Draw(t, "chosen "+r.Subject) {
				chosen[r.Subject] = true
				accepted = append(accepted, r)
			}
		}
		if len(accepted) == 0 {
			return
		}
		part := Since(instance, rules, accepted, p.dispatched(accepted[0].Position.Sequence-1))
		if u := whole.Unreadable(); len(u) > 0 && u[0] < accepted[0].Position.Sequence {
			return // the whole fold is held by what lies before
		}
		ends := func(q *Queue) map[string]string {
			out := map[string]string{}
			for id := range chosen {
				for _, reason := range []string{events.ClosedExpired, events.ClosedCanceled, events.ClosedTimeout, events.ClosedFailed} {
					out[id+" "+reason] = string(q.MayClose(id, reason, now))
				}
			}
			for _, e := range q.Open() {
				if chosen[e.ID] {
					out[e.ID+" open"] = fmt.Sprint(e.Summary().Open())
				}
			}
			for _, c := range q.Closes(now, 100) {
				for _, m := range c.Messages {
					if chosen[m.ID] {
						out[m.ID+" due"] = fmt.Sprint(c.Reason, c.Code, c.Presumed, m.QueuedSeq)
					}
				}
			}
			return out
		}
		if diff := cmp.Diff(ends(whole), ends(part)); diff != "" {
			t.Fatalf("(-whole +part):\n%s", diff)
		}
	})
}

func TestSinceSeesAMissingEvent(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "before", deliverUntil: after(10)})
	p.started("before", 1)
	p.unknown("before", 1)
	p.queued(msg{id: "a", deliverUntil: after(10)})
	p.started("a", 1)
	p.deferred("a", 1, 5, events.DispatchDeferred{Called: true})
	accepted, group := p.log[3:4], p.dispatched(3)
	if h := Since(instance, DefaultRules(), accepted, group).MayClose("a", events.ClosedExpired, after(11)); h != HoldNone {
		t.Errorf("whole: %q", h)
	}
	if h := Since(instance, DefaultRules(), accepted, group[1:]).MayClose("a", events.ClosedExpired, after(11)); h != HoldBroken {
		t.Errorf("without its first event: %q", h)
	}
	if h := Since(instance, DefaultRules(), nil, nil).MayClose("a", events.ClosedExpired, after(11)); h != HoldNotPending {
		t.Errorf("of nothing: %q", h)
	}
}
