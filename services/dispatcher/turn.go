package dispatcher

import (
	"context"
	"errors"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/failpoint"
)

// Why the last check refused a write.
var (
	errStopped = errors.New("the start is no longer allowed to call")
	errTooOld  = errors.New("the start is older than its budget")
)

// turn makes one attempt: content, number, intent, the tail up to it, call, outcome.
func (a *actor) turn(ctx context.Context, inst events.Instance, j job) {
	content, ok := a.content(ctx, j)
	if !ok {
		return
	}
	defer content.done()
	if a.optedOut(ctx, j, content.recipient) {
		return
	}
	said, ok := a.textHash(ctx, inst, j, content)
	if !ok || a.suppressed(ctx, j, said) {
		return
	}
	client, err := a.p.d.gateways.client(ctx, inst)
	if err != nil {
		a.log.Error().Err(err).Msg("open gateway")
		a.backOff() // no other message of the instance comes further
		return
	}
	if !a.answers(ctx, client, inst, content.Digits) {
		return
	}
	number, verdict := a.number(ctx, client, inst, content.Digits)
	switch verdict {
	case numberRefused:
		a.closeOne(ctx, j, events.FailNotOnWhatsApp, always)
		return
	case numberNotNow:
		a.unplugged(ctx, inst)
		return
	case numberForeign:
		a.holdBack(ctx, j, true)
		return
	case numberUnsaid:
		a.holdBack(ctx, j, false)
		return
	case numberFine:
	}
	if !a.typing(ctx, client, inst, j, content, number.number) {
		return
	}
	failpoint.Hit("dispatcher.before_intent")
	s := a.start(ctx, j, said, callOf(content), a.jidHash(ctx, inst, number), chooseID(client, callOf(content)))
	if s == nil {
		return
	}
	failpoint.Hit("dispatcher.after_intent")
	defer a.landed(s.nonce)
	a.untype(j.id)
	out := a.call(ctx, client, inst, s, content, number.number)
	failpoint.Hit("dispatcher.before_outcome")
	a.settle(ctx, inst, j, s, out)
	failpoint.Hit("dispatcher.before_ack")
}

// postponeFor is how long a message waits for something of this process that is not there just now.
const postponeFor = 2 * time.Second

func (a *actor) postpone(j job, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.q.Postpone(j.id, a.p.d.set.Now().Add(d))
}

// intent is a start of ours that stands in the log.
type intent struct {
	job   job
	nonce string
	seq   uint64
	// chosen is the id that the gateway is asked to give the message; "" where it takes none.
	chosen string
	begun  time.Time // before the first publish attempt, with its monotonic reading
}

// age is the larger of monotonic and wall time since before the first publish attempt (rule R4).
func (s *intent) age(now time.Time) time.Duration {
	return max(now.Sub(s.begun), now.Round(0).Sub(s.begun.Round(0)))
}

// start appends the intent and reads the tail up to it. nil means that no call may follow now.
func (a *actor) start(ctx context.Context, j job, said string, call evolution.Call, jidHash, chosen string) *intent {
	s := &intent{job: j, nonce: newID(), chosen: chosen}
	set := a.p.d.set
	a.p.own.Store(s.nonce, struct{}{})
	defer a.p.own.Delete(s.nonce)
	ev := a.event(events.TypeDispatchStarted, "started", j.message(), j.lane.Tenant, j.attempt,
		&events.DispatchStarted{Call: string(call), BudgetMS: set.Budget.Milliseconds(), LimitMS: set.CallLimit.Milliseconds(), JIDHash: jidHash})
	ev.Nonce, ev.GatewayID, ev.DeliverUntil, ev.TextHash = s.nonce, s.chosen, j.deliverUntil, said
	bounded, cancel := context.WithTimeout(ctx, set.Budget)
	defer cancel()
	started := false
	err := a.decide(bounded, func(q *queue.Queue, now time.Time) decision {
		if started { // a refused append: this turn is over, the loop decides anew
			return decision{}
		}
		started = true
		if a.unsaid.Load() > 0 { // what became of another turn's call is not in the log yet
			return decision{}
		}
		if e, ok := q.Entry(j.id); !ok || e.NextAttempt() != j.attempt || q.MayStart(j.id, now) != queue.HoldNone {
			return decision{}
		}
		if repeats(q, j, said, now) { // the next turn says so
			return decision{}
		}
		if a.givesWay(j, now) {
			return decision{}
		}
		s.begun, ev.Time = now, now.UTC()
		a.flying[s.nonce] = true
		return decision{fenced: &ev}
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.q.Entry(j.id)
	landed := false
	if ok {
		at := attemptOf(e, j.attempt)
		// What is stored and not known to be on disk may be forgotten: it is not called.
		if landed = at.Nonce == s.nonce; landed && at.State == message.AttemptOpen && err == nil {
			s.seq = at.StartSeq
			return s
		}
	}
	published := a.flying[s.nonce]
	delete(a.flying, s.nonce)
	if published && err != nil || landed { // it may still land, or a successor has closed it: it is mine, and was not called (rule R2)
		remember(a.mine, s.nonce) // one that is forgotten is unknown to us when it lands, as another life's
		a.log.Warn().Err(err).Str("message", j.id).Msg("start not confirmed")
	}
	return nil
}

// landed says that no turn is busy with a start any more.
func (a *actor) landed(nonce string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.flying, nonce)
}

// chooseID draws the gateway id of an attempt, for gateways that take one: a look-up finds it by that, and a receipt proves it.
func chooseID(client *evolution.Client, call evolution.Call) string {
	if !evolution.TakesMessageID(call, client.KnownVersion()) {
		return ""
	}
	return evolution.NewMessageID()
}

// maxRemembered bounds what an actor remembers of each kind.
const maxRemembered = 1000

// remember puts a name into a set that forgets all when it is full.
func remember(set map[string]bool, name string) {
	if len(set) >= maxRemembered {
		clear(set)
	}
	set[name] = true
}

// jidHash is the keyed hash of the address a message is about to go to: what a receipt's own can be compared with.
func (a *actor) jidHash(ctx context.Context, inst events.Instance, r resolved) string {
	if r.jid == "" {
		return ""
	}
	bounded, cancel := context.WithTimeout(ctx, a.p.d.set.AppendTry)
	defer cancel()
	hash, err := a.p.d.keys.HashJID(bounded, inst.TenantID, r.jid)
	if err != nil { // it only serves to notice anomalies
		a.log.Warn().Err(err).Msg("hash address")
	}
	return hash
}

// check is the last look, at every Write of the request (rule R4).
func (a *actor) check(j job, s *intent) error {
	now := a.p.d.set.Now()
	if s.age(now) >= a.p.d.set.Budget {
		return errTooOld
	}
	if !now.Before(j.deliverUntil) || a.p.timeless() {
		return errStopped
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.q.Entry(j.id)
	if !ok || e.Summary().Settled() || a.q.Paused() || a.q.Parked() || a.q.Closed() || !a.q.ChainIntact() || a.q.InDoubt(j.id) {
		return errStopped
	}
	if at := attemptOf(e, j.attempt); at.State != message.AttemptOpen || at.Nonce != s.nonce {
		return errStopped
	}
	if !a.q.MayCall(j.id) { // promise P5: fewer calls at once are allowed than when it was appended
		return errStopped
	}
	return nil
}

func attemptOf(e *queue.Entry, n int) message.Attempt {
	if at := e.Summary().Attempts; n >= 1 && n <= len(at) {
		return at[n-1]
	}
	return message.Attempt{}
}

// always is the condition of an end that needs none of its own.
func always(*queue.Queue, time.Time) bool { return true }

// closeOne ends a message of which no attempt can have had an effect, if that holds when it is appended; done says that it did.
func (a *actor) closeOne(ctx context.Context, j job, code events.ErrorCode, holds func(*queue.Queue, time.Time) bool) (done bool) {
	err := a.decide(ctx, func(q *queue.Queue, now time.Time) decision {
		if done = q.MayClose(j.id, events.ClosedFailed, now) == queue.HoldNone && holds(q, now); !done {
			return decision{}
		}
		ev := a.event(events.TypeDispatchClosed, "closed", j.message(), j.lane.Tenant, 0,
			&events.DispatchClosed{Reason: events.ClosedFailed, Code: code, Messages: []events.ClosedMessage{j.message()}})
		return decision{fenced: &ev}
	})
	if err != nil {
		a.log.Warn().Err(err).Str("message", j.id).Msg("close not confirmed")
	}
	return done && err == nil
}
