package dispatcher

import (
	"context"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

// asks is what this process asks of a gateway that is held, for an instance that should have asked.
type asks struct {
	n      int           // turns so far
	next   time.Time     // no turn before
	spread time.Duration // over which its instances look whether there is one
}

// askMost is longer than the question whether an instance is connected may take: nobody else asks meanwhile.
const askMost = 30 * time.Second

// standIn gives a turn to ask for a gateway that is held, the n-th from 0, when nobody of this process has asked for long; true to one
// caller only, who says by asked what came of it. wait gives how long before the n-th turn.
func (o *outages) standIn(url string, now time.Time, wait func(n int) time.Duration) (n int, due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.of(url)
	switch {
	case !g.held():
		return 0, false
	case g.asks == nil:
		g.asks = &asks{next: now.Add(wait(0)), spread: o.over(o.behind(url))}
		return 0, false
	case now.Before(g.asks.next):
		return 0, false
	}
	g.asks.next = now.Add(askMost)
	return g.asks.n, true
}

// look gives when an instance is to look whether it has a turn to stand in: not thousands at once. false: its gateway is not held.
func (o *outages) look(url, id string) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.of(url).asks
	if s == nil {
		return time.Time{}, false
	}
	return s.next.Add(time.Duration(fraction(id) * float64(s.spread))), true
}

// asked notes that a gateway was asked in this process, or is being asked: the n-th turn to stand in is not before next.
func (o *outages) asked(url string, n int, next time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.of(url).asks; s != nil {
		s.n, s.next = n, next
	}
}

// standInWait draws the wait before the n-th turn: longer than between two probes of who asks for the gateway, and in the end as long as
// for an instance.
func (a *actor) standInWait(n int) time.Duration { return a.probeWait(n+1, false) }

// standIn asks for a gateway that is held when who should does not seem to, as far as this process can see: its partition may be stopped
// or served by nobody, and could not say either that the gateway is back. So each process makes sure for itself, seldom, with any one of
// its instances that wait; and what it finds frees its own.
func (a *actor) standIn(ctx context.Context) {
	inst, ok := a.p.d.instance(a.id)
	if !ok {
		return
	}
	n, due := a.p.d.outages.standIn(inst.GatewayURL, a.p.d.set.Now(), a.standInWait)
	if !due {
		return
	}
	_, err := a.askState(ctx, a.p.d.another(inst, n))
	a.p.d.outages.asked(inst.GatewayURL, n+1, a.p.d.set.Now().Add(a.standInWait(n+1)))
	a.log.Info().Bool("usable", usable(err)).AnErr("answer", err).Msg("asked for its gateway, since nobody else did")
}

// askState asks the gateway whether an instance is connected, by its key. A gateway that answers so is in use: nothing of this process waits
// for it any longer.
func (a *actor) askState(ctx context.Context, asked events.Instance) (state evolution.State, err error) {
	d, at := a.p.d, a.p.d.set.Now()
	a.meanwhile(ctx, func() {
		var client *evolution.Client
		if client, err = d.gateways.client(ctx, asked); err != nil {
			a.log.Warn().Err(err).Msg("open gateway")
			return
		}
		state, err = client.ConnectionState(ctx, asked.Name)
	})
	if usable(err) {
		d.free(d.outages.answered(asked.GatewayURL, at, d.set.Now()))
	}
	return state, err
}
