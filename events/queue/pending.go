package queue

import "time"

// Pending lists the messages that are not over and have not left, by the sequence of their acceptance.
func (q *Queue) Pending() []*Entry {
	set := make(map[*Entry]struct{}, len(q.entries))
	for _, e := range q.entries {
		if !e.sum().Settled() {
			set[e] = struct{}{}
		}
	}
	return bySeq(set)
}

// NewestBound gives the gateway id that was bound to a message of ours last, and when; "" when none is remembered.
func (q *Queue) NewestBound() (newest string, when time.Time) {
	for id, at := range q.bound {
		if newest == "" || at.After(when) || (at.Equal(when) && id < newest) {
			newest, when = id, at
		}
	}
	return newest, when
}
