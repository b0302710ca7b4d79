package queue

import (
	"fmt"
	"testing"
	"time"

	"pilotstatus.dev/events"
)

func TestBoundIDsAreForgottenAfterAWhile(t *testing.T) {
	t.Parallel()
	p := newTape()
	p.queued(msg{id: "a", deliverUntil: after(1e6)})
	for i := range boundLimit + 10 {
		p.at(float64(i)).dispatch("a", "proved", 0, &events.DispatchProved{}, gateway(string(rune('A'+i))))
	}
	p.at(3700).dispatch("a", "proved", 0, &events.DispatchProved{}, gateway("newest"))
	q := p.queue(DefaultRules())
	q.Compact(p.seq, p.now)
	if q.Bound("A") || !q.Bound("newest") || !q.Bound(string(rune('A'+boundLimit))) {
		t.Errorf("%d ids kept", len(q.bound))
	}
}

// The ids of what left are remembered as long as they can explain a row that a look-up asks about: also for messages that have ended.
func TestGatewayIDsOutliveTheGhostsTheyExplain(t *testing.T) {
	t.Parallel()
	p := newTape()
	q := New(instance, DefaultRules())
	n := 0
	feed := func() {
		for ; n < len(p.log); n++ {
			q.Apply(p.log[n])
			q.Compact(p.log[n].Position.Sequence, p.now)
		}
	}
	start := p.now
	sent := func(id, key string, after time.Duration) {
		p.now = start.Add(after)
		p.queued(msg{id: id})
		p.started(id, 1)
		p.accepted(id, 1, key)
		feed()
	}
	doubt := func(id string, after, window time.Duration) {
		p.now = start.Add(after)
		p.queued(msg{id: id, deliverUntil: start.Add(window)})
		p.started(id, 1)
		p.unknown(id, 1)
		feed()
	}
	sent("earliest", "K0", -55*time.Minute)
	doubt("ghost", 0, 5*time.Minute)
	sent("m1", "K1", time.Minute)
	doubt("live", 10*time.Minute, 24*time.Hour)
	p.now = start.Add(15 * time.Minute)
	p.ended(events.ClosedTimeout, "ghost")
	feed()
	for i := range boundLimit + 50 {
		sent(fmt.Sprint("f", i), fmt.Sprint("F", i), 20*time.Minute+time.Duration(i)*20*time.Second)
	}
	if len(q.Ghosts()) != 1 || !q.Bound("K0") || !q.Bound("K1") {
		t.Errorf("%d ghosts; known: K0 %v, K1 %v", len(q.Ghosts()), q.Bound("K0"), q.Bound("K1"))
	}
}
