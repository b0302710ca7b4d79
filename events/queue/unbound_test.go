package queue

import (
	"testing"
	"time"
)

// What left without an id that anybody knows is remembered while another attempt is looked up: its row must not prove that one.
func TestUnboundStaysWhileAnotherIsInDoubt(t *testing.T) {
	t.Parallel()
	p := newTape()
	for _, id := range []string{"gone", "doubt"} {
		p.queued(msg{id: id})
		p.started(id, 1)
	}
	p.accepted("gone", 1, "")
	p.unknown("doubt", 1)
	q := p.queue(DefaultRules())
	late := p.now.Add(11 * time.Minute)
	q.Compact(p.seq, late)
	if q.Len() != 2 {
		t.Fatalf("%d left, want both", q.Len())
	}
	p.proved("doubt", 1)
	q.Apply(p.log[len(p.log)-1])
	q.Compact(p.seq, late)
	if q.Len() != 0 {
		t.Errorf("%d left", q.Len())
	}
}
