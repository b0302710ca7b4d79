package queue

import "pilotstatus.dev/events"

// Since folds a part of an instance's log: what is asked about some of its messages when no whole fold is at hand. accepted are
// their queued events, group the events of the fenced group behind the first of them, in order and without leaving one out. Ends
// and open starts of these messages are those of the whole fold; whether one may start is not, since that depends on the others.
func Since(instance string, rules Rules, accepted, group []events.Recorded) *Queue {
	q := New(instance, rules)
	if len(accepted) == 0 {
		return q
	}
	first := accepted[0].Position.Sequence
	for _, rec := range accepted {
		first = min(first, rec.Position.Sequence)
	}
	q.floor = first - 1
	if len(group) > 0 { // it names an event that lies before the reading, wherever that is
		q.chain.group = min(group[0].Prev, q.floor)
	}
	for _, rec := range accepted {
		q.Apply(rec)
	}
	for _, rec := range group {
		q.Apply(rec)
	}
	return q
}
