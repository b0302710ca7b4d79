package queue

// Draining reports that an operator drains the instance: what was accepted before that word goes out, what came after waits.
func (q *Queue) Draining() bool { return q.draining > max(q.resumed, q.paused) }

// Left counts the messages that a drain still lets out: those accepted before it that are not over, scheduled and unconfirmed ones too.
// 0 when none is on.
func (q *Queue) Left() int { return len(q.ix.leaving) }

func (q *Queue) leaving(e *Entry) bool {
	return q.Draining() && e.queued && e.QueuedSeq <= q.draining && (!e.sum().Settled() || e.sum().Open() > 0)
}

// drains finds what leaves anew, after a word about the instance.
func (q *Queue) drains() {
	clear(q.ix.leaving)
	if !q.Draining() {
		return
	}
	for _, e := range q.entries {
		set(q.ix.leaving, e, q.leaving(e))
	}
}
