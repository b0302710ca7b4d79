package dispatcher

import (
	"context"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/forecast"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/await"
)

// loadsLife is how many rounds of noting a note outlives: whoever reads it later knows nothing.
const loadsLife = 3

// loads knows the actors whose load may be other than that of an instance at rest.
type loads struct {
	mu     sync.Mutex
	actors map[*actor]struct{}
}

// touch takes in actors that something happened to.
func (l *loads) touch(a *actor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.actors == nil {
		l.actors = map[*actor]struct{}{}
	}
	l.actors[a] = struct{}{}
}

func (l *loads) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.actors)
}

// report looks at them, and forgets those at rest and those of others.
func (l *loads) report(now time.Time) forecast.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := forecast.Report{At: now.UTC(), Instances: map[string]forecast.Load{}}
	for a := range l.actors {
		load := a.load(now)
		switch {
		case !a.owned():
			delete(l.actors, a)
		case load.Rest(now) && !a.busy(): // what is scheduled may become due without anything happening
			delete(l.actors, a)
		case load.Rest(now):
		case len(r.Instances) == forecast.MaxReport:
			r.More = true
		default:
			r.Instances[a.id] = load
		}
	}
	return r
}

// load says what waits at the instance.
func (a *actor) load(now time.Time) forecast.Load {
	l := forecast.Load{Turn: time.Duration(a.turnTime.Load())}
	inst, known := a.p.d.instance(a.id)
	a.mu.Lock()
	defer a.mu.Unlock()
	if known {
		a.hold(inst)
	}
	for _, c := range events.Categories() {
		if at := a.q.PacedUntil(c); at.After(now) {
			if l.Paced == nil {
				l.Paced = map[events.Category]time.Time{}
			}
			l.Paced[c] = at
		}
	}
	l.Waiting = a.q.Backlog(now)
	switch a.q.Held(now) {
	case queue.HoldNone, queue.HoldConcurrency, queue.HoldSlot:
	case queue.HoldQuiet:
		if quiet := a.q.QuietUntil(); quiet.After(l.FreeAt) {
			l.FreeAt = quiet.UTC()
		}
	default:
		l.Held = true
	}
	if a.q.Draining() { // a new message waits until somebody resumes
		l.Held, l.Drains, l.Left = true, true, a.q.Left()
	}
	return l
}

// took remembers how long turns take: the newest counts a quarter. The caller holds a.mu.
func (a *actor) took(d time.Duration) {
	if old := a.turnTime.Load(); old > 0 {
		d = (3*time.Duration(old) + d) / 4
	}
	a.turnTime.Store(int64(d))
}

// noteLoads notes the loads of the instances that this process owns, while it works in the partition and knows them.
func (p *partition) noteLoads(ctx context.Context) {
	for await.Elapsed(ctx, p.d.set.LoadsEvery) {
		now := p.d.set.Now()
		if !p.serves() || p.lagging(now) {
			continue
		}
		raw, err := p.report(now).Encode()
		if err == nil {
			err = p.d.leases.Note(ctx, forecast.Key(p.n, p.d.set.ID), raw, loadsLife*p.d.set.LoadsEvery)
		}
		if err != nil && ctx.Err() == nil {
			p.d.log.Debug().Err(err).Stringer("partition", p.n).Msg("loads not noted: the API gives no forecast")
		}
	}
}

// report is what the loads come to, with the gateways that hold all their instances.
func (p *partition) report(now time.Time) forecast.Report {
	r := p.loads.report(now)
	if v := p.d.view.Load(); v != nil {
		r.Dispatcher, r.Serving = v.self, v.serving[p.n]
	}
	for id, l := range r.Instances {
		if inst, ok := p.d.instance(id); ok {
			if at, held := p.d.outages.held(inst.GatewayURL, id, now); held && at.IsZero() {
				l.Held = true
				r.Instances[id] = l
			}
		}
	}
	return r
}
