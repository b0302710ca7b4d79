package dispatcher

import (
	"context"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
)

// openStart is a start without an outcome, as the fold shows it.
type openStart struct {
	id      events.ClosedMessage
	tenant  string
	attempt int
	nonce   string
	started time.Time
}

// resolveOpen ends the open starts that no turn is busy with (rule R6): a start of this life that was never called is deferred
// at once; one of another life is unknown, once no call of it can be under way any more (rule R9). Who leads no longer ends its
// own only.
func (a *actor) resolveOpen(ctx context.Context, own bool) {
	now := a.p.d.set.Now()
	var due []openStart
	a.mu.Lock()
	open := a.q.Open()
	still := make(map[string]bool, len(open))
	for _, e := range open {
		n := e.Summary().Open()
		at := attemptOf(e, n)
		still[at.Nonce] = true
		if a.flying[at.Nonce] {
			continue
		}
		s := openStart{
			id: events.ClosedMessage{ID: e.ID, QueuedSeq: e.QueuedSeq}, tenant: e.Lane.Tenant, attempt: n, nonce: at.Nonce, started: at.StartedAt,
		}
		if a.mine[at.Nonce] {
			due = append(due, s)
			continue
		}
		first, ok := a.seen[at.Nonce]
		if own {
			continue
		}
		if !ok {
			a.seen[at.Nonce] = now
		} else if now.Sub(first) >= a.p.d.set.SuccessorWait {
			due = append(due, s)
		}
	}
	a.mu.Unlock()
	for nonce := range a.seen {
		if !still[nonce] {
			delete(a.seen, nonce)
		}
	}
	for _, s := range due {
		a.resolve(ctx, s)
	}
}

func (a *actor) resolve(ctx context.Context, s openStart) {
	err := a.decide(ctx, func(q *queue.Queue, now time.Time) decision {
		e, ok := q.Entry(s.id.ID)
		if !ok {
			return decision{}
		}
		if at := attemptOf(e, s.attempt); at.State != message.AttemptOpen || at.Nonce != s.nonce {
			return decision{}
		}
		age := now.Sub(s.started).Milliseconds()
		if a.mine[s.nonce] {
			body := &events.DispatchDeferred{Cause: causeNeverCalled, DueAt: now.UTC().Add(notCalledDelay), ElapsedMS: age}
			ev := a.event(events.TypeDispatchDeferred, "deferred", s.id, s.tenant, s.attempt, body)
			ev.DueAt = body.DueAt
			return decision{fenced: &ev}
		}
		ev := a.event(events.TypeDispatchUnknown, "unknown", s.id, s.tenant, s.attempt,
			&events.DispatchUnknown{Cause: events.UnknownOwnerGone, ElapsedMS: age})
		return decision{fenced: &ev}
	})
	if err != nil {
		a.log.Warn().Err(err).Str("message", s.id.ID).Msg("open start not resolved")
		return
	}
	a.mu.Lock()
	delete(a.mine, s.nonce)
	a.mu.Unlock()
	a.log.Info().Str("message", s.id.ID).Int("attempt", s.attempt).Msg("open start resolved")
}

// disproveMine takes back what a successor had to call unknown: a start of this life that was never called, since the process was
// paused before its last check (rule R1, a late outcome). It needs no lease: nobody else can know.
func (a *actor) disproveMine(ctx context.Context) {
	var due []openStart
	a.mu.Lock()
	if len(a.mine) > 0 {
		for _, e := range a.q.Unknown() {
			for i, at := range e.Summary().Attempts {
				if at.State == message.AttemptUnknown && a.mine[at.Nonce] {
					due = append(due, openStart{
						id: events.ClosedMessage{ID: e.ID, QueuedSeq: e.QueuedSeq}, tenant: e.Lane.Tenant, attempt: i + 1, nonce: at.Nonce,
					})
				}
			}
		}
	}
	a.mu.Unlock()
	for _, s := range due {
		err := a.decide(ctx, func(q *queue.Queue, _ time.Time) decision {
			e, ok := q.Entry(s.id.ID)
			if !ok {
				return decision{}
			}
			sum, at := e.Summary(), attemptOf(e, s.attempt)
			if at.State != message.AttemptUnknown || at.Nonce != s.nonce || sum.End != nil || sum.Proved {
				return decision{}
			}
			ev := a.event(events.TypeDispatchDisproved, "disproved", s.id, s.tenant, s.attempt, &events.DispatchDisproved{By: events.DisprovedLate})
			return decision{fenced: &ev}
		})
		if err != nil {
			a.log.Warn().Err(err).Str("message", s.id.ID).Msg("start that was not called is not disproved")
			return
		}
		a.mu.Lock()
		delete(a.mine, s.nonce)
		a.mu.Unlock()
	}
}

// giveBack says before this process ends what nobody else can know: which of its starts were never called. Their messages would
// else stay unknown until they fail.
func (a *actor) giveBack(ctx context.Context) {
	a.mu.Lock()
	n := len(a.mine)
	a.mu.Unlock()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.p.d.set.AppendTry)
	defer cancel()
	last, err := a.p.log.LastSequence(ctx, events.EventsStream(a.p.n))
	if err == nil {
		err = a.p.wait(ctx, last) // what was said of them meanwhile
	}
	if err != nil {
		a.log.Warn().Err(err).Int("starts", n).Msg("starts that were not called are not given back")
		return
	}
	a.disproveMine(ctx)
	a.resolveOpen(ctx, true)
}

// closeRounds bounds the appends of one round, so that a mass of ends leaves room for turns.
const closeRounds = 20

// close appends the ends that have been due for margin, up to events.MaxClosed messages each.
func (a *actor) close(ctx context.Context, margin time.Duration) {
	for range closeRounds {
		a.mu.Lock()
		due := len(a.q.Closes(a.p.d.set.Now().Add(-margin), 1)) > 0
		a.mu.Unlock()
		if !due { // it need not wait for the append of a turn
			return
		}
		var c queue.Close
		err := a.decide(ctx, func(q *queue.Queue, now time.Time) decision {
			c = queue.Close{}
			due := q.Closes(now.Add(-margin), events.MaxClosed)
			if len(due) == 0 {
				return decision{}
			}
			c = due[0]
			ev := q.EndEvent(a.event(events.TypeDispatchClosed, "closed", events.ClosedMessage{}, "", 0, nil), c)
			return decision{fenced: &ev}
		})
		if err != nil {
			a.log.Warn().Err(err).Msg("ends not confirmed")
			return
		}
		if len(c.Messages) == 0 {
			return
		}
		a.p.d.metrics.ended(c.Reason, len(c.Messages))
		a.log.Info().Str("reason", c.Reason).Str("code", string(c.Code)).Bool("presumed", c.Presumed).
			Int("messages", len(c.Messages)).Str("first", c.Messages[0].ID).Msg("ended")
	}
}
