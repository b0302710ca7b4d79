package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// partition tails one EVENTS stream and keeps the actors of its instances.
type partition struct {
	d   *Dispatcher
	n   events.Partition
	log *eventlog.Log
	wg  sync.WaitGroup // actors and their look-ups

	mu      sync.Mutex
	actors  map[string]*actor
	running map[string]bool
	folded  uint64
	moved   chan struct{} // closed and made anew when folded moves
	stopped bool          // Run ends: no actor starts any more
	current bool          // the tail has reached the end once
	broken  error         // why the tail ended; nil while it reads
	behind  time.Time     // when the newest event was stored, while more are known to follow; else zero
	stalled bool          // the log brought nothing of what waits, and nothing came since

	lanes atomic.Int64
	hard  context.Context // of turns: it outlives the end of Run by Drain, so that a call under way may end
	own   sync.Map        // nonces of starts of this process, while their turn lasts
	skew  atomic.Pointer[skew]
	keep  keeping
	loads loads
	lost  bool // the newest snapshot that was made is not in the store; belongs to watch, and to finish after it
}

func newPartition(d *Dispatcher, n events.Partition, log *eventlog.Log) *partition {
	p := &partition{d: d, n: n, log: log, actors: map[string]*actor{}, running: map[string]bool{}, moved: make(chan struct{})}
	p.keep.out = make(chan snapshot, 1)
	return p
}

// run folds until ctx ends. Turns that are under way then go on for Drain, and the tail with them.
func (p *partition) run(ctx context.Context) {
	hard, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	p.hard = hard
	p.mu.Lock()
	p.stopped = false
	p.mu.Unlock()
	var ended sync.WaitGroup
	defer ended.Wait()
	ended.Go(func() {
		<-ctx.Done()
		p.mu.Lock()
		p.stopped = true
		p.mu.Unlock()
		idle := make(chan struct{})
		go func() { p.wg.Wait(); close(idle) }()
		select {
		case <-idle:
		case <-time.After(p.d.set.Drain):
			cut()
			<-idle
		}
		cut()
	})
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(hard) })
	watching.Go(func() { p.noteLoads(hard) })
	watching.Go(func() { p.sweep(ctx) })
	p.follow(ctx, hard)
	watching.Wait()
	p.finish(ctx)
}

// followAgain is the wait before a tail that ended is begun again, after the last event it folded.
const followAgain = 5 * time.Second

// follow tails until ctx ends. What ends the tail of one partition (a hole in its log) stops this one and no other.
func (p *partition) follow(ctx, hard context.Context) {
	for {
		err := p.tail(ctx, hard)
		if hard.Err() != nil {
			return
		}
		p.doubts(err)
		if doubt := p.trust(hard); doubt != nil { // of what the tail met, this is the cause
			p.doubts(doubt)
			err = doubt
		}
		p.mu.Lock()
		p.broken = err
		p.mu.Unlock()
		p.d.members.tell()
		p.d.metrics.stopped.WithLabelValues(p.n.String()).Set(1)
		p.d.log.Error().Err(err).Stringer("partition", p.n).Msg("partition stopped: its log cannot be followed")
		await.Elapsed(hard, followAgain)
		if hard.Err() != nil {
			return
		}
	}
}

// tail folds from where the fold is, once the log is known to be the one that was folded.
func (p *partition) tail(ctx, hard context.Context) error {
	if err := p.trust(hard); err != nil {
		return err
	}
	own, cut := context.WithCancel(hard)
	defer cut()
	p.mu.Lock()
	from := p.folded + 1
	p.keep.cut, p.keep.doubt = cut, nil
	p.mu.Unlock()
	p.d.metrics.stopped.WithLabelValues(p.n.String()).Set(0)
	p.askClock(hard) // before anything is done by our clock
	return p.log.Tail(own, eventlog.TailConfig{
		Stream: events.EventsStream(p.n), From: from, HeadersOnly: true, Gapless: true,
		OnMalformed: func(at events.Position, subject string, err error) {
			p.d.log.Error().Err(err).Str("position", at.String()).Str("subject", subject).Msg("event does not decode")
		},
		OnStuck: p.stall,
	}, func(_ context.Context, b eventlog.Batch) error { return p.take(ctx, b) })
}

// take folds one batch and wakes whom it concerns.
func (p *partition) take(ctx context.Context, b eventlog.Batch) error {
	at, err := p.walk(b.Events)
	if err != nil {
		return err
	}
	touched := map[*actor]struct{}{}
	for _, rec := range b.Events {
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil {
			var fenced bool
			if addr.Instance, fenced = events.FencedInstance(rec.Address); !fenced {
				continue
			}
		}
		a := p.actor(addr.Instance)
		a.fold(rec)
		p.announce(a, rec, addr.Lane.Class)
		switch rec.Type {
		case events.TypeMessageRetryRequested, events.TypeInstanceResumed, events.TypeInstanceUnparked: // an operator wants it tried now
			a.holdoff.end()
		}
		touched[a] = struct{}{}
		p.loads.touch(a)
		if _, mine := p.own.Load(rec.Nonce); mine && rec.Nonce != "" {
			p.lookAtClock(rec)
		}
	}
	now := p.d.set.Now()
	for a := range touched {
		a.mu.Lock()
		a.q.Compact(b.Last, now)
		a.mu.Unlock()
	}
	p.mu.Lock()
	p.folded, p.broken, p.keep.at = max(p.folded, b.Last), nil, at
	reached := b.CaughtUp || b.Pending == 0
	first := reached && !p.current
	p.mu.Unlock()
	if first {
		if reached, err = p.enter(ctx); err != nil {
			return err
		}
	}
	p.snapshotIfDue()
	p.mu.Lock()
	if reached && !p.current {
		defer p.d.members.tell() // the others know then that this process can work here
	}
	p.current = p.current || reached
	p.behind, p.stalled = time.Time{}, false
	if b.Pending > 0 && len(b.Events) > 0 {
		p.behind = b.Events[len(b.Events)-1].Stored
	}
	close(p.moved)
	p.moved = make(chan struct{})
	current := p.current
	p.mu.Unlock()
	if !current {
		return nil
	}
	if b.CaughtUp {
		p.wakeAll(ctx)
		return nil
	}
	for a := range touched {
		p.wake(ctx, a)
	}
	return nil
}

// announce says that a code is on its way which this process will call for. While the past is read it owns nothing.
func (p *partition) announce(a *actor, rec events.Recorded, class events.Class) {
	if rec.Type == events.TypeMessageQueued && class.Category() == events.OTP && a.owned() {
		p.d.courtesy.Comes(rec.Subject)
	}
}

// lagging reports that the tail is known to be behind: no start from an old picture.
func (p *partition) lagging(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken != nil || p.keep.doubt != nil || !p.current || p.stalled || (!p.behind.IsZero() && now.Sub(p.behind) > p.d.set.MaxTailLag)
}

// stall notes that the fold stands still although the log has gone on; what comes next ends it.
func (p *partition) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = true
}

func (p *partition) actor(id string) *actor {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.actors[id]
	if a == nil {
		a = newActor(p, id)
		p.actors[id] = a
	}
	return a
}

// wake kicks an actor, and starts its goroutine when it has work and none runs.
func (p *partition) wake(ctx context.Context, a *actor) {
	a.kick()
	if ctx.Err() != nil || !a.busy() || !a.wanted() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[a.id] || !p.current || p.stopped {
		return
	}
	p.running[a.id] = true
	p.d.metrics.working.Inc()
	p.wg.Go(func() {
		a.run(ctx)
		p.mu.Lock()
		delete(p.running, a.id)
		p.mu.Unlock()
		p.d.metrics.working.Dec()
		if ctx.Err() == nil && a.busy() { // work came while it was ending
			p.wake(ctx, a)
		}
	})
}

func (p *partition) wakeAll(ctx context.Context) {
	for _, a := range p.all() {
		p.wake(ctx, a)
	}
}

func (p *partition) all() []*actor {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*actor, 0, len(p.actors))
	for _, a := range p.actors {
		all = append(all, a)
	}
	return all
}

// wait returns when the fold has reached seq.
func (p *partition) wait(ctx context.Context, seq uint64) error {
	for {
		p.mu.Lock()
		done, moved := p.folded >= seq, p.moved
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("read the tail up to %d: %w", seq, ctx.Err())
		case <-moved:
		}
	}
}

// ready says why no start is made; nil when the fold has reached the end of the log once and follows it.
func (p *partition) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.keep.doubt != nil:
		return fmt.Errorf("partition %s stopped: %w", p.n, p.keep.doubt)
	case p.broken != nil:
		return fmt.Errorf("partition %s stopped: %w", p.n, p.broken)
	case !p.current:
		return fmt.Errorf("partition %s is still being folded", p.n)
	case p.stalled:
		return fmt.Errorf("partition %s stands still: the log brings nothing of what waits", p.n)
	}
	return nil
}

// takeLane takes one of this process's share of the partition's lanes; those that serve the partition divide them.
func (p *partition) takeLane() bool {
	share := p.d.set.LaneCap
	if v := p.d.view.Load(); v != nil {
		share = max(1, share/max(1, len(v.serving[p.n])))
	}
	if p.lanes.Add(1) > int64(share) {
		p.lanes.Add(-1)
		return false
	}
	return true
}

func (p *partition) giveLane() { p.lanes.Add(-1) }
