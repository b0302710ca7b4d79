package app

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	quotas "pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/timezone"
	"pilotstatus.dev/infra/topology"
	"pilotstatus.dev/projections/views"
	"pilotstatus.dev/services/instances"
	"pilotstatus.dev/services/quota"
)

// quotaBucket opens the bucket of records anew each time: after a restart of the server the old handle may be of no use.
func quotaBucket(js jetstream.JetStream) func(context.Context) (jetstream.KeyValue, error) {
	return func(ctx context.Context) (jetstream.KeyValue, error) { return js.KeyValue(ctx, topology.BucketQuota) }
}

// apiQuota keeps plans for the API.
type apiQuota struct{ *quota.Book }

func (q apiQuota) Reserve(ctx context.Context, tenant string, windows []quotas.Window) (api.Reservation, *quotas.Window, error) {
	place, err := q.Book.Reserve(ctx, tenant, windows)
	if full := (*quota.FullError)(nil); errors.As(err, &full) {
		return nil, &full.Window, nil
	}
	return place, nil, err
}

// startQuota follows the refunds, and gives the book of this process. What is counted does not wait for the disk: the append that follows
// does, and covers it.
func (a *App) startQuota(ctx context.Context) (apiQuota, error) {
	log, err := a.p.logFor(ctx, "quota", urgent)
	if err != nil {
		return apiQuota{}, err
	}
	records := quota.NewRecords(log, a.log)
	a.sup.start(ctx, "quota-records", records.Run)
	return apiQuota{quota.NewBook(log, records, a.log)}, nil
}

// startPresence follows what the log says of instances.
func (a *App) startPresence(ctx context.Context, log *eventlog.Log) *instances.Feed {
	feed := instances.NewFeed()
	a.startPartitions(ctx, "instances", func(ctx context.Context, p events.Partition) error { return feed.Run(ctx, p, log) })
	return feed
}

// startKeeper publishes what the projector counted of plans' windows, and corrects counters.
func (a *App) startKeeper(ctx context.Context) error {
	nc, err := a.p.connect(ctx, "quota keeper")
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	k := quota.NewKeeper(quota.Config{
		Partitions: a.p.partitions(), Log: keeperLog{a.p.logOver(js, patient)}, Views: keeperViews{a.views()}, Bucket: quotaBucket(js),
		Windows: a.limited, CorrectEvery: a.p.cfg.QuotaEvery, Logger: a.log, OnCorrection: a.metrics.quota,
	})
	a.sup.start(ctx, "quota-keeper", k.Run)
	return nil
}

// limited lists the windows with a limit of every tenant. TEST and LIVE count in windows of their own.
func (a *App) limited(now time.Time) map[string][]quotas.Window {
	out := map[string][]quotas.Window{}
	a.p.feed.Read(func(c *catalog.Catalog) {
		for _, t := range c.Tenants() {
			for _, env := range []events.Environment{events.Live, events.Test} {
				if windows, known := c.Windows(t.ID, env, false, now, timezone.OfTenant(t.TimeZone)); known && len(windows) > 0 {
					out[t.ID] = append(out[t.ID], windows...)
				}
			}
		}
	})
	return out
}

type keeperLog struct{ *eventlog.Log }

func (l keeperLog) Last(ctx context.Context, p events.Partition) (uint64, error) {
	return l.LastSequence(ctx, events.EventsStream(p))
}

type keeperViews struct{ *views.Views }

func (v keeperViews) QuotaChanged(ctx context.Context, p events.Partition, after uint64, limit int) ([]quota.Counted, error) {
	rows, err := v.Views.QuotaChanged(ctx, p, after, limit)
	out := make([]quota.Counted, len(rows))
	for i, r := range rows {
		out[i] = quota.Counted{Tenant: r.Tenant, Window: r.Window, Partition: r.Partition, Record: r.Record}
	}
	return out, err
}

func (v keeperViews) QuotaAccepted(ctx context.Context, tenant, window string) (int64, error) {
	accepted, _, err := v.Quota(ctx, tenant, window)
	return accepted, err
}
