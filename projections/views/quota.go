package views

import (
	"context"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/quota"
)

// QuotaWindow is a row of table quota_usage.
type QuotaWindow struct {
	Tenant    string
	Window    string
	Partition events.Partition
	quota.Record
}

const (
	quotaChanged = `SELECT tenant_id, quota_window, accepted, refunded, last_seq FROM quota_usage
		WHERE partition = $1 AND last_seq > $2 ORDER BY last_seq FETCH FIRST $3 ROWS WITH TIES`

	quotaOfWindow = `SELECT coalesce(sum(accepted), 0)::bigint, coalesce(sum(refunded), 0)::bigint FROM quota_usage
		WHERE tenant_id = $1 AND quota_window = $2`
)

// QuotaChanged lists the windows of a partition that an event after a sequence changed, the earliest first: about limit of them, more
// where several changed with the last one.
func (v *Views) QuotaChanged(ctx context.Context, p events.Partition, after uint64, limit int) ([]QuotaWindow, error) {
	rows, err := v.pool.Query(ctx, quotaChanged, planned, int16(p), int64(after), limit)
	if err != nil {
		return nil, coded("list quota windows", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (QuotaWindow, error) {
		w := QuotaWindow{Partition: p}
		var seq int64
		err := row.Scan(&w.Tenant, &w.Window, &w.Accepted, &w.Refunded, &seq)
		w.Sequence = uint64(seq)
		return w, err
	})
	if err != nil {
		return nil, coded("list quota windows", err)
	}
	return out, nil
}

// Quota gives what was accepted and refunded in a window of a tenant, over all partitions.
func (v *Views) Quota(ctx context.Context, tenant, window string) (accepted, refunded int64, err error) {
	if err := v.pool.QueryRow(ctx, quotaOfWindow, planned, tenant, window).Scan(&accepted, &refunded); err != nil {
		return 0, 0, coded("read a quota window", err)
	}
	return accepted, refunded, nil
}
