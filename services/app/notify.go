package app

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/services/notifier"
)

// startNotifier turns transitions into deliveries, one loop per partition, and makes the deliveries.
func startNotifier(ctx context.Context, a *App) error {
	logs, err := a.p.logsFor(ctx, "notifier", patient)
	if err != nil {
		return err
	}
	log, err := a.p.logFor(ctx, "deliveries", patient)
	if err != nil {
		return err
	}
	logger := a.log.With().Str("role", "notifier").Logger()
	a.startPartitions(ctx, "fanout", func(ctx context.Context, p events.Partition) error {
		return notifier.NewFanout(logs[p], a.p.feed, a.p.keys, p, notifier.FanoutSettings{Logger: logger, Metrics: a.metrics.notifier}).Run(ctx)
	})
	set := notifier.WorkerSettings{
		Client:       notifier.ClientSettings{Limit: a.p.cfg.HookTimeout, AllowLoopback: a.p.cfg.AllowLoopbackEndpoints},
		Waits:        a.p.cfg.HookWaits,
		DisableAfter: a.p.cfg.HookDisable,
		Logger:       logger,
		Metrics:      a.metrics.notifier,
	}
	a.sup.start(ctx, "deliveries", func(ctx context.Context) error {
		return notifier.NewWorker(log, a.p.feed, a.p.keys, a.p.secrets, set).Run(ctx)
	})
	return nil
}
