package views

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
	"pilotstatus.dev/projections/deliveries"
)

// Delivery is one try to tell an endpoint (docs/reference/views.md).
type Delivery struct {
	WebhookID  string // the same for every try of a customer event to an endpoint
	MessageID  string
	Event      string
	Attempt    int    // from 1
	Result     string // events.HookSucceeded, HookFailed or HookExhausted
	HTTPStatus int    // 0 without an answer
	Reason     string // empty for a success
	Elapsed    time.Duration
	At         time.Time
	NextAt     time.Time // zero when none follows
	// Made is what the body was made from, with the sealed content of the message where it is part of it; nil for a try recorded
	// before it was kept.
	Made   *events.HookDelivery
	Sealed events.Sealed
}

// Deliveries gives the newest tries to tell an endpoint of a tenant, at most limit, the newest first. One of another tenant has
// none.
func (v *Views) Deliveries(ctx context.Context, tenant, endpoint string, limit int) ([]Delivery, error) {
	if !askable(tenant) || !askable(endpoint) {
		return nil, nil
	}
	// OFFSET 0 looks each message up by its key, whatever the statistics say.
	rows, err := v.pool.Query(ctx, `SELECT d.webhook_id, d.message_id, d.event, d.attempt, d.result, coalesce(d.http_status, 0), coalesce(d.reason, ''),
			d.elapsed_ms, d.at, d.next_at, d.delivery::text, coalesce(m.sealed_key_id, ''), m.sealed_blob
		FROM (SELECT * FROM deliveries WHERE tenant_id = $1 AND endpoint_id = $2 AND stored_at >= $3 ORDER BY seq DESC LIMIT $4) d
		LEFT JOIN LATERAL (SELECT sealed_key_id, sealed_blob FROM messages WHERE id = d.message_id AND tenant_id = $1 OFFSET 0) m ON true
		ORDER BY d.seq DESC`, planned, tenant, endpoint, time.Now().Add(-deliveries.Keep), limit)
	if err != nil {
		return nil, coded("list deliveries", err)
	}
	out, err := pgx.CollectRows(rows, scanDelivery)
	if err != nil {
		return nil, coded("list deliveries", err)
	}
	return out, nil
}

func scanDelivery(row pgx.CollectableRow) (d Delivery, err error) {
	var elapsed int64
	var made *string
	err = row.Scan(&d.WebhookID, &d.MessageID, &d.Event, &d.Attempt, &d.Result, &d.HTTPStatus, &d.Reason, &elapsed, moment{&d.At},
		moment{&d.NextAt}, &made, &d.Sealed.KeyID, &d.Sealed.Blob)
	d.Elapsed = time.Duration(elapsed) * time.Millisecond
	if err == nil && made != nil {
		err = json.Unmarshal([]byte(*made), &d.Made)
	}
	if d.Made == nil || !d.Made.WithContent {
		d.Sealed = events.Sealed{}
	}
	return d, err
}
