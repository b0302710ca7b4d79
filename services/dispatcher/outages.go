package dispatcher

import (
	"context"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/eventlog"
)

// outages knows which gateways are unusable: each behind which an instance is parked for the gateway's sake, by whichever dispatcher. It
// is folded from the parks in the log of every partition, so all dispatchers know the same.
type outages struct {
	urlOf  func(instance string) string // "" when it is not known
	behind func(url string) int         // how many instances
	spread time.Duration                // over which at most the instances of a gateway begin again

	mu     sync.Mutex
	unread map[events.Partition]bool
	parks  map[string]park            // by instance, while they hold
	wide   map[string]map[string]bool // URL → instances parked for its sake
	freed  map[string]freed           // URL → when it came back, for as long as its instances begin again
	fails  map[string]fails           // URL → connections that failed in a row, as this process met them
	probe  map[string]time.Time       // URL → no probe of an instance before
}

// park is the newest park of an instance.
type park struct {
	url    string // of its gateway
	wide   bool   // for the gateway's sake
	reason string
	at     time.Time
}

type freed struct {
	at     time.Time
	spread time.Duration
}

type fails struct {
	n    int
	last time.Time
}

const (
	escalateAfter  = 3           // instances with the same refusal, or failed connections in a row
	escalateWithin = time.Minute // of each other
	beginEach      = 5 * time.Millisecond
	probeGap       = 20 * time.Millisecond // between two probes of instances of one gateway
)

func newOutages(urlOf func(string) string, behind func(string) int, spread time.Duration) *outages {
	return &outages{
		urlOf: urlOf, behind: behind, spread: spread, unread: map[events.Partition]bool{},
		parks: map[string]park{}, wide: map[string]map[string]bool{}, freed: map[string]freed{}, fails: map[string]fails{}, probe: map[string]time.Time{},
	}
}

// learn takes in what the fold says of an instance, and gives the URL of a gateway that this frees.
func (o *outages) learn(id string, parked bool, p park, now time.Time) (free string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, had := o.parks[id]
	if !parked {
		delete(o.parks, id)
		return o.drop(id, old, now)
	}
	p.url = o.urlOf(id)
	o.parks[id] = p
	if had && (old.url != p.url || !p.wide) {
		free = o.drop(id, old, now)
	}
	if p.wide && p.url != "" {
		if o.wide[p.url] == nil {
			o.wide[p.url] = map[string]bool{}
		}
		o.wide[p.url][id] = true
		delete(o.freed, p.url)
	}
	return free
}

// drop lets an instance hold its gateway no longer. The caller holds mu.
func (o *outages) drop(id string, old park, now time.Time) (free string) {
	if !o.wide[old.url][id] {
		return ""
	}
	delete(o.wide[old.url], id)
	if len(o.wide[old.url]) > 0 {
		return ""
	}
	delete(o.wide, old.url)
	delete(o.fails, old.url)
	o.freed[old.url] = freed{now, min(o.spread, time.Duration(o.behind(old.url))*beginEach)}
	return old.url
}

// moved looks again where the parked instances are, after a change of the catalog. What an instance that moved, or is gone, held is free.
func (o *outages) moved(now time.Time) {
	o.mu.Lock()
	moved := map[string]park{}
	for id, p := range o.parks {
		if o.urlOf(id) != p.url {
			moved[id] = p
		}
	}
	o.mu.Unlock()
	for id, p := range moved {
		o.learn(id, true, p, now)
	}
}

// held reports whether nothing behind the gateway may start: it is unusable, or it has just come back and the turn of this instance to begin
// again is yet to come, at a time that is given then.
func (o *outages) held(url, id string, now time.Time) (at time.Time, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.wide[url]) > 0 {
		return time.Time{}, true
	}
	f, ok := o.freed[url]
	switch {
	case !ok:
		return time.Time{}, false
	case now.Sub(f.at) >= f.spread:
		delete(o.freed, url)
		return time.Time{}, false
	}
	at = f.at.Add(time.Duration(fraction(id) * float64(f.spread)))
	return at, now.Before(at)
}

// fraction spreads instances evenly over [0,1).
func fraction(id string) float64 {
	return float64(events.Hash(id)>>32) / (1 << 32)
}

// prober gives the instance that asks for the whole gateway: one of those that hold it.
func (o *outages) prober(url string) (id string, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for other := range o.wide[url] {
		if id == "" || other < id {
			id = other
		}
	}
	return id, id != ""
}

// refused counts the other instances of a gateway that were parked within a minute because it refused their key.
func (o *outages) refused(url, id, reason string, now time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for other, p := range o.parks {
		if other != id && p.url == url && p.reason == reason && now.Sub(p.at) < escalateWithin {
			n++
		}
	}
	return n
}

// unreachable notes a connection that failed, and tells whether so many did in a row that the gateway is gone.
func (o *outages) unreachable(url string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.fails[url]
	if now.Sub(f.last) >= escalateWithin {
		f.n = 0
	}
	f.n, f.last = f.n+1, now
	o.fails[url] = f
	return f.n >= escalateAfter
}

// reached notes that the gateway was written to.
func (o *outages) reached(url string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.fails, url)
}

// mayProbe bounds the probes of instances of one gateway. One that is refused is tried again later.
func (o *outages) mayProbe(url string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Before(o.probe[url]) {
		return false
	}
	o.probe[url] = now.Add(probeGap)
	return true
}

// count gives how many gateways are unusable.
func (o *outages) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.wide)
}

// followParks takes in what a partition's log says of parks until ctx ends: of every partition, whether this process folds it or not.
func (d *Dispatcher) followParks(ctx context.Context, p *partition) {
	states := map[string]presence.State{} // of those that are parked
	from := uint64(1)
	for {
		err := p.log.Tail(ctx, eventlog.TailConfig{
			Stream: events.EventsStream(p.n), From: from, Filters: []string{events.GroupFilter(p.n, events.GroupInstance)},
		}, func(ctx context.Context, b eventlog.Batch) error {
			from = max(from, b.Last+1)
			d.takeParks(ctx, states, b.Events)
			if b.CaughtUp && d.outages.read(p.n) {
				d.wakeAll(ctx)
			}
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		d.log.Warn().Err(err).Stringer("partition", p.n).Msg("parks cannot be followed: tried again")
		await.Elapsed(ctx, followAgain)
	}
}

func (d *Dispatcher) takeParks(ctx context.Context, states map[string]presence.State, recs []events.Recorded) {
	for _, rec := range recs {
		addr, err := events.ParseEventSubject(rec.Address)
		if err != nil {
			continue
		}
		s := states[addr.Instance].Apply(rec)
		free := ""
		switch {
		case !s.Parked:
			delete(states, addr.Instance)
			free = d.outages.learn(addr.Instance, false, park{}, d.set.Now())
		case rec.Type == events.TypeInstanceParked:
			states[addr.Instance] = s
			free = d.outages.learn(addr.Instance, true, park{wide: s.Park.Scope == events.ParkGateway, reason: s.Park.Reason, at: rec.Time}, d.set.Now())
		default:
			states[addr.Instance] = s
		}
		d.free(ctx, free)
	}
	d.metrics.gateways.Set(float64(d.outages.count()))
}

// read notes that what a partition's log says of parks was read once; true when that was the last of them.
func (o *outages) read(p events.Partition) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.unread[p] {
		return false
	}
	delete(o.unread, p)
	return len(o.unread) == 0
}

// known reports that every partition was read once: until then nothing starts.
func (o *outages) known() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.unread) == 0
}
