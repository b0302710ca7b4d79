package views

import (
	"context"
	"encoding/json"
	"math"
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
	// Response is the sealed begin of what the endpoint answered; its blob is empty when there is none.
	Response events.Sealed
	Place    uint64 // sequence in HOOKLOG: later tries have a higher one
}

// deliveryColumns of d, the table, and m, what is needed of its message, which is looked up by its key whatever the statistics say (OFFSET 0).
const (
	deliveryColumns = `SELECT d.webhook_id, d.message_id, d.event, d.attempt, d.result, coalesce(d.http_status, 0), coalesce(d.reason, ''),
		d.elapsed_ms, d.at, d.next_at, d.delivery::text, coalesce(m.sealed_key_id, ''), m.sealed_blob,
		coalesce(d.response_key_id, ''), d.response_blob, d.seq`
	deliveryMessage = `LEFT JOIN LATERAL (SELECT sealed_key_id, sealed_blob FROM messages WHERE id = d.message_id AND tenant_id = $1 OFFSET 0) m ON true`
)

// Deliveries gives the newest tries to tell an endpoint of a tenant, at most limit, the newest first; with before those before that
// place. One of another tenant has none.
func (v *Views) Deliveries(ctx context.Context, tenant, endpoint string, before uint64, limit int) ([]Delivery, error) {
	return v.deliveries(ctx, tenant, endpoint, deliveryColumns+`
		FROM (SELECT * FROM deliveries WHERE tenant_id = $1 AND endpoint_id = $2 AND stored_at >= $3 AND seq < $5 ORDER BY seq DESC LIMIT $4) d
		`+deliveryMessage+` ORDER BY d.seq DESC`, limit, place(before, math.MaxInt64))
}

// Delivery gives the newest try of one delivery of an endpoint; a miss has the code NOT_FOUND.
func (v *Views) Delivery(ctx context.Context, tenant, endpoint, webhookID string) (Delivery, error) {
	if !askable(webhookID) {
		return Delivery{}, noDelivery()
	}
	all, err := v.deliveries(ctx, tenant, endpoint, deliveryColumns+`
		FROM (SELECT * FROM deliveries WHERE tenant_id = $1 AND endpoint_id = $2 AND stored_at >= $3 AND webhook_id = $5 ORDER BY seq DESC LIMIT $4) d
		`+deliveryMessage, 1, webhookID)
	if err != nil {
		return Delivery{}, err
	}
	if len(all) == 0 {
		return Delivery{}, noDelivery()
	}
	return all[0], nil
}

// Ended gives the newest try of each delivery of an endpoint whose newest try had one of the results, at or after from and before to, at
// most limit behind the place after, the oldest first. Tries of which it is not known what they were made from are left out.
func (v *Views) Ended(ctx context.Context, tenant, endpoint string, results []string, from, to time.Time, after uint64, limit int) ([]Delivery, error) {
	return v.deliveries(ctx, tenant, endpoint, deliveryColumns+`
		FROM (SELECT * FROM deliveries d WHERE tenant_id = $1 AND endpoint_id = $2 AND stored_at >= $3 AND seq > $5 AND result = ANY($6)
			AND at >= $7 AND at < $8 AND delivery IS NOT NULL AND NOT EXISTS
				(SELECT 1 FROM deliveries n WHERE n.endpoint_id = d.endpoint_id AND n.webhook_id = d.webhook_id AND n.seq > d.seq)
			ORDER BY seq LIMIT $4) d
		`+deliveryMessage+` ORDER BY d.seq`, limit, place(after, 0), results, from.UTC(), to.UTC())
}

func noDelivery() error { return events.Errorf(events.CodeNotFound, "no delivery with this id") }

// place is a sequence as Postgres knows it; none stands for 0.
func place(seq uint64, none int64) int64 {
	if seq == 0 {
		return none
	}
	return int64(min(seq, math.MaxInt64))
}

// deliveries runs a query whose first parameters are tenant, endpoint, the age of what is kept, and the limit.
func (v *Views) deliveries(ctx context.Context, tenant, endpoint, query string, limit int, more ...any) ([]Delivery, error) {
	if !askable(tenant) || !askable(endpoint) {
		return nil, nil
	}
	rows, err := v.pool.Query(ctx, query, append([]any{planned, tenant, endpoint, time.Now().Add(-deliveries.Keep), limit}, more...)...)
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
	var elapsed, seq int64
	var made *string
	err = row.Scan(&d.WebhookID, &d.MessageID, &d.Event, &d.Attempt, &d.Result, &d.HTTPStatus, &d.Reason, &elapsed, moment{&d.At},
		moment{&d.NextAt}, &made, &d.Sealed.KeyID, &d.Sealed.Blob, &d.Response.KeyID, &d.Response.Blob, &seq)
	d.Place = uint64(max(seq, 0))
	d.Elapsed = time.Duration(elapsed) * time.Millisecond
	if err == nil && made != nil {
		err = json.Unmarshal([]byte(*made), &d.Made)
	}
	if d.Made == nil || !d.Made.WithContent {
		d.Sealed = events.Sealed{}
	}
	return d, err
}
