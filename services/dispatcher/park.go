package dispatcher

import (
	"context"
	"errors"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/failpoint"
)

// What a probe says of an instance: by both words its gateway is in use.
const (
	causeProbe   = "probe"           // why it is opened: it was asked, and is connected
	causeAnswers = "gateway_answers" // why the park of a whole gateway becomes one of the instance alone
)

// park records that the sender is unusable; its messages wait for their deadline. A gateway that is unusable holds every instance
// behind it, whichever dispatcher works for it. So does one that refused the keys of three instances within a minute.
func (a *actor) park(ctx context.Context, inst events.Instance, v evolution.Verdict) {
	now := a.p.d.set.Now()
	if v.Scope == evolution.ScopeInstance && v.Code == evolution.CauseUnauthorized &&
		a.p.d.outages.refused(inst.GatewayURL, a.id, v.Code, now)+1 >= escalateAfter {
		v.Scope = evolution.ScopeGateway
	}
	wide := v.Scope == evolution.ScopeGateway
	if _, held := a.p.d.outages.prober(inst.GatewayURL); held && wide {
		return // it is known, and somebody asks when it is back
	}
	a.mu.Lock()
	known := a.q.Parked() && (!wide || a.q.ParkedWide())
	a.mu.Unlock()
	if known {
		return
	}
	a.probed(0, now.Add(a.probeWait(0, wide))) // before the fold shows the park: the actor goes on beside this turn, and would probe at once
	failpoint.Hit("dispatcher.before_parked")
	if a.record(ctx, events.TypeInstanceParked, "parked", v.Code, string(v.Scope)) {
		a.log.Error().Str("scope", string(v.Scope)).Str("reason", v.Code).Msg("parked")
	}
}

// record appends what happened to the instance; kept says that the log has it, and the fold shows it.
func (a *actor) record(ctx context.Context, wire, name, reason, scope string) (kept bool) {
	return a.append(ctx, a.instanceEvent(wire, name, events.InstanceChanged{By: source, Reason: reason, Scope: scope}))
}

// probeWait draws the wait before the next probe: of an instance it doubles each time, of a gateway, for which one instance asks, it does
// not. The jitter keeps a thousand instances from asking together.
func (a *actor) probeWait(probes int, wide bool) time.Duration {
	d := a.p.d.set.ProbeEvery
	if !wide {
		d = max(d, min(a.p.d.set.ProbeMax, d<<min(probes, 16)))
	}
	return d/2 + time.Duration(a.p.d.draw()*float64(d/2))
}

// probed sets how many probes there were in a row, and when the next is due.
func (a *actor) probed(probes int, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probes, a.probeAt = probes, next
}

// probeNext gives when the instance is to be probed. false: nothing holds it, or another instance asks for the gateway of both.
func (a *actor) probeNext() (time.Time, bool) {
	a.mu.Lock()
	shut, at := a.shut(), a.probeAt
	a.mu.Unlock()
	if !shut {
		return time.Time{}, false
	}
	if inst, ok := a.p.d.instance(a.id); ok {
		if by, held := a.p.d.outages.prober(inst.GatewayURL); held && by != a.id {
			return time.Time{}, false
		}
	}
	return at, true
}

// probe asks whether an instance that is parked, or that the gateway called closed, is connected again, and opens it when it is:
// the word that it is may have been lost.
func (a *actor) probe(ctx context.Context) {
	now := a.p.d.set.Now()
	at, ok := a.probeNext()
	if !ok || now.Before(at) {
		return
	}
	inst, ok := a.p.d.instance(a.id)
	a.mu.Lock()
	wide, probes := a.q.ParkedWide(), a.probes
	a.mu.Unlock()
	a.probed(probes, now.Add(a.probeWait(probes, wide)))
	by, _ := a.p.d.outages.prober(inst.GatewayURL)
	leads := by == a.id
	if !ok || (!leads && !a.p.d.outages.mayProbe(inst.GatewayURL, now)) {
		return
	}
	asked := inst
	if wide {
		asked = a.p.d.another(inst, probes)
	}
	a.probed(probes+1, now.Add(a.probeWait(probes, wide)))
	if leads {
		a.p.d.outages.asked(inst.GatewayURL, 0, now.Add(askMost))
		defer func() { a.p.d.outages.asked(inst.GatewayURL, 0, a.p.d.set.Now().Add(a.standInWait(0))) }()
	}
	state, err := a.askState(ctx, asked)
	opened := asked.ID == a.id && err == nil && state == evolution.StateOpen
	if !opened && (!wide || !usable(err)) {
		a.log.Debug().Err(err).Str("state", string(state)).Msg("probe")
		return
	}
	failpoint.Hit("dispatcher.before_unparked")
	wire, name, reason, scope, said := events.TypeInstanceOpened, "opened", causeProbe, "", "resumed after a probe"
	if !opened { // the others go on; this one is asked for itself from now on
		wire, name, reason, scope, said = events.TypeInstanceParked, "parked", causeAnswers, events.ParkInstance, "gateway resumed after a probe"
	}
	if a.record(ctx, wire, name, reason, scope) { // else it is asked again, no sooner than if it had not answered
		a.log.Info().Msg(said)
		a.probed(0, now)
	}
}

// usable reports that the gateway gave an answer that only one in use gives, whatever it says of the instance.
func usable(err error) bool {
	var f *evolution.Failure
	return err == nil || (errors.As(err, &f) && f.Verdict.Code == evolution.CauseInstanceUnknown)
}

// another gives the instance that is asked for the whole gateway at the n-th probe: first the one that asks, then the others in turn,
// since its own key may be what the gateway refuses.
func (d *Dispatcher) another(inst events.Instance, n int) events.Instance {
	all := []events.Instance{inst}
	d.catalog.Read(func(c *catalog.Catalog) {
		for _, i := range c.Instances() {
			if i.GatewayURL == inst.GatewayURL && i.ID != inst.ID {
				all = append(all, i)
			}
		}
	})
	return all[n%len(all)]
}

// behind counts the instances of a gateway.
func (d *Dispatcher) behind(url string) int { return d.instances()[url] }

// free kicks the instances of a gateway that can be used again; "" is none. Those that wait for it run.
func (d *Dispatcher) free(url string) {
	if url == "" {
		return
	}
	d.log.Info().Str("gateway", url).Msg("gateway can be used again")
	for _, p := range d.parts {
		for _, a := range p.all() {
			if inst, ok := d.instance(a.id); ok && inst.GatewayURL == url {
				a.kick()
			}
		}
	}
}
