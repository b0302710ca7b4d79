package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/evolution"
)

// restored is what an actor holds since an operator accepted a log that had lost events: a message that is pending in what is
// left may have left in what was lost. Each waits until a look-up found nothing of it (then it may go) or found it (then it is
// proved); what the gateway cannot tell apart, or says nothing about, ends at its deadline.
type restored struct {
	held  map[string]struct{} // guarded by actor.mu
	after uint64              // sequence of the last message asked about; the rest belongs to the goroutine of run
	next  time.Time
	round int
}

// restoredChunk bounds the messages of one look-up.
const restoredChunk = 50

// whenever is later than any time a message can have.
var whenever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// holdRestored holds what was accepted and not tried again since. It is done anew in each life: what a look-up found is not
// in the log, unless it is a proof.
func (p *partition) holdRestored() {
	p.mu.Lock()
	limit := p.keep.restored
	p.mu.Unlock()
	if limit == 0 {
		return
	}
	n := 0
	for _, a := range p.all() {
		a.mu.Lock()
		for _, e := range a.q.Pending() {
			if e.QueuedSeq > limit || triedSince(e, limit) {
				continue
			}
			a.q.Postpone(e.ID, whenever)
			a.restored.held[e.ID] = struct{}{}
			n++
		}
		a.mu.Unlock()
	}
	if n > 0 {
		p.d.log.Warn().Stringer("partition", p.n).Int("messages", n).Msg("held until they were looked up: they may have left in the part of the log that was lost")
	}
}

// triedSince reports whether an attempt began after the log was accepted: then the message was let go once.
func triedSince(e *queue.Entry, limit uint64) bool {
	return slices.ContainsFunc(e.Record, func(f message.Fact) bool { return f.Nonce != "" && f.Seq > limit })
}

// lookUpRestored asks the gateway about the next of them, beside the actor.
func (a *actor) lookUpRestored(ctx context.Context) {
	next, waits := a.restoredNext()
	if a.pending > 0 || !waits || time.Now().Before(next) {
		return
	}
	a.mu.Lock()
	chunk := a.heldChunk()
	all := append(a.suspects(), chunk...)
	known := a.q.NewestBound()
	a.mu.Unlock()
	inst, ok := a.p.d.instance(a.id)
	if len(chunk) == 0 || !ok {
		return
	}
	slices.SortStableFunc(all, func(x, y suspect) int { return x.since.Compare(y.since) })
	a.pending++
	a.p.wg.Go(func() {
		bounded, cancel := context.WithTimeout(ctx, a.p.d.set.LookUpLimit)
		defer cancel()
		r := lookupResult{restored: true, asked: all}
		var err error
		if r.saves, err = a.saves(bounded, inst, known); err == nil {
			r.groups, err = a.ask(bounded, inst, all)
		}
		if err != nil {
			a.log.Warn().Err(err).Int("messages", len(chunk)).Msg("look-up after a restore")
		}
		a.results <- r
	})
}

// restoredNext gives when the next of these look-ups is due, and whether any is.
func (a *actor) restoredNext() (time.Time, bool) {
	a.p.mu.Lock()
	from := a.p.keep.restoredAt.Add(a.p.d.set.RestoredWait)
	a.p.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if from.Before(a.restored.next) {
		from = a.restored.next
	}
	return from, len(a.restored.held) > 0
}

// heldChunk lists the next messages to ask about; none when a round is over. The caller holds a.mu.
func (a *actor) heldChunk() []suspect {
	var out []suspect
	var waiting []*queue.Entry
	for id := range a.restored.held {
		e, ok := a.q.Entry(id)
		if !ok || e.Summary().Settled() {
			delete(a.restored.held, id)
			continue
		}
		if e.Summary().Open() == 0 && e.Summary().Outstanding() == 0 { // else its attempt is looked up
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, func(x, y *queue.Entry) int {
		if x.QueuedSeq < y.QueuedSeq {
			return -1
		}
		return 1
	})
	for _, e := range waiting {
		if e.QueuedSeq > a.restored.after && len(out) < restoredChunk {
			out = append(out, suspect{
				message: events.ClosedMessage{ID: e.ID, QueuedSeq: e.QueuedSeq}, tenant: e.Lane.Tenant, since: e.AcceptedAt, held: true,
			})
		}
	}
	if len(out) > 0 {
		a.restored.after = out[len(out)-1].message.QueuedSeq
	} else if len(waiting) > 0 {
		a.restored.round++
		a.restored.after, a.restored.next = 0, time.Now().Add(a.p.d.set.lookUpAfter(a.restored.round))
	}
	return out
}

// saves reports whether the gateway shows a message that is known to have left: only then does it mean something that another
// one is not found.
func (a *actor) saves(ctx context.Context, inst events.Instance, known string) (bool, error) {
	if known == "" {
		return false, nil
	}
	client, err := a.p.d.gateways.client(ctx, inst)
	if err != nil {
		return false, fmt.Errorf("open gateway: %w", err)
	}
	found, err := client.FindMessages(ctx, evolution.Query{Instance: inst.Name, KeyID: known})
	if err != nil {
		return false, fmt.Errorf("find a known message: %w", err)
	}
	return len(found.Records) > 0, nil
}

// concludeRestored lets go what was not found, and proves what was. With fewer rows than messages of one text none is either.
func (a *actor) concludeRestored(ctx context.Context, r lookupResult) {
	var proofs []proof
	a.mu.Lock()
	settled := len(a.q.Open()) == 0
	for _, s := range a.suspects() {
		settled = settled && slices.ContainsFunc(r.asked, s.same)
	}
	free := 0
	for _, g := range r.groups {
		g.rows = slices.DeleteFunc(g.rows, func(row evolution.Record) bool { return a.q.Bound(row.KeyID) })
		switch {
		case len(g.rows) == 0 && g.complete && r.saves:
			for _, s := range g.suspects {
				if s.held {
					a.q.Postpone(s.message.ID, time.Time{})
					delete(a.restored.held, s.message.ID)
					free++
				}
			}
		case len(g.rows) >= len(g.suspects) && settled:
			for i, s := range g.suspects {
				if s.held {
					proofs = append(proofs, proof{s, g.rows[i].KeyID})
				}
			}
		}
	}
	a.mu.Unlock()
	for _, p := range proofs {
		a.proveHeld(ctx, p)
	}
	a.log.Info().Int("asked", len(r.asked)).Int("go", free).Int("had_left", len(proofs)).Bool("gateway_saves", r.saves).Msg("looked up after a restore")
}

type proof struct {
	s         suspect
	gatewayID string
}

// proveHeld records that a message left in an attempt of which the log knows nothing.
func (a *actor) proveHeld(ctx context.Context, p proof) {
	err := a.decide(ctx, func(q *queue.Queue, _ time.Time) decision {
		e, ok := q.Entry(p.s.message.ID)
		if !ok || q.Bound(p.gatewayID) || e.Summary().Settled() {
			return decision{}
		}
		ev := a.proved(p.s.message, p.s.tenant, 0, events.ProofLookUp, p.gatewayID)
		return decision{fenced: &ev}
	})
	if err != nil {
		a.log.Warn().Err(err).Str("message", p.s.message.ID).Msg("proof not confirmed")
	}
}
