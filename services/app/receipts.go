package app

import (
	"context"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/projections/views"
	"pilotstatus.dev/services/receipts"
)

// startIngest serves gateways' webhooks, and keeps them registered at the gateways.
func startIngest(ctx context.Context, a *App) error {
	log, err := a.p.logFor(ctx, "ingest", patient)
	if err != nil {
		return err
	}
	logger := a.log.With().Str("role", "ingest").Logger()
	h := receipts.NewIngest(a.p.feed, a.p.secrets, a.p.keys, log, receipts.IngestSettings{
		Control: log, CatchUp: apiControl{a.p.feed, log}.CatchUp, Logger: logger, Metrics: a.metrics.receipts,
	})
	if a.urls.Ingest, err = a.serve(ctx, "ingest", a.p.cfg.IngestAddr, h); err != nil {
		return err
	}
	base := a.p.cfg.IngestURL
	if base == "" {
		base = a.urls.Ingest
	}
	r := receipts.NewRegistrar(a.p.feed, a.p.secrets, receipts.Gateways{
		Secrets: a.p.secrets, Config: evolution.Config{Limits: evolution.Limits{Other: a.p.cfg.NumberLimit}},
	}, receipts.RegistrarSettings{BaseURL: base, Control: log, Logger: logger, Metrics: a.metrics.receipts})
	a.sup.start(ctx, "registrar", r.Run)
	return nil
}

// startCorrelator binds what gateways said to messages, one loop per partition.
func startCorrelator(ctx context.Context, a *App) error {
	logs, err := a.p.logsFor(ctx, "correlator", patient)
	if err != nil {
		return err
	}
	set := receipts.Settings{
		MaxKept: max(a.p.cfg.ReceiptsKept/len(a.p.partitions()), 1),
		Grace:   a.p.cfg.ReceiptsGrace, GapAfter: a.p.cfg.AckOverdue, Finder: finder{a.views()}, Logger: a.log.With().Str("role", "correlator").Logger(),
		Metrics: a.metrics.receipts,
	}
	a.startPartitions(ctx, "correlator", func(ctx context.Context, p events.Partition) error {
		return receipts.NewCorrelator(guardedLog{logs[p], a.guard}, p, set).Run(ctx)
	})
	return nil
}

// finder asks the views for messages that are older than the correlator's memory.
type finder struct{ views *views.Views }

func (f finder) ByGatewayID(ctx context.Context, instance, gatewayID string) (receipts.Known, bool, error) {
	o, found, err := f.views.MessageByGatewayID(ctx, instance, gatewayID)
	return receipts.Known{
		MessageID: o.MessageID, TenantID: o.TenantID, QueuedSeq: o.Queued.Sequence, Attempt: o.Attempt, Left: o.Left,
		Ended: o.Ended, Recorded: o.Recorded,
	}, found, err
}
