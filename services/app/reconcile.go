package app

import (
	"context"

	"pilotstatus.dev/events/silence"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/services/receipts"
	"pilotstatus.dev/services/reconciler"
)

// startReconciler looks after messages that nothing becomes of.
func startReconciler(ctx context.Context, a *App) error {
	log, err := a.p.logFor(ctx, "reconciler", patient)
	if err != nil {
		return err
	}
	cfg := a.p.cfg
	r := reconciler.New(guardedLog{log, a.guard}, a.views(), a.p.feed, receipts.Gateways{
		Secrets: a.p.secrets, Config: evolution.Config{Limits: evolution.Limits{Other: cfg.NumberLimit}},
	}, a.p.leases, a.p.partitions(), reconciler.Settings{
		ID: processID(), Every: cfg.ReconcileEvery, AskLimit: cfg.NumberLimit, Margin: cfg.EndsMargin, SuccessorWait: cfg.SuccessorWait,
		Silence: silence.Rules{Ack: cfg.AckOverdue, Delivery: cfg.DeliveryWindow, AskFor: cfg.AskFor}, Ends: cfg.rules(),
		Logger: a.log.With().Str("role", "reconciler").Logger(), Metrics: a.metrics.recon,
	})
	a.sup.start(ctx, "reconciler", r.Run)
	return nil
}
