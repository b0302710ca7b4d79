package dispatcher

import (
	"context"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/absence"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
)

// lookup is the asking after one message that may have left. It is not in the log: a new life begins anew, and so do its counts.
type lookup struct {
	attempt int // the newest that may have left
	next    time.Time
	asked   int
	counts  *absence.Counts // of that attempt; nil before the first observation
	told    bool            // that it left all the same, after its end
}

// suspect is one attempt a look-up asks about.
type suspect struct {
	message events.ClosedMessage
	tenant  string
	slot    uint8
	attempt int
	since   time.Time // its intent
	nonce   string
	chosen  string // the gateway id it asked for; "" for none
	binding bool   // it left; only its gateway id is missing
	held    bool   // it may have left in a part of the log that was lost
	ghost   bool   // its message has ended: a row that is its changes no state, and is told as an anomaly
	open    bool   // its call is under way: a row may be its, and its answer will say so

	// Only of an attempt that may be found absent: the last one of a message that is not over.
	unknownSeq uint64 // of its dispatch.unknown; 0 for any other
	startSeq   uint64
	ended      *events.DispatchUnknown // how its call ended; nil when that could not be read
}

type lookupResult struct {
	asked    []suspect
	seq      uint64 // of the fenced group when asked was listed: what began later is not among them
	groups   []*sameText
	restored bool // it is about what a restore has made doubtful
	saves    bool // the gateway shows what is known to have left
	socket   socketWord
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
	if a.q.Unknowns() == 0 { // mostly, and this comes by with every event of the instance
		a.mu.Unlock()
		clear(a.lookups)
		return
	}
	a.q.Compact(a.q.Floor(), now) // what is given up, also when no event comes any more
	all, seq := a.suspects(), a.q.GroupSequence()
	a.mu.Unlock()
	live := map[string]bool{}
	for _, s := range all {
		if s.open {
			continue
		}
		live[s.message.ID] = true
		l := a.lookups[s.message.ID]
		if l == nil || l.attempt < s.attempt {
			l = &lookup{attempt: s.attempt, next: now.Add(a.p.d.set.LookUps[0])}
			a.lookups[s.message.ID] = l
		}
		due = due || !l.next.After(now)
	}
	for id := range a.lookups {
		if !live[id] {
			delete(a.lookups, id)
		}
	}
	if !due {
		return
	}
	inst, known := a.p.d.instance(a.id)
	if !known { // it was removed: there is nobody to ask
		a.lookedUp(all)
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
		r, err := a.lookAt(bounded, inst, all)
		r.seq = seq
		if err != nil { // what was answered before counts
			a.log.Warn().Err(err).Int("attempts", len(all)).Int("answered", len(r.groups)).Msg("look-up")
		}
		a.results <- r // room for it: one is under way at a time
	})
}

const (
	maxSuspects  = 1000 // of one look-up
	lookUpRounds = 10   // limits of one answer that a whole look-up may take
)

// suspects lists the attempts of the instance that may have left without our knowing their gateway id, oldest first: also those
// under way. The caller holds a.mu.
func (a *actor) suspects() []suspect {
	var out []suspect
	seen := map[string]bool{}
	for _, e := range slices.Concat(a.q.Unknown(), a.q.Ghosts(), a.q.Open()) {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		sum := e.Summary()
		for i, at := range sum.Attempts {
			unbound := e.Unbound() && (at.State == message.AttemptAccepted || at.State == message.AttemptProved)
			if at.State != message.AttemptUnknown && at.State != message.AttemptOpen && !unbound {
				continue
			}
			s := suspect{
				message: events.ClosedMessage{ID: e.ID, QueuedSeq: e.QueuedSeq}, tenant: e.Lane.Tenant, slot: e.Lane.Slot, attempt: i + 1,
				since: at.StartedAt, nonce: at.Nonce, chosen: at.Chosen, binding: unbound, ghost: e.Ghost(), startSeq: at.StartSeq,
				open: at.State == message.AttemptOpen,
			}
			if !s.open && i+1 == len(sum.Attempts) && !sum.Settled() && !at.Absent {
				s.unknownSeq = unknownSeq(e.Record(), i+1)
			}
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(x, y suspect) int { return x.since.Compare(y.since) })
	return out
}

// unknownSeq is where the log says that an attempt is unknown.
func unknownSeq(r message.Record, attempt int) (seq uint64) {
	for _, f := range r {
		if f.Kind == message.KindUnknown && f.Attempt == attempt {
			seq = f.Seq
		}
	}
	return seq
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
		if !ok || e.Summary().End != nil {
			return decision{}
		}
		if chosen := attemptOf(e, s.attempt).Chosen; chosen != gatewayID && q.Bound(gatewayID) { // another's by now
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
