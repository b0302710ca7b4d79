package dispatcher

import (
	"context"
	"time"

	"pilotstatus.dev/events"
)

// foreignMost bounds the wait before a number is checked again that the gateway takes for somebody else's, or may.
const foreignMost = time.Minute

// holdBack keeps a message from being sent to somebody else: the check and a send find a number in the same cache of the gateway, so what
// the check names is where the message would go. It waits for the cache to be right again, or for its deadline; others go on meanwhile.
// foreign says that the check named somebody else, and not only that it gave no answer: a person hears of that once for each life of a
// dispatcher, not at each check.
func (a *actor) holdBack(ctx context.Context, j job, foreign bool) {
	set := a.p.d.set
	n, told := a.doubt(j.id, foreign)
	wait := min(foreignMost, set.ForeignWait<<min(n, 16))
	wait = wait/2 + time.Duration(a.p.d.draw()*float64(wait/2))
	if left := j.deliverUntil.Sub(set.Now()) - time.Second; left > 0 { // the last check is before the deadline, with time to send
		wait = min(wait, left)
	}
	a.postpone(j, wait)
	if !foreign || told {
		return
	}
	a.p.d.metrics.foreign.WithLabelValues("held").Inc()
	a.log.Error().Str("message", j.id).Msg("not sent: the gateway takes its number for somebody else's")
	ev := a.evidence(events.TypeEvidenceAnomaly, "anomaly", j, &events.EvidenceAnomaly{Kind: events.AnomalyForeignNumber})
	ev.ID, ev.Attempt = j.id+"."+events.AnomalyForeignNumber, 0 // of the message: a successor that meets it says the same
	a.append(ctx, ev)
}

// doubts is what an actor remembers of the checks of a message's number.
type doubts struct {
	checks int  // that did not say that the number is its recipient's
	told   bool // that one named somebody else's
}

// doubt counts one more check, and gives what there was before.
func (a *actor) doubt(id string, foreign bool) (before int, told bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.doubted) >= maxRemembered { // of those that have ended since
		for other := range a.doubted {
			if _, pending := a.q.Entry(other); !pending {
				delete(a.doubted, other)
			}
		}
	}
	was := a.doubted[id]
	a.doubted[id] = doubts{was.checks + 1, was.told || foreign}
	return was.checks, was.told
}
