package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/silence"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/projections/views"
	"pilotstatus.dev/services/receipts"
	"pilotstatus.dev/services/reconciler"
)

// silences are those of production, but for the long window, which is no longer than a run.
var silences = silence.Rules{Ack: 15 * time.Minute, Delivery: 45 * time.Minute, AskFor: 20 * time.Minute}

// reconcile runs one reconciler after the other: each dies after an hour or so, with all it remembers.
func (w *world) reconcile(log *eventlog.Log, seen *seenViews) {
	gateway := receipts.Gateways{Secrets: w.secrets, Config: evolution.Config{
		Limits: evolution.Limits{Other: 10 * time.Second},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return w.net.dialAs(ctx, processReconciler, address)
		},
	}}
	for life := 1; w.ctx.Err() == nil; life++ {
		ctx, cancel := context.WithTimeout(w.ctx, time.Duration(life)*43*time.Minute)
		err := reconciler.New(log, seen, w.feed, gateway, eventlog.NewLeases(log, deployment), []events.Partition{0, 1}, reconciler.Settings{
			ID: fmt.Sprintf("reconciler-%d", life), Silence: silences, LeaseTTL: leaseTTL, Logger: w.logger,
		}).Run(ctx)
		cancel()
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			w.rec.fail("reconciler", err)
			return
		}
	}
}

// seenViews are the views in memory: what Postgres would say, folded from the log as the projector does.
type seenViews struct {
	mu    sync.Mutex
	parts map[events.Partition]*seenPart
	moved chan struct{} // closed and made anew with each event
}

type seenPart struct {
	states map[string]message.State
	seq    uint64
}

func newSeenViews() *seenViews {
	return &seenViews{parts: map[events.Partition]*seenPart{}, moved: make(chan struct{})}
}

// follow folds a partition until ctx ends.
func (v *seenViews) follow(ctx context.Context, log *eventlog.Log, p events.Partition) error {
	part := &seenPart{states: map[string]message.State{}}
	v.mu.Lock()
	v.parts[p] = part
	v.mu.Unlock()
	return log.Tail(ctx, eventlog.TailConfig{Stream: events.EventsStream(p)}, func(_ context.Context, b eventlog.Batch) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, rec := range b.Events {
			for _, s := range message.Subjects(rec) {
				state, ok := part.states[s.ID]
				if !ok {
					state = message.State{ID: s.ID}
				}
				part.states[s.ID] = state.Apply(rec)
			}
			part.seq = rec.Position.Sequence
		}
		close(v.moved)
		v.moved = make(chan struct{})
		return nil
	})
}

// list gives the messages of a partition that match, as the view does.
func (v *seenViews) list(p events.Partition, since func(message.State, message.View) (time.Time, bool), perInstance int, reached []views.Reached) []views.Awaited {
	v.mu.Lock()
	defer v.mu.Unlock()
	part := v.parts[p]
	if part == nil {
		return nil
	}
	var all []views.Awaited
	for _, s := range part.states {
		if s.Queued == nil {
			continue
		}
		view := s.View()
		if at, ok := since(s, view); ok {
			all = append(all, views.Awaited{
				ID: s.ID, TenantID: s.Queued.Tenant, InstanceID: s.Queued.Instance, GatewayID: view.GatewayID, Queued: s.Queued.Position, Stage: view.Stage,
				Corrected: view.Corrected, DispatchedAt: view.DispatchedAt, DeliverUntil: s.Queued.DeliverUntil, Since: at, Checkpoint: part.seq,
			})
		}
	}
	slices.SortFunc(all, func(a, b views.Awaited) int {
		return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	var out []views.Awaited
	of := map[string]int{}
	for _, a := range all {
		behind := slices.ContainsFunc(reached, func(r views.Reached) bool {
			return r.InstanceID == a.InstanceID && cmp.Or(a.Since.Compare(r.Since), cmp.Compare(a.ID, r.ID)) <= 0
		})
		if behind {
			continue
		}
		if of[a.InstanceID]++; of[a.InstanceID] <= perInstance {
			out = append(out, a)
		}
	}
	for i := range out {
		out[i].More = of[out[i].InstanceID] >= perInstance
	}
	return out
}

// Unacknowledged implements reconciler.Views, as the others below.
func (v *seenViews) Unacknowledged(_ context.Context, p events.Partition, before time.Time, perInstance int, reached []views.Reached) ([]views.Awaited, error) {
	return v.list(p, func(_ message.State, view message.View) (time.Time, bool) {
		return view.DispatchedAt, view.Stage == events.StageDispatched && !view.AckOverdue && view.DispatchedAt.Before(before)
	}, perInstance, reached), nil
}

func (v *seenViews) Undelivered(_ context.Context, p events.Partition, before time.Time, perInstance int, reached []views.Reached) ([]views.Awaited, error) {
	return v.list(p, func(_ message.State, view message.View) (time.Time, bool) {
		return view.DispatchedAt, !view.Corrected && (view.Stage == events.StageDispatched || view.Stage == events.StageSent) && view.DispatchedAt.Before(before)
	}, perInstance, reached), nil
}

func (v *seenViews) Unended(_ context.Context, p events.Partition, before, unknownBefore time.Time, perInstance int, reached []views.Reached) ([]views.Awaited, error) {
	return v.list(p, func(s message.State, view message.View) (time.Time, bool) {
		limit := before
		if view.Stage == events.StageUnconfirmed {
			limit = unknownBefore
		}
		return s.Queued.DeliverUntil, view.Status() == events.StatusQueued && view.DispatchedAt.IsZero() && s.Queued.DeliverUntil.Before(limit)
	}, perInstance, reached), nil
}

func (v *seenViews) Overdue(context.Context, events.Partition, int) (int, error) { return 0, nil }

func (v *seenViews) WaitFor(ctx context.Context, p events.Partition, seq uint64) error {
	for {
		v.mu.Lock()
		done, moved := v.parts[p] != nil && v.parts[p].seq >= seq, v.moved
		v.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}
