package queue

import "pilotstatus.dev/events/message"

// adopt reserves the chosen gateway ids of acceptances and proofs that named none: no look-up may give them to another message.
func (q *Queue) adopt(e *Entry) {
	for _, f := range e.Record() {
		if f.Kind != message.KindAccepted && f.Kind != message.KindProved || f.GatewayID != "" || f.Attempt < 1 || f.Attempt > len(e.sum().Attempts) {
			continue
		}
		if id := e.sum().Attempts[f.Attempt-1].Chosen; id != "" && !f.At.Before(q.bound[id]) {
			q.bound[id] = f.At
		}
	}
}

// ConnectionSeq is the sequence of the newest event that says that the instance's connection was not open all the time: it opened,
// closed, or was parked. 0 when there is none.
func (q *Queue) ConnectionSeq() uint64 { return max(q.opened, q.closed, q.parked) }
