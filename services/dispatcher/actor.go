package dispatcher

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/eventlog"
)

// actor works for one instance of a partition: its fold, its turns, its ends and its look-ups. One goroutine at a time runs it, and
// none while there is nothing to do or another process owns the instance: it chooses, ends and concludes. Each turn has a goroutine
// of its own, at most as many as the instance allows calls at once; run waits for them. All append through decide and append, one at
// a time.
type actor struct {
	p   *partition
	id  string
	log zerolog.Logger

	endMargin time.Duration // after which an end of an instance of another is made here

	mu sync.Mutex // guards q and what stands up to probes
	q  *queue.Queue
	// mine holds the nonces of starts of this life that no turn is busy with and that were not called.
	mine map[string]bool
	// flying holds the nonces of starts that a turn is busy with, from before they are published until their outcome is in the log.
	flying  map[string]bool
	typed   map[string]bool   // messages for which somebody types, or typed before their turn gave way
	gave    map[string]bool   // messages whose turn gave way
	doubted map[string]doubts // of messages that are held back
	holds   *holds            // brought to q
	probeAt time.Time
	probes  int // in a row that did not end what holds it

	kicks     chan struct{}
	appending chan struct{}  // holds a token while an append is under way
	turns     sync.WaitGroup // of this run
	turnTime  atomic.Int64   // how long turns took of late, in nanoseconds
	unsaid    atomic.Int32   // outcomes that could not be appended yet: nothing is taken meanwhile
	lanes     *lanes
	numbers   *numbers
	holdoff   holdoff

	// Below: only the goroutine of run.
	seen     map[string]time.Time // nonce of a foreign open start → when this process first read it (rule R4)
	lookups  map[string]*lookup
	results  chan lookupResult
	pending  int        // look-ups under way
	lookFrom int        // where the next look-up begins; of the one look-up under way
	fault    queue.Hold // complained about
	restored restored
}

func newActor(p *partition, id string) *actor {
	return &actor{
		p: p, id: id, log: p.d.log.With().Str("instance", id).Logger(),
		q: queue.New(id, p.d.set.Rules), mine: map[string]bool{}, flying: map[string]bool{}, typed: map[string]bool{}, gave: map[string]bool{}, doubted: map[string]doubts{}, kicks: make(chan struct{}, 1),
		appending: make(chan struct{}, 1), lanes: newLanes(), seen: map[string]time.Time{}, lookups: map[string]*lookup{},
		endMargin: p.d.set.EndMargin + time.Duration(p.d.draw()*float64(p.d.set.EndMargin)/2),
		results:   make(chan lookupResult, 8), numbers: newNumbers(p.d.set.NumberTTL),
	}
}

// fold takes one event of the tail in.
func (a *actor) fold(rec events.Recorded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.shut()
	a.q.Apply(rec)
	if !was && a.shut() { // what has just gone is not asked at once whether it is back
		a.probes, a.probeAt = 0, a.p.d.set.Now().Add(a.probeWait(0, a.q.ParkedWide()))
	}
}

// shut reports that nothing leaves until a probe, a word of the gateway or an operator ends it. The caller holds a.mu.
func (a *actor) shut() bool { return a.q.Parked() || a.q.Closed() }

// kick wakes the actor; it never blocks.
func (a *actor) kick() {
	select {
	case a.kicks <- struct{}{}:
	default:
	}
}

// busy reports whether the actor has anything to do. What is shut is probed also without messages: the API takes none for an instance
// that is closed, so that none would come to wake it. One that was removed is not.
func (a *actor) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.q.Len() > 0 || a.q.Taken() > 0 {
		return true
	}
	if !a.shut() {
		return false
	}
	_, there := a.p.d.instance(a.id)
	return there
}

// run works until ctx ends or there is nothing left to do for Idle.
func (a *actor) run(ctx context.Context) {
	defer a.rest()
	defer a.giveBack(a.p.hard)
	defer a.turns.Wait() // each is bounded by its limits, and cut with a.p.hard
	idle := time.NewTimer(a.p.d.set.Idle)
	defer idle.Stop()
	for {
		wake := a.work(ctx)
		if ctx.Err() != nil || !a.wanted() { // another one works for it, who reads here what was begun
			return
		}
		if a.busy() {
			idle.Reset(a.p.d.set.Idle)
		}
		timer := time.NewTimer(wake)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.kicks:
		case r := <-a.results:
			a.pending--
			a.conclude(ctx, r)
		case <-timer.C:
		case <-idle.C:
			timer.Stop()
			if !a.busy() && a.pending == 0 {
				return
			}
			idle.Reset(a.p.d.set.Idle)
		}
		timer.Stop()
	}
}

// rest lets go of what the goroutine held.
func (a *actor) rest() {
	for ; a.pending > 0; a.pending-- { // each is bounded by LookUpLimit and by the ending context
		<-a.results
	}
	a.dropLanes(func(events.Lane, *lane) bool { return true })
	if !a.owned() {
		a.complain(queue.HoldNone) // it is the owner's to say
	}
	clear(a.seen)
	clear(a.lookups)
}

// maxNap bounds how long an actor sleeps without looking again: a net under every missed wake-up.
const maxNap = 5 * time.Second

// work does everything that is due and gives how long to sleep.
func (a *actor) work(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		a.disproveMine(ctx)
		if !a.owned() || a.p.timeless() {
			clear(a.seen)    // waits begin anew with a new owner
			clear(a.lookups) // and so do counts: who owned it meanwhile may have learned more
			if a.overdue() {
				a.close(ctx, a.endMargin)
			}
			return maxNap
		}
		if a.p.halted() {
			return maxNap
		}
		a.resolveOpen(ctx, false)
		a.close(ctx, 0)
		a.lookUp(ctx)
		a.lookUpRestored(ctx)
		a.probe(ctx)
		a.standIn(ctx)
		a.dropIdleLanes()
		if !a.next() {
			break
		}
	}
	return a.nap()
}

// next begins the next turn, if there is one.
func (a *actor) next() bool {
	now := a.p.d.set.Now()
	if a.p.lagging(now) || a.p.timeless() || a.unsaid.Load() > 0 {
		return false
	}
	inst, ok := a.p.d.instance(a.id)
	if !ok || a.p.d.catalog.Current() != nil || now.Before(a.holdoff.opensAt()) {
		return false
	}
	if _, held := a.p.d.outages.held(inst.GatewayURL, a.id, now); held || !a.p.d.outages.known() {
		return false
	}
	a.mu.Lock()
	a.hold(inst)
	s, ok := a.q.Next(now)
	var j job
	held := queue.HoldNone
	if ok {
		j = newJob(s)
		a.q.Take(j.id)
	} else {
		held = a.q.Held(now)
	}
	a.mu.Unlock()
	if !ok {
		a.complain(held)
		return false
	}
	a.complain(queue.HoldNone)
	a.turns.Go(func() {
		defer a.kick()
		a.turn(a.p.hard, inst, j)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.q.Release(j.id)
		a.took(a.p.d.set.Now().Sub(now))
	})
	return true
}

// complain tells a person, once, that an instance is held by more than an operator's word or a passing fault.
func (a *actor) complain(held queue.Hold) {
	if held == a.fault {
		return
	}
	a.p.d.faulted(a.id, held)
	a.fault = held
	switch held {
	case queue.HoldBroken, queue.HoldUnreadable:
		a.p.d.metrics.held.WithLabelValues(string(held)).Inc()
		a.log.Error().Str("fault", string(held)).Msg("instance stopped: its fenced events cannot be trusted")
	case queue.HoldParked:
		a.log.Warn().Msg("instance parked, or closed by the gateway: what it has to send waits for a probe, or for its deadline")
	default:
	}
}

func (a *actor) nap() time.Duration {
	now := a.p.d.set.Now()
	a.mu.Lock()
	wake := a.q.Wake(now)
	open := len(a.q.Open())
	a.mu.Unlock()
	nap := maxNap
	until := func(t time.Time) {
		if !t.IsZero() {
			nap = min(nap, max(t.Sub(now), time.Millisecond))
		}
	}
	until(wake)
	if at, probes := a.probeNext(); probes {
		until(at)
	}
	if at := a.holdoff.opensAt(); at.After(now) {
		until(at)
	}
	if inst, ok := a.p.d.instance(a.id); ok {
		if at, held := a.p.d.outages.held(inst.GatewayURL, a.id, now); held {
			until(at)
		}
		if at, held := a.p.d.outages.look(inst.GatewayURL, a.id); held {
			until(at)
		}
	}
	if open > 0 {
		for _, at := range a.seen {
			until(at.Add(a.p.d.set.SuccessorWait))
		}
	}
	if a.pending == 0 {
		for _, l := range a.lookups {
			until(l.next)
		}
	}
	if next, waits := a.restoredNext(); waits && a.pending == 0 {
		until(next)
	}
	if a.p.lagging(now) {
		nap = min(nap, a.p.d.set.MaxTailLag)
	}
	return nap
}

// appends waits until no other goroutine of the actor appends: what one decides by the fold, and the fence of that very fold, must not be
// undone by another of the same process. done lets the next one in.
func (a *actor) appends(ctx context.Context) (done func(), err error) {
	select {
	case a.appending <- struct{}{}:
		return func() { <-a.appending }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// decision is what the fold says should be appended; the zero decision appends nothing.
type decision struct {
	fenced *events.Event
	plain  *events.Event // outside the fenced group
}

// decide appends what the fold says, with the fence of the very fold that said it. A refused append re-reads and decides
// anew (rule R1). When it returns without error, the fold has taken in what was appended. The error says that the fate of
// the last append is not known: the fold will show it.
func (a *actor) decide(ctx context.Context, choose func(q *queue.Queue, now time.Time) decision) error {
	done, err := a.appends(ctx)
	if err != nil {
		return err
	}
	defer done()
	for ctx.Err() == nil {
		if a.p.halted() {
			return errHalted
		}
		a.mu.Lock()
		d := choose(a.q, a.p.d.set.Now())
		expected := a.q.GroupSequence()
		a.mu.Unlock()
		switch {
		case d.plain != nil:
			try, cancel := context.WithTimeout(ctx, a.p.d.set.AppendTry)
			_, err := a.p.log.Append(try, *d.plain)
			cancel()
			return err
		case d.fenced == nil:
			return nil
		}
		try, cancel := context.WithTimeout(ctx, a.p.d.set.AppendTry)
		put := a.p.log.AppendUntold
		if d.fenced.Type == events.TypeDispatchStarted { // a call follows, and must not be forgotten
			put = a.p.log.AppendFenced
		}
		seq, err := put(try, a.p.n, a.id, *d.fenced, expected)
		var refused *eventlog.Refused
		if errors.As(err, &refused) {
			seq, err = refused.Last, nil
		}
		if err == nil {
			err = a.p.wait(try, seq)
		}
		cancel()
		if err != nil || refused == nil {
			return err
		}
	}
	return ctx.Err()
}
