package dispatcher

import (
	"context"
	"encoding/json"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/events/recipient"
)

// textHash gives the keyed hashes of the recipient and of all that is said, where a repeated last message is suppressed: on a shared
// number, never for a code, nor where an operator wants it sent once more; else "". They are the tenant's own, so that tenants neither
// suppress nor see each other's. false: they cannot be made just now, and the message waits.
func (a *actor) textHash(ctx context.Context, inst events.Instance, j job, c content) (string, bool) {
	if !inst.Shared || j.lane.Class.Category() == events.OTP || c.again || a.p.d.set.Rules.Suppress <= 0 {
		return "", true
	}
	bounded, cancel := context.WithTimeout(ctx, a.p.d.set.AppendTry)
	defer cancel()
	to := recipient.Canonical(c.Digits)
	says, err := json.Marshal(c.Content) // buttons and their addresses too
	var who, what string
	if err == nil {
		who, err = a.p.d.keys.HashText(bounded, j.lane.Tenant, to)
	}
	if err == nil {
		what, err = a.p.d.keys.HashText(bounded, j.lane.Tenant, to+"\n"+string(says))
	}
	if err != nil {
		a.log.Warn().Err(err).Str("message", j.id).Msg("hash of what is said")
		a.postpone(j, postponeFor)
		return "", false
	}
	return queue.TextHash(who, what), true
}

// repeats reports whether a message is to be suppressed. One of which an attempt may have left is not: what follows is its policy's.
func repeats(q *queue.Queue, j job, said string, now time.Time) bool {
	return q.Repeats(j.id, said, now) && q.MayClose(j.id, events.ClosedFailed, now) == queue.HoldNone
}

// suppressed ends a message that would say to its recipient again what the last one said.
func (a *actor) suppressed(ctx context.Context, j job, said string) bool {
	a.mu.Lock()
	again := repeats(a.q, j, said, a.p.d.set.Now())
	a.mu.Unlock()
	if !again {
		return false
	}
	still := func(q *queue.Queue, now time.Time) bool { return repeats(q, j, said, now) }
	if a.closeOne(ctx, j, events.FailDuplicateSuppressed, still) {
		a.p.d.metrics.suppressed.Inc()
		a.log.Info().Str("message", j.id).Str("tenant", j.lane.Tenant).Msg("suppressed: the last message to this recipient said the same")
	}
	return true
}
