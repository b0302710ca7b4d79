package queue

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

func TestBacklogCountsWhatIsDue(t *testing.T) {
	t.Parallel()
	p := newTape()
	q := p.queue(DefaultRules())
	put := func(r events.Recorded) { q.Apply(r) }
	for i := range 12 {
		class := events.ClassUtility
		if i%3 == 0 {
			class = events.ClassOTP
		}
		p.queued(msg{id: fmt.Sprintf("m%d", i), class: class})
		put(p.log[len(p.log)-1])
	}
	p.queued(msg{id: "later", class: events.ClassOTP, deliverAt: after(3600), deliverUntil: after(9000)})
	put(p.log[len(p.log)-1])
	check := func(what string, want map[events.Class]int) {
		t.Helper()
		if diff := cmp.Diff(want, q.Backlog(p.now)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("accepted", map[events.Class]int{events.ClassOTP: 4, events.ClassUtility: 8})
	p.started("m0", 1)
	put(p.log[len(p.log)-1])
	p.ended(events.ClosedCanceled, "m1", "m2", "m3")
	put(p.log[len(p.log)-1])
	check("one begun, three canceled", map[events.Class]int{events.ClassOTP: 2, events.ClassUtility: 6})
	p.at(7200)
	if got := q.Backlog(p.now)[events.ClassOTP]; got != 3 {
		t.Errorf("what was scheduled is due: %d", got)
	}
}
