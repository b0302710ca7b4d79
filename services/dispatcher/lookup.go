package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/evolution"
)

// lookup is the asking after one message that may have left. It is not in the log: a new life begins anew.
type lookup struct {
	next  time.Time
	asked int
	busy  bool
}

// suspect is one attempt a look-up asks about.
type suspect struct {
	message events.ClosedMessage
	tenant  string
	attempt int
	since   time.Time // its intent
	binding bool      // it was accepted; only its gateway id is missing
	number  string    // digits, once unsealed
	text    string
}

type lookupResult struct {
	ids   []string
	found []finding
}

type finding struct {
	suspect   suspect
	gatewayID string
}

// lookUp asks the gateway about the messages whose look-up is due: all of them in one go, beside the actor, since the
// gateway may hang. At most one look-up of an instance is under way.
func (a *actor) lookUp(ctx context.Context) {
	if a.pending > 0 {
		return
	}
	now := time.Now()
	var due []suspect
	a.mu.Lock()
	live := map[string]bool{}
	for _, e := range a.q.Unknown() {
		live[e.ID] = true
		l := a.lookups[e.ID]
		if l == nil {
			l = &lookup{next: now.Add(a.p.d.set.LookUps[0])}
			a.lookups[e.ID] = l
		}
		if !l.next.After(now) && len(due) < maxSuspects {
			due = append(due, suspects(e)...)
			l.busy = true
		}
	}
	a.mu.Unlock()
	for id := range a.lookups {
		if !live[id] {
			delete(a.lookups, id)
		}
	}
	if len(due) == 0 {
		return
	}
	inst, ok := a.p.d.instance(a.id)
	a.pending++
	a.p.wg.Go(func() {
		r := lookupResult{}
		for _, s := range due {
			r.ids = append(r.ids, s.message.ID)
		}
		if ok {
			bounded, cancel := context.WithTimeout(ctx, a.p.d.set.LookUpLimit)
			defer cancel()
			found, err := a.ask(bounded, inst, due)
			if err != nil {
				a.log.Warn().Err(err).Int("attempts", len(due)).Msg("look-up")
			}
			r.found = found
		}
		a.results <- r // room for it: one is under way at a time
	})
}

// maxSuspects bounds one look-up.
const maxSuspects = 50

func suspects(e *queue.Entry) []suspect {
	m := events.ClosedMessage{ID: e.ID, QueuedSeq: e.QueuedSeq}
	var out []suspect
	for i, at := range e.Summary().Attempts {
		unbound := e.Unbound() && at.State == message.AttemptAccepted
		if at.State == message.AttemptUnknown || unbound {
			out = append(out, suspect{message: m, tenant: e.Lane.Tenant, attempt: i + 1, since: at.StartedAt, binding: unbound})
		}
	}
	return out
}

// lookSlack is how far the gateway's clock, which gives whole seconds, may be off ours.
const lookSlack = 5 * time.Second

// ask finds the suspects among the messages the gateway has stored: by resolved jid, time and exact text. Rows that belong to
// other messages of ours do not count; with fewer rows than suspects of one text, none is proved.
func (a *actor) ask(ctx context.Context, inst events.Instance, due []suspect) ([]finding, error) {
	client, err := a.p.d.gateways.client(ctx, inst)
	if err != nil {
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	type sameText struct{ number, text string }
	groups := map[sameText][]suspect{}
	for _, s := range due {
		rec, err := a.read(ctx, s.message.QueuedSeq)
		if err != nil {
			return nil, fmt.Errorf("read accepted message: %w", err)
		}
		p, err := a.unseal(ctx, *rec)
		if err != nil {
			return nil, err
		}
		k := sameText{p.Digits, storedText(p.Content)}
		groups[k] = append(groups[k], s)
	}
	var found []finding
	for k, g := range groups {
		slices.SortFunc(g, func(x, y suspect) int { return x.since.Compare(y.since) })
		rows, err := a.rows(ctx, client, inst, k.number, k.text, g[0].since)
		if err != nil {
			return found, err
		}
		if len(rows) < len(g) {
			continue
		}
		for i, s := range g {
			found = append(found, finding{suspect: s, gatewayID: rows[i].KeyID})
		}
	}
	return found, nil
}

// rows gives the stored messages to a number with a text that are not bound to a message of ours, oldest first.
func (a *actor) rows(ctx context.Context, client *evolution.Client, inst events.Instance, number, text string, since time.Time) ([]evolution.Record, error) {
	var rows []evolution.Record
	for _, jid := range a.jids(ctx, client, inst, number) {
		found, err := client.FindMessages(ctx, evolution.Query{
			Instance: inst.Name, RemoteJID: jid, From: since.Add(-lookSlack), To: time.Now().Add(lookSlack),
		})
		if err != nil {
			return nil, fmt.Errorf("find messages: %w", err)
		}
		rows = append(rows, found.Records...)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	rows = slices.DeleteFunc(rows, func(r evolution.Record) bool { return !r.FromMe || r.Text != text || a.q.Bound(r.KeyID) })
	slices.SortFunc(rows, func(x, y evolution.Record) int {
		return cmp.Or(x.Timestamp.Compare(y.Timestamp), cmp.Compare(x.KeyID, y.KeyID))
	})
	return rows, nil
}

// conclude appends the proofs a look-up found and sets the next one. Absence of a row proves nothing.
func (a *actor) conclude(ctx context.Context, r lookupResult) {
	now := time.Now()
	for _, f := range r.found {
		a.prove(ctx, f)
	}
	for _, id := range r.ids {
		l := a.lookups[id]
		if l == nil {
			continue
		}
		l.busy = false
		l.asked++
		l.next = now.Add(a.p.d.set.lookUpAfter(l.asked))
	}
}

// lookUpAfter is the wait before look-up asked+1: the settled ones first, then doubling.
func (s Settings) lookUpAfter(asked int) time.Duration {
	if asked < len(s.LookUps) {
		return s.LookUps[asked] - s.LookUps[asked-1]
	}
	last := s.LookUps[len(s.LookUps)-1]
	return min(s.LookUpMax, last<<min(asked-len(s.LookUps), 16))
}

func (a *actor) prove(ctx context.Context, f finding) {
	by := events.ProofLookUp
	if f.suspect.binding {
		by = events.ProofBinding
	}
	err := a.decide(ctx, func(q *queue.Queue, _ time.Time) decision {
		e, ok := q.Entry(f.suspect.message.ID)
		if !ok || q.Bound(f.gatewayID) {
			return decision{}
		}
		at := attemptOf(e, f.suspect.attempt)
		sum := e.Summary()
		if sum.End != nil || (at.State != message.AttemptUnknown && !e.Unbound()) {
			return decision{}
		}
		ev := a.proved(f.suspect.message, f.suspect.tenant, f.suspect.attempt, by, f.gatewayID)
		return decision{fenced: &ev}
	})
	if err != nil {
		a.log.Warn().Err(err).Str("message", f.suspect.message.ID).Msg("proof not confirmed")
		return
	}
	a.log.Info().Str("message", f.suspect.message.ID).Int("attempt", f.suspect.attempt).Str("by", by).Msg("proved")
}
