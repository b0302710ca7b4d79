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
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
)

// lookup is the asking after one message that may have left. It is not in the log: a new life begins anew.
type lookup struct {
	next  time.Time
	asked int
}

// suspect is one attempt a look-up asks about.
type suspect struct {
	message events.ClosedMessage
	tenant  string
	attempt int
	since   time.Time // its intent
	binding bool      // it was accepted; only its gateway id is missing
	held    bool      // it may have left in a part of the log that was lost
	ghost   bool      // its message has ended: a row may be its, but it is not proved any more
}

// sameText is attempts that the gateway's rows cannot tell apart, and the rows found for them.
type sameText struct {
	number, text string
	suspects     []suspect // oldest first
	rows         []evolution.Record
	complete     bool // the gateway resolved the number and every row was read
}

type lookupResult struct {
	asked    []suspect
	groups   []*sameText
	restored bool // it is about what a restore has made doubtful
	saves    bool // the gateway shows what is known to have left
}

// lookUp asks the gateway as soon as one look-up is due. It asks about every attempt that may have left, since a row can belong
// to any with the same text; beside the actor, since the gateway may hang. At most one look-up of an instance is under way.
func (a *actor) lookUp(ctx context.Context) {
	if a.pending > 0 {
		return
	}
	now := a.p.d.set.Now()
	due := false
	a.mu.Lock()
	all := a.suspects()
	a.mu.Unlock()
	live := map[string]bool{}
	for _, s := range all {
		if s.ghost {
			continue
		}
		live[s.message.ID] = true
		l := a.lookups[s.message.ID]
		if l == nil {
			l = &lookup{next: now.Add(a.p.d.set.LookUps[0])}
			a.lookups[s.message.ID] = l
		}
		due = due || !l.next.After(now)
	}
	for id := range a.lookups {
		if !live[id] {
			delete(a.lookups, id)
		}
	}
	inst, known := a.p.d.instance(a.id)
	if !due || !known {
		return
	}
	if len(all) > maxSuspects {
		a.log.Error().Int("attempts", len(all)).Msg("too many attempts are unknown to look them up; they end presumed, or by receipts")
		a.lookedUp(all)
		return
	}
	a.pending++
	a.p.wg.Go(func() {
		bounded, cancel := context.WithTimeout(ctx, lookUpRounds*a.p.d.set.LookUpLimit)
		defer cancel()
		groups, err := a.ask(bounded, inst, all)
		if err != nil { // what was answered before counts
			a.log.Warn().Err(err).Int("attempts", len(all)).Int("answered", len(groups)).Msg("look-up")
		}
		a.results <- lookupResult{asked: all, groups: groups} // room for it: one is under way at a time
	})
}

const (
	maxSuspects  = 1000 // of one look-up
	lookUpRounds = 10   // limits of one answer that a whole look-up may take
)

// suspects lists the attempts of the instance that may have left without our knowing their gateway id, oldest first. The
// caller holds a.mu.
func (a *actor) suspects() []suspect {
	var out []suspect
	for _, e := range append(a.q.Unknown(), a.q.Ghosts()...) {
		for i, at := range e.Summary().Attempts {
			unbound := e.Unbound() && at.State == message.AttemptAccepted
			if at.State == message.AttemptUnknown || unbound {
				out = append(out, suspect{
					message: events.ClosedMessage{ID: e.ID, QueuedSeq: e.QueuedSeq}, tenant: e.Lane.Tenant, attempt: i + 1,
					since: at.StartedAt, binding: unbound, ghost: e.Ghost(),
				})
			}
		}
	}
	slices.SortStableFunc(out, func(x, y suspect) int { return x.since.Compare(y.since) })
	return out
}

// lookSlack is how far the gateway's clock, which gives whole seconds, may be off ours.
const lookSlack = 5 * time.Second

// ask groups the suspects by number and text, and finds the rows of each group at the gateway, each within LookUpLimit. It ends
// at the first that gets no answer, with those before it; the next look-up begins behind that one, so none waits for ever.
func (a *actor) ask(ctx context.Context, inst events.Instance, all []suspect) ([]*sameText, error) {
	client, err := a.p.d.gateways.client(ctx, inst)
	if err != nil {
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	type key struct{ number, text string }
	found := map[key]*sameText{}
	var groups []*sameText
	for _, s := range all {
		rec, err := a.read(ctx, s.message.QueuedSeq)
		if err != nil {
			return nil, fmt.Errorf("read accepted message: %w", err)
		}
		p, err := a.unseal(ctx, *rec)
		if err != nil {
			return nil, err
		}
		k := key{recipient.Canonical(p.Digits), storedText(p.Content)} // both spellings of a number are one recipient
		g := found[k]
		if g == nil {
			g = &sameText{number: k.number, text: k.text}
			found[k], groups = g, append(groups, g)
		}
		g.suspects = append(g.suspects, s)
	}
	var answered []*sameText
	from := a.lookFrom % max(1, len(groups))
	for i := range groups {
		g := groups[(from+i)%len(groups)]
		limited, cancel := context.WithTimeout(ctx, a.p.d.set.LookUpLimit)
		g.rows, g.complete, err = a.rows(limited, client, inst, g)
		cancel()
		if err != nil {
			a.lookFrom = from + i + 1
			return answered, err
		}
		answered = append(answered, g)
	}
	return answered, nil
}

// rows gives what the gateway has stored for the number with exactly the text since the oldest suspect, oldest first.
func (a *actor) rows(ctx context.Context, client *evolution.Client, inst events.Instance, g *sameText) (rows []evolution.Record, complete bool, err error) {
	jids, complete := a.jids(ctx, client, inst, g.number)
	for _, jid := range jids {
		found, err := client.FindMessages(ctx, evolution.Query{
			Instance: inst.Name, RemoteJID: jid, From: g.suspects[0].since.Add(-lookSlack), To: a.p.d.set.Now().Add(lookSlack),
		})
		if err != nil {
			return nil, false, fmt.Errorf("find messages: %w", err)
		}
		complete = complete && found.Complete
		rows = append(rows, found.Records...)
	}
	rows = slices.DeleteFunc(rows, func(r evolution.Record) bool { return !r.FromMe || r.Text != g.text })
	slices.SortFunc(rows, func(x, y evolution.Record) int {
		return cmp.Or(x.Timestamp.Compare(y.Timestamp), cmp.Compare(x.KeyID, y.KeyID))
	})
	return rows, complete, nil
}

// conclude appends the proofs of a look-up. Rows of other messages of ours do not count; with fewer rows than suspects of one
// text none is proved, and neither when another attempt became unknown, or was left open, while the gateway was asked: a row
// may be its. That no row is found proves nothing.
func (a *actor) conclude(ctx context.Context, r lookupResult) {
	if r.restored {
		a.concludeRestored(ctx, r)
		return
	}
	a.lookedUp(r.asked)
	a.mu.Lock()
	settled := len(a.q.Open()) == 0
	for _, s := range a.suspects() {
		settled = settled && slices.ContainsFunc(r.asked, s.same)
	}
	for _, g := range r.groups {
		g.rows = slices.DeleteFunc(g.rows, func(row evolution.Record) bool { return a.q.Bound(row.KeyID) })
	}
	a.mu.Unlock()
	if !settled {
		return
	}
	for _, g := range r.groups {
		if len(g.rows) < len(g.suspects) {
			continue
		}
		for i, s := range g.suspects {
			if !s.ghost {
				a.prove(ctx, s, g.rows[i].KeyID)
			}
		}
	}
}

func (s suspect) same(o suspect) bool { return s.message.ID == o.message.ID && s.attempt == o.attempt }

// lookedUp sets the next look-up of each message.
func (a *actor) lookedUp(asked []suspect) {
	now := a.p.d.set.Now()
	for _, s := range asked {
		if l := a.lookups[s.message.ID]; l != nil && !l.next.After(now) {
			l.asked++
			l.next = now.Add(a.p.d.set.lookUpAfter(l.asked))
		}
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

func (a *actor) prove(ctx context.Context, s suspect, gatewayID string) {
	by := events.ProofLookUp
	if s.binding {
		by = events.ProofBinding
	}
	err := a.decide(ctx, func(q *queue.Queue, _ time.Time) decision {
		e, ok := q.Entry(s.message.ID)
		if !ok || q.Bound(gatewayID) || e.Summary().End != nil {
			return decision{}
		}
		switch at := attemptOf(e, s.attempt).State; {
		case at == message.AttemptUnknown, e.Unbound():
		case at == message.AttemptDisproved && !e.Summary().Settled(): // an operator said so meanwhile, and was wrong
		default:
			return decision{}
		}
		ev := a.proved(s.message, s.tenant, s.attempt, by, gatewayID)
		return decision{fenced: &ev}
	})
	if err != nil {
		a.log.Warn().Err(err).Str("message", s.message.ID).Msg("proof not confirmed")
		return
	}
	a.log.Info().Str("message", s.message.ID).Int("attempt", s.attempt).Str("by", by).Msg("proved")
}
