package dispatcher

import (
	"sync"
	"time"

	"pilotstatus.dev/events"
)

// outages knows which gateways are unusable: each behind which an instance is parked for the gateway's sake, by whichever dispatcher, and
// that was not found in use since. It is folded from the parks in the log of every partition, so all dispatchers know the same; what this
// process found in use itself comes to that. All of it is economy: who is not held tries, and is refused.
type outages struct {
	urlOf  func(instance string) string // "" when it is not known
	behind func(url string) int         // how many instances
	served func(instance string) bool   // some dispatcher works in its partition
	tell   func(unusable int)           // how many gateways are unusable, when that changes
	spread time.Duration                // over which at most the instances of a gateway begin again

	mu       sync.Mutex
	unread   map[events.Partition]time.Time // not read to its end yet → when something was read of it; zero: nothing was
	parks    map[string]park                // by instance, while they hold
	gateways map[string]*gateway            // by URL
	unusable int
}

// gateway is what is known of one.
type gateway struct {
	holders  map[string]bool // instances parked for its sake: nothing behind it starts while there is one
	answered time.Time       // when it was found in use: no older park holds it
	asks     *asks           // what this process asks of it while it is held; nil before anybody stands in
	freed    *freed          // while its instances begin again; nil: they have
	fails    fails           // connections that failed in a row, as this process met them
	probe    time.Time       // no probe of an instance before
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

func newOutages(urlOf func(string) string, behind func(string) int, served func(string) bool, tell func(int), spread time.Duration) *outages {
	return &outages{
		urlOf: urlOf, behind: behind, served: served, tell: tell, spread: spread,
		unread: map[events.Partition]time.Time{}, parks: map[string]park{}, gateways: map[string]*gateway{},
	}
}

// of gives what is known of a gateway. The caller holds mu.
func (o *outages) of(url string) *gateway {
	g := o.gateways[url]
	if g == nil {
		g = &gateway{holders: map[string]bool{}}
		o.gateways[url] = g
	}
	return g
}

func (g *gateway) held() bool { return len(g.holders) > 0 }

// learn takes in what the fold says of an instance, and gives the URL of a gateway that this frees.
func (o *outages) learn(id string, parked bool, p park, now time.Time) (free string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.take(id, parked, p, now)
}

// take is learn for a caller that holds mu.
func (o *outages) take(id string, parked bool, p park, now time.Time) (free string) {
	old, had := o.parks[id]
	if !parked {
		delete(o.parks, id)
		return o.drop(id, old, now)
	}
	p.url = o.urlOf(id)
	o.parks[id] = p
	g := o.of(p.url)
	holds := p.wide && p.url != "" && !p.at.Before(g.answered)
	if had && (old.url != p.url || !holds) {
		free = o.drop(id, old, now)
	}
	if holds {
		if !g.held() {
			o.changed(1)
		}
		g.holders[id], g.freed = true, nil
	}
	return free
}

// drop lets an instance hold its gateway no longer. The caller holds mu.
func (o *outages) drop(id string, old park, now time.Time) (free string) {
	g := o.of(old.url)
	if !g.holders[id] {
		return ""
	}
	delete(g.holders, id)
	if g.held() {
		return ""
	}
	o.changed(-1)
	g.fails, g.asks = fails{}, nil
	o.again(g, o.behind(old.url), now)
	return old.url
}

// changed counts the gateways that are unusable. The caller holds mu.
func (o *outages) changed(by int) {
	o.unusable += by
	o.tell(o.unusable)
}

// again lets the n instances of a gateway begin one after the other. The caller holds mu.
func (o *outages) again(g *gateway, n int, now time.Time) { g.freed = &freed{now, o.over(n)} }

// over gives how long n instances take that do something one after the other.
func (o *outages) over(n int) time.Duration { return min(o.spread, time.Duration(n)*beginEach) }

// answered takes in that a gateway was found in use at a time, and gives its URL when that frees it: who was parked for its sake before
// then holds it no longer, though it may be long until its own partition can say so.
func (o *outages) answered(url string, at, now time.Time) (free string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.of(url)
	if at.After(g.answered) {
		g.answered = at
	}
	for id := range g.holders {
		if p := o.parks[id]; p.at.Before(at) && o.drop(id, p, now) != "" {
			free = url
		}
	}
	return free
}

// moved looks again where the parked instances are, after a change of the catalog that leaves so many behind each gateway. What an instance
// that moved, or is gone, held is free, and a gateway without any is forgotten.
func (o *outages) moved(behind map[string]int, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, p := range o.parks {
		if o.urlOf(id) != p.url {
			o.take(id, true, p, now)
		}
	}
	for url, g := range o.gateways {
		if behind[url] == 0 && !g.held() {
			delete(o.gateways, url)
		}
	}
}

// held reports whether nothing behind the gateway may start: it is unusable, or it has just come back and the turn of this instance to begin
// again is yet to come, at a time that is given then.
func (o *outages) held(url, id string, now time.Time) (at time.Time, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.of(url)
	f := g.freed
	switch {
	case g.held():
		return time.Time{}, true
	case f == nil:
		return time.Time{}, false
	case now.Sub(f.at) >= f.spread:
		g.freed = nil
		return time.Time{}, false
	}
	at = f.at.Add(time.Duration(fraction(id) * float64(f.spread)))
	return at, now.Before(at)
}

// fraction spreads instances evenly over [0,1).
func fraction(id string) float64 {
	return float64(events.Hash(id)>>32) / (1 << 32)
}

// prober gives the instance that asks for the whole gateway: the first of those that hold it and that somebody works for. "" is none of
// them: who stands in asks.
func (o *outages) prober(url string) (id string, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.of(url)
	for other := range g.holders {
		if (id == "" || other < id) && o.served(other) {
			id = other
		}
	}
	return id, g.held()
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
	f := &o.of(url).fails
	if now.Sub(f.last) >= escalateWithin {
		f.n = 0
	}
	f.n, f.last = f.n+1, now
	return f.n >= escalateAfter
}

// reached notes that the gateway was written to.
func (o *outages) reached(url string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(url).fails = fails{}
}

// mayProbe bounds the probes of instances of one gateway. One that is refused is tried again later.
func (o *outages) mayProbe(url string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.of(url)
	if now.Before(g.probe) {
		return false
	}
	g.probe = now.Add(probeGap)
	return true
}

// count gives how many gateways are unusable.
func (o *outages) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unusable
}
