package receipts

import (
	"bytes"
	"container/heap"
	"math/rand/v2"
	"time"

	"pilotstatus.dev/events"
)

// registration is what is known of the webhook of an instance.
type registration struct {
	instance events.Instance
	failures int
	next     time.Time // zero: at once
}

// same reports whether the same is to be registered of both.
func same(a, b events.Instance) bool {
	return a.GatewayURL == b.GatewayURL && a.Name == b.Name && a.Shared == b.Shared && a.IngressHash == b.IngressHash &&
		bytes.Equal(a.Ingress.Blob, b.Ingress.Blob) && bytes.Equal(a.GatewayKey.Blob, b.GatewayKey.Blob)
}

// byNext is a heap of registrations: the one that is due next first.
type byNext []*registration

func (q byNext) Len() int           { return len(q) }
func (q byNext) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q byNext) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byNext) Push(x any)        { *q = append(*q, x.(*registration)) } //nolint:forcetypeassert // only these are put in
func (q *byNext) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return x
}

// atOneGateway bounds the registrations at one gateway at a time.
const atOneGateway = 8

// neighbors are the instances of one gateway. It has as many registrations at a time as it answered in a row, and one at least: one that
// hangs from the start, or did before, takes one slot, however many instances are behind it.
type neighbors struct {
	waiting  byNext
	running  int
	answers  int // in a row
	failures int // in a row that speak of the gateway; of calls that began together one counts
	next     time.Time
}

// due says when the next registration may begin; something waits.
func (n *neighbors) due() time.Time {
	if first := n.waiting[0].next; first.After(n.next) {
		return first
	}
	return n.next
}

func (n *neighbors) idle() bool { return len(n.waiting) == 0 && n.running == 0 }

// flight is a registration under way.
type flight struct {
	gateway  *neighbors
	failures int // of the gateway when it began
}

// registrations is what is registered, and what is due. It is owned by the loop of the registrar.
type registrations struct {
	settings RegistrarSettings
	known    map[string]*registration // by instance
	gateways map[string]*neighbors    // by URL
	flying   map[string]flight        // by instance: each has one registration at a time
	doubtful int                      // of those: at a gateway that had failed when they began
}

func newRegistrations(s RegistrarSettings) *registrations {
	return &registrations{settings: s, known: map[string]*registration{}, gateways: map[string]*neighbors{}, flying: map[string]flight{}}
}

// look takes in which instances there are. What is to be registered otherwise than before is due at once.
func (r *registrations) look(instances []events.Instance) {
	before := r.known
	r.known = make(map[string]*registration, len(instances))
	for _, g := range r.gateways {
		clear(g.waiting)
		g.waiting = g.waiting[:0]
	}
	for _, in := range instances {
		reg := before[in.ID]
		if reg == nil || !same(reg.instance, in) {
			reg = &registration{}
		}
		reg.instance = in
		r.known[in.ID] = reg
		if _, flies := r.flying[in.ID]; !flies {
			g := r.gateway(in.GatewayURL)
			g.waiting = append(g.waiting, reg)
		}
	}
	for url, g := range r.gateways {
		if heap.Init(&g.waiting); g.idle() {
			delete(r.gateways, url)
		}
	}
}

func (r *registrations) gateway(url string) *neighbors {
	g := r.gateways[url]
	if g == nil {
		g = &neighbors{}
		r.gateways[url] = g
	}
	return g
}

// take gives a registration to begin now, which is under way until done. Gateways that failed get half of the slots at most: any number of
// them that hang leaves the rest to others.
func (r *registrations) take(now time.Time) (events.Instance, bool) {
	if len(r.flying) >= r.settings.Parallel {
		return events.Instance{}, false
	}
	var best *neighbors
	for _, g := range r.gateways {
		if r.open(g) && !g.due().After(now) && (best == nil || g.due().Before(best.due())) {
			best = g
		}
	}
	if best == nil {
		return events.Instance{}, false
	}
	in := heap.Pop(&best.waiting).(*registration).instance //nolint:forcetypeassert // only these are put in
	best.running++
	if best.failures > 0 {
		r.doubtful++
	}
	r.flying[in.ID] = flight{best, best.failures}
	return in, true
}

func (r *registrations) open(g *neighbors) bool {
	return len(g.waiting) > 0 && g.running < max(1, min(g.answers, atOneGateway)) && (g.failures == 0 || r.doubtful < max(1, r.settings.Parallel/2))
}

// result is what came of a registration that take gave.
type result struct {
	instance events.Instance
	err      error
	gateway  bool // the error speaks of the gateway, not of the instance
}

func (r *registrations) done(res result, now time.Time) {
	f := r.flying[res.instance.ID]
	delete(r.flying, res.instance.ID)
	if f.failures > 0 {
		r.doubtful--
	}
	g := f.gateway
	g.running--
	switch {
	case res.err == nil || !res.gateway:
		g.answers, g.failures, g.next = g.answers+1, 0, time.Time{}
	case f.failures == g.failures:
		g.next = now.Add(r.wait(g.failures))
		g.answers, g.failures = 0, g.failures+1
	}
	if reg := r.known[res.instance.ID]; reg != nil {
		if same(reg.instance, res.instance) {
			if res.err == nil {
				reg.failures, reg.next = 0, now.Add(r.settings.Again)
			} else { // others behind the gateway have their turn before
				reg.next = now.Add(r.wait(reg.failures))
				reg.failures++
			}
		}
		heap.Push(&r.gateway(reg.instance.GatewayURL).waiting, reg)
	}
	if url := res.instance.GatewayURL; r.gateways[url] == g && g.idle() {
		delete(r.gateways, url)
	}
}

func (r *registrations) wait(failures int) time.Duration {
	d := min(r.settings.BackoffMin<<min(failures, 20), r.settings.BackoffMax)
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, keeps no secret
}

// wake gives the time of the next registration that waits for nothing but its time.
func (r *registrations) wake(now time.Time) time.Time {
	next := now.Add(r.settings.Again)
	for _, g := range r.gateways {
		if len(g.waiting) > 0 && g.due().After(now) && g.due().Before(next) {
			next = g.due()
		}
	}
	return next
}
