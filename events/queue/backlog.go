package queue

import (
	"time"

	"pilotstatus.dev/events"
)

// backlogScan is how many places of a lane are looked at one by one; of a longer lane its length is taken, stale places included.
const backlogScan = 1000

// Backlog counts, by class, the messages that are due and have not begun. Of long lanes it is an estimate that is never too low.
func (q *Queue) Backlog(now time.Time) map[events.Class]int {
	q.advance(now)
	out := map[events.Class]int{}
	for class, c := range q.ix.ready {
		n := 0
		for _, t := range c.tenants {
			for _, l := range t.lanes {
				n += l.live()
			}
		}
		if n > 0 {
			out[class] = n
		}
	}
	return out
}

func (h *places) live() int {
	if len(*h) > backlogScan {
		return len(*h)
	}
	n := 0
	for _, p := range *h {
		if p.ver == p.e.ver {
			n++
		}
	}
	return n
}
