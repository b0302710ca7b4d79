package dispatcher

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

// park records that the sender is unusable; its messages wait for their deadline. A gateway that is unusable holds every
// instance behind it, in this process.
func (a *actor) park(ctx context.Context, v evolution.Verdict) {
	a.append(ctx, a.instanceEvent(events.TypeInstanceParked, "parked",
		events.InstanceChanged{By: source, Reason: v.Code, Scope: string(v.Scope)}))
	if inst, ok := a.p.d.instance(a.id); ok && v.Scope == evolution.ScopeGateway {
		a.p.d.gateways.park(inst.GatewayURL, a.id)
	}
	a.probeAt = a.p.d.set.Now().Add(a.p.d.set.ProbeEvery)
	a.log.Error().Str("scope", string(v.Scope)).Str("reason", v.Code).Msg("parked")
}

// probe asks whether an instance that is parked, or that the gateway called closed, is connected again, and opens it when it is:
// the word that it is may have been lost.
func (a *actor) probe(ctx context.Context) {
	now := a.p.d.set.Now()
	a.mu.Lock()
	parked, closed := a.q.Parked(), a.q.Closed()
	a.mu.Unlock()
	if !parked {
		a.p.d.gateways.resumeBy(a.id)
	}
	if !parked && !closed {
		return
	}
	if now.Before(a.probeAt) {
		return
	}
	a.probeAt = now.Add(a.p.d.set.ProbeEvery)
	inst, ok := a.p.d.instance(a.id)
	if !ok {
		return
	}
	client, err := a.p.d.gateways.client(ctx, inst)
	if err != nil {
		a.log.Warn().Err(err).Msg("open gateway")
		return
	}
	var state evolution.State
	a.meanwhile(ctx, func() { state, err = client.ConnectionState(ctx, inst.Name) })
	if err != nil || state != evolution.StateOpen {
		a.log.Debug().Err(err).Str("state", string(state)).Msg("probe")
		return
	}
	a.append(ctx, a.instanceEvent(events.TypeInstanceOpened, "opened", events.InstanceChanged{By: source, Reason: "probe"}))
	a.p.d.gateways.resume(inst.GatewayURL)
	a.log.Info().Msg("resumed after a probe")
}
