package app

import (
	"context"
	"time"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/projections/deliveries"
	"pilotstatus.dev/projections/schema"
	"pilotstatus.dev/projections/views"
)

// apiReads answers lists and figures from Postgres.
type apiReads struct{ views *views.Views }

func (a *App) reads() api.Reads {
	r := apiReads{a.views()}
	return api.Reads{Lists: r, Deliveries: r, Figures: r}
}

func (r apiReads) Messages(ctx context.Context, s api.Scope, f api.MessageFilter, after api.ListPlace, limit int) ([]api.MessageView, error) {
	rows, err := r.views.List(ctx, views.Scope(s), views.Filter(f), views.Place(after), limit)
	if err != nil {
		return nil, err
	}
	out := make([]api.MessageView, len(rows))
	for i, m := range rows {
		out[i] = messageView(m)
	}
	return out, nil
}

func (r apiReads) Deliveries(ctx context.Context, tenant, endpoint string, before uint64, limit int) ([]api.DeliveryView, error) {
	rows, err := r.views.Deliveries(ctx, tenant, endpoint, before, limit)
	return deliveryViews(rows), err
}

func (r apiReads) Delivery(ctx context.Context, tenant, endpoint, webhookID string) (api.DeliveryView, error) {
	d, err := r.views.Delivery(ctx, tenant, endpoint, webhookID)
	return api.DeliveryView(d), err
}

func (r apiReads) Ended(ctx context.Context, tenant, endpoint string, f api.EndedFilter, limit int) ([]api.DeliveryView, error) {
	rows, err := r.views.Ended(ctx, tenant, endpoint, f.Results, f.From, f.To, f.After, limit)
	return deliveryViews(rows), err
}

func deliveryViews(rows []views.Delivery) []api.DeliveryView {
	out := make([]api.DeliveryView, len(rows))
	for i, d := range rows {
		out[i] = api.DeliveryView(d)
	}
	return out
}

func (r apiReads) Counts(ctx context.Context, s api.Scope, bounds []time.Time) ([]map[events.Status]int, error) {
	return r.views.Counts(ctx, views.Scope(s), bounds)
}

// startDeliveries keeps the view of tries to tell customers.
func (a *App) startDeliveries(ctx context.Context, log *eventlog.Log) {
	p := deliveries.New(a.p.pool, deliveries.Config{Logger: a.log})
	a.sup.start(ctx, "projector-deliveries", func(ctx context.Context) error {
		if err := schema.Migrate(ctx, a.p.postgresURL, a.p.cfg.Schema); err != nil {
			return err
		}
		return p.Run(ctx, deliveries.Stream{Log: log})
	})
}
