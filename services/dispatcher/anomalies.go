package dispatcher

import (
	"context"
	"fmt"
	"time"

	"pilotstatus.dev/events"
)

// provedAfterEnd tells a person that a message which was ended as one that may not have left did leave: the gateway shows it. Its
// state stays, since the end was told to the customer; a receipt of it would change that. Told once for each life of the look-ups
// of its message; the log takes it once for its dedup window.
func (a *actor) provedAfterEnd(ctx context.Context, p proof) {
	l := a.lookups[p.s.message.ID]
	a.mu.Lock()
	e, ok := a.q.Entry(p.s.message.ID)
	still := ok && e.Ghost() // no receipt proved it meanwhile, which is told as one
	a.mu.Unlock()
	if !still || l == nil || l.told {
		return
	}
	j := job{id: p.s.message.ID, queuedSeq: p.s.message.QueuedSeq, attempt: p.s.attempt}
	j.lane.Tenant = p.s.tenant
	ev := a.evidence(events.TypeEvidenceAnomaly, "anomaly", j, &events.EvidenceAnomaly{Kind: events.AnomalyProvedAfterEnd, Detail: events.ProofLookUp})
	ev.ID, ev.GatewayID = j.id+"."+events.AnomalyProvedAfterEnd, p.row.KeyID
	if l.told = a.append(ctx, ev); !l.told { // the next look-up says it
		return
	}
	a.p.d.metrics.anomalies.WithLabelValues(events.AnomalyProvedAfterEnd).Inc()
	a.log.Error().Str("message", j.id).Int("attempt", j.attempt).Msg("a message that was ended is at the gateway: it left after all")
}

// latePause is the shortest pause between a last check and the end of its write that is taken for one: no write of a running process
// takes as long.
const latePause = 100 * time.Millisecond

// lateWrite says by how much a write ended later than its last check would have allowed; empty when it did not. age is that of the
// intent at the check, left what the window had then, pause from there to the end of the write. No rule closes this gap: a process that
// stands still there does not know of it before the bytes have left (rule R4).
func lateWrite(age, left, pause, budget time.Duration) string {
	if pause < latePause || age+pause < budget && pause < left {
		return ""
	}
	return fmt.Sprintf("written up to %d ms after its last check, %d ms after its intent", pause.Milliseconds(), (age + pause).Milliseconds())
}

// writtenLate tells a person that a call was written when it should not have been any more.
func (a *actor) writtenLate(ctx context.Context, j job, by string) {
	a.p.d.metrics.anomalies.WithLabelValues(events.AnomalyLateWrite).Inc()
	a.log.Error().Str("message", j.id).Int("attempt", j.attempt).Str("late", by).Msg("a call was written later than its last check allows: the process stood still")
	a.append(ctx, a.evidence(events.TypeEvidenceAnomaly, "anomaly", j, &events.EvidenceAnomaly{Kind: events.AnomalyLateWrite, Detail: by}))
}
