package dispatcher

import (
	"context"
	"slices"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
)

// proof is a row of the gateway that belongs to an attempt.
type proof struct {
	s      suspect
	row    evolution.Record
	number string // of the recipient
}

// conclude appends what a look-up came to: the proofs, and where nothing was found under all conditions, that the attempt is absent.
// A group whose rows might be of something else of ours that is going on says nothing yet.
func (a *actor) conclude(ctx context.Context, r lookupResult) {
	if r.restored {
		a.concludeRestored(ctx, r)
		return
	}
	a.lookedUp(r.asked)
	var proofs []proof
	var gone []absentee
	a.mu.Lock()
	now := a.suspects()
	for _, g := range r.groups {
		if !g.settle(now, r) {
			continue
		}
		found, free := g.attribute(a.q.Bound)
		proofs = append(proofs, found...)
		gone = append(gone, a.observe(r, g, free)...)
	}
	a.mu.Unlock()
	for _, p := range proofs {
		switch {
		case p.s.open: // its answer will say so
		case p.s.ghost:
			a.provedAfterEnd(ctx, p)
		default:
			a.prove(ctx, p.s, p.row.KeyID)
			a.mismatch(ctx, p)
		}
	}
	for _, x := range gone {
		a.absent(ctx, x)
	}
}

// settle leaves out of a group what was under way when it was asked about and is settled by now: its row is known. It is false while
// the rows may be of a start that nobody asked about, since it began meanwhile in the slot of this recipient, who has one slot for ever.
func (g *sameText) settle(now []suspect, r lookupResult) bool {
	slot := g.suspects[0].slot
	for _, s := range now {
		if s.slot == slot && s.startSeq > r.seq && s.startSeq <= g.seq && !slices.ContainsFunc(r.asked, s.same) {
			return false
		}
	}
	g.suspects = slices.DeleteFunc(g.suspects, func(s suspect) bool { return s.open && !slices.ContainsFunc(now, s.same) })
	return len(g.suspects) > 0
}

// attribute gives the rows to the suspects. A row with the id that a suspect chose is its, also when that was reserved for it. The others
// are told apart by nothing but their number: rows of other messages of ours do not count, and with fewer rows than attempts none is
// proved; unless all those are attempts of one message, which has left then. free counts the rows that are nobody else's.
func (g *sameText) attribute(bound func(keyID string) bool) (proofs []proof, free int) {
	rows := slices.DeleteFunc(slices.Clone(g.rows), func(r evolution.Record) bool { return bound(r.KeyID) })
	free = len(rows)
	var rest []suspect
	for _, s := range g.suspects {
		chose := func(r evolution.Record) bool { return s.chosen != "" && r.KeyID == s.chosen }
		i := slices.IndexFunc(g.rows, chose)
		if i < 0 {
			rest = append(rest, s)
			continue
		}
		proofs = append(proofs, proof{s, g.rows[i], g.number})
		rows = slices.DeleteFunc(rows, chose)
	}
	switch pairs := g.match(rest, rows); {
	case len(rows) == 0 || len(rest) == 0 || g.dim:
	case pairs != nil:
		proofs = append(proofs, pairs...)
	case !slices.ContainsFunc(rest, func(s suspect) bool { return s.message.ID != rest[0].message.ID }):
		if one := g.match(rest[:1], rows); one != nil {
			proofs = append(proofs, proof{rest[newestBefore(rest, one[0].row)], one[0].row, g.number})
		}
	}
	return proofs, free
}

// match gives each suspect, oldest first, the first of the rows that was not composed before its intent; nil where not every one gets one.
func (g *sameText) match(suspects []suspect, rows []evolution.Record) (pairs []proof) {
	for _, s := range suspects {
		i := slices.IndexFunc(rows, func(r evolution.Record) bool { return !r.Timestamp.Before(s.since.Add(-lookSlack)) })
		if i < 0 {
			return nil
		}
		pairs, rows = append(pairs, proof{s, rows[i], g.number}), rows[i+1:]
	}
	return pairs
}

// newestBefore gives which of the attempts of one message a row belongs to: it was composed after its intent and before the next one.
func newestBefore(attempts []suspect, row evolution.Record) (n int) {
	for i, s := range attempts {
		if !s.since.After(row.Timestamp.Add(lookSlack)) {
			n = i
		}
	}
	return n
}

// others counts the messages of the group beside one: what the rows cannot tell apart from it.
func (g *sameText) others(id string) int {
	seen := map[string]bool{id: true}
	for _, s := range g.suspects {
		seen[s.message.ID] = true
	}
	return len(seen) - 1
}

// mismatch records that a message which a look-up found by its own id went to somebody else.
func (a *actor) mismatch(ctx context.Context, p proof) {
	if p.row.RemoteJID == "" || p.row.KeyID != p.s.chosen || recipient.JIDMatches(p.row.RemoteJID, p.number) {
		return
	}
	a.p.d.metrics.strayed(p.row.RemoteJID)
	j := job{id: p.s.message.ID, queuedSeq: p.s.message.QueuedSeq, attempt: p.s.attempt}
	j.lane.Tenant = p.s.tenant
	a.append(ctx, a.evidence(events.TypeEvidenceAnomaly, "anomaly", j, &events.EvidenceAnomaly{Kind: events.AnomalyJIDMismatch}))
}
