package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolution"
)

// restored is where an actor stands with the messages that its fold holds since an operator accepted a log that had lost events:
// each may have left in what was lost. It waits until a look-up found nothing of it (then it may go) or found it (then it is
// proved); what the gateway cannot tell apart, or says nothing about, ends at its deadline. Only the goroutine of run has it.
type restored struct {
	after uint64 // sequence of the last message asked about
	next  time.Time
	round int
}

// restoredChunk bounds the messages of one look-up.
const restoredChunk = 50

// restoredAppends bounds how many instances are told at once that their log was accepted.
const restoredAppends = 16

// recordRestored appends an operator's word to the log, for each instance with messages that may have left in the part that was
// lost, unless its fold shows it already. shown is false while there is one that the fold does not show: it comes with the tail.
func (p *partition) recordRestored(ctx context.Context) (shown bool, err error) {
	p.mu.Lock()
	limit, at := p.keep.restored, p.keep.restoredAt
	p.mu.Unlock()
	if limit == 0 {
		return true, nil
	}
	appends, ctx := errgroup.WithContext(ctx)
	appends.SetLimit(restoredAppends)
	shown = true
	for _, a := range p.all() {
		a.mu.Lock()
		upTo, _ := a.q.Restored()
		expected, n := a.q.GroupSequence(), 0
		if upTo < limit {
			n = doubtful(a.q, limit)
		}
		a.mu.Unlock()
		if n == 0 {
			continue
		}
		shown = false
		appends.Go(func() error { return a.recordRestored(ctx, limit, at, expected, n) })
	}
	return shown, appends.Wait()
}

// doubtful counts the messages that were accepted up to limit, are not over and were not tried again since.
func doubtful(q *queue.Queue, limit uint64) (n int) {
	for _, e := range q.Pending() {
		if e.QueuedSeq <= limit && !e.StartedAfter(limit) {
			n++
		}
	}
	return n
}

// recordRestored appends that the log was accepted up to limit.
func (a *actor) recordRestored(ctx context.Context, limit uint64, at time.Time, expected uint64, n int) error {
	ev := a.event(events.TypeDispatchRestored, "restored", events.ClosedMessage{}, "", 0, &events.DispatchRestored{
		UpTo: limit, By: source, Reason: fmt.Sprintf("--accept-log %s:%d", a.p.n, limit),
	})
	ev.Time = at
	seq, err := a.p.log.AppendFenced(ctx, a.p.n, a.id, ev, expected)
	var refused *eventlog.Refused
	if errors.As(err, &refused) { // another dispatcher was there first: its event comes with the tail, and is looked at then
		return nil
	}
	if err != nil {
		return fmt.Errorf("record that the log was accepted: %w", err)
	}
	a.log.Warn().Int("messages", n).Uint64("position", seq).
		Msg("held until they were looked up: they may have left in the part of the log that was lost")
	return nil
}

// lookUpRestored asks the gateway about the next of them, beside the actor.
func (a *actor) lookUpRestored(ctx context.Context) {
	next, waits := a.restoredNext()
	if a.pending > 0 || !waits || a.p.d.set.Now().Before(next) {
		return
	}
	a.mu.Lock()
	chunk := a.heldChunk()
	all, seq := append(a.suspects(), chunk...), a.q.GroupSequence()
	known, since := a.q.NewestBound()
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
		r := lookupResult{restored: true, asked: all, seq: seq}
		var err error
		if r.saves, err = a.saves(bounded, inst, known, since); err == nil {
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
	a.mu.Lock()
	defer a.mu.Unlock()
	_, at := a.q.Restored()
	from := at.Add(a.p.d.set.RestoredWait)
	if from.Before(a.restored.next) {
		from = a.restored.next
	}
	return from, a.q.Doubts() > 0
}

// heldChunk lists the next messages to ask about; none when a round is over. The caller holds a.mu.
func (a *actor) heldChunk() []suspect {
	var out []suspect
	var waiting []*queue.Entry
	for _, e := range a.q.Doubtful() {
		if e.Summary().Open() == 0 && e.Summary().Outstanding() == 0 { // else its attempt is looked up
			waiting = append(waiting, e)
		}
	}
	for _, e := range waiting {
		if e.QueuedSeq > a.restored.after && len(out) < restoredChunk {
			out = append(out, suspect{
				message: events.ClosedMessage{ID: e.ID, QueuedSeq: e.QueuedSeq}, tenant: e.Lane.Tenant, slot: e.Lane.Slot, since: e.AcceptedAt, held: true,
			})
		}
	}
	switch {
	case len(out) > 0:
		a.restored.after = out[len(out)-1].message.QueuedSeq
	case len(waiting) > 0:
		a.restored.round++
		a.restored.after, a.restored.next = 0, a.p.d.set.Now().Add(a.p.d.set.lookUpAfter(a.restored.round))
	default: // each has an attempt that may have left too, and that is looked up
		a.restored.after, a.restored.next = 0, a.p.d.set.Now().Add(maxNap)
	}
	return out
}

// saves reports whether the gateway shows a message that is known to have left, at a time at which it can have left: only then does it mean
// something that another one is not found there.
func (a *actor) saves(ctx context.Context, inst events.Instance, known string, since time.Time) (bool, error) {
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
	return slices.ContainsFunc(found.Records, func(r evolution.Record) bool {
		return !r.Timestamp.After(since.Add(lookSlack)) && !r.Timestamp.Before(since.Add(-queue.LookBack))
	}), nil
}

// concludeRestored lets go what was not found, and proves what was. With fewer rows than messages of one text none is either.
func (a *actor) concludeRestored(ctx context.Context, r lookupResult) {
	var proofs []proof
	a.mu.Lock()
	now := a.suspects()
	free := 0
	for _, g := range r.groups {
		g.rows = slices.DeleteFunc(g.rows, func(row evolution.Record) bool { return a.q.Bound(row.KeyID) })
		settled := g.settle(now, r)
		switch {
		case len(g.rows) == 0 && g.complete && r.saves && a.unexplained(g) == 0:
			for _, s := range g.suspects {
				if s.held && !a.elsewhere(s) {
					a.q.LookedUp(s.message.ID)
					free++
				}
			}
		case settled && !g.dim:
			for _, p := range g.match(g.suspects, g.rows) {
				if p.s.held {
					proofs = append(proofs, p)
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

// proveHeld records that a message left in an attempt of which the log knows nothing.
func (a *actor) proveHeld(ctx context.Context, p proof) {
	err := a.decide(ctx, func(q *queue.Queue, _ time.Time) decision {
		e, ok := q.Entry(p.s.message.ID)
		if !ok || q.Bound(p.row.KeyID) || e.Summary().Settled() {
			return decision{}
		}
		ev := a.proved(p.s.message, p.s.tenant, 0, events.ProofLookUp, p.row.KeyID)
		return decision{fenced: &ev}
	})
	if err != nil {
		a.log.Warn().Err(err).Str("message", p.s.message.ID).Msg("proof not confirmed")
	}
}
