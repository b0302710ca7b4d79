package views

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"pilotstatus.dev/events"
)

// Message is a row of table messages (docs/reference/views.md). A zero time or empty text means that there is none.
type Message struct {
	ID              string
	Position        events.Position // of its queued event
	TenantID        string
	ProjectID       string
	Environment     events.Environment
	KeyID           string
	InstanceID      string
	Category        events.Category
	Class           events.Class
	Urgent          bool
	TemplateID      string // empty for free text
	TemplateVersion int
	Origin          string
	SourceNumber    string
	CorrelationID   string
	RecipientHash   string
	GatewayID       string // the WhatsApp id
	RetentionDays   int
	Labels          []string
	RetryOf         string
	Sealed          events.Sealed // no blob once the message is erased
	Stage           events.Stage
	Status          events.Status
	Attempts        int
	ErrorCode       events.ErrorCode
	Presumed        bool
	Corrected       bool
	Erased          bool
	AckOverdue      bool // DISPATCHED, and no receipt came in time
	CreatedAt       time.Time
	DeliverAt       time.Time
	DeliverUntil    time.Time
	DispatchedAt    time.Time
	SentAt          time.Time
	DeliveredAt     time.Time
	ReadAt          time.Time
	FailedAt        time.Time
	CanceledAt      time.Time
	LastSeq         uint64 // of the newest event about it
}

// messageColumns are what scanMessage reads.
const messageColumns = `id, partition, queued_seq, tenant_id, project_id, environment, key_id, instance_id, category, class,
		urgent, template_id, template_version, origin, source_number, correlation_id, recipient_hash, coalesce(gateway_id, ''),
		retention_days, labels, retry_of, sealed_key_id, sealed_blob, stage, status, attempts, coalesce(error_code, ''),
		presumed, corrected, erased, ack_overdue, created_at, deliver_at, deliver_until, dispatched_at, sent_at, delivered_at, read_at,
		failed_at, canceled_at, last_seq`

// An id wins over a correlation id, and that over a WhatsApp id; of several messages the newest.
const selectMessage = `SELECT ` + messageColumns + `
	FROM messages
	WHERE tenant_id = $1 AND project_id = $2 AND environment = $3 AND (id = $4 OR correlation_id = $4 OR gateway_id = $4)
	ORDER BY id = $4 DESC, correlation_id = $4 DESC, created_at DESC, id DESC LIMIT 1`

// Message gives the message that key names: its id, its correlation id or its WhatsApp id. Outside the scope, or with
// no such message, the error's code is NOT_FOUND.
func (v *Views) Message(ctx context.Context, s Scope, key string) (Message, error) {
	if !askable(key) {
		return Message{}, notFound()
	}
	m, err := scanMessage(v.pool.QueryRow(ctx, selectMessage, planned, s.Tenant, s.Project, string(s.Environment), key))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Message{}, notFound()
	case err != nil:
		return Message{}, coded("read message", err)
	}
	return m, nil
}

func scanMessage(row pgx.Row) (m Message, err error) {
	var partition int16
	var queuedSeq, lastSeq int64
	err = row.Scan(
		&m.ID, &partition, &queuedSeq, &m.TenantID, &m.ProjectID, &m.Environment, &m.KeyID, &m.InstanceID, &m.Category, &m.Class,
		&m.Urgent, &m.TemplateID, &m.TemplateVersion, &m.Origin, &m.SourceNumber, &m.CorrelationID, &m.RecipientHash, &m.GatewayID,
		&m.RetentionDays, &m.Labels, &m.RetryOf, &m.Sealed.KeyID, &m.Sealed.Blob, &m.Stage, &m.Status, &m.Attempts, &m.ErrorCode,
		&m.Presumed, &m.Corrected, &m.Erased, &m.AckOverdue, moment{&m.CreatedAt}, moment{&m.DeliverAt}, moment{&m.DeliverUntil},
		moment{&m.DispatchedAt}, moment{&m.SentAt}, moment{&m.DeliveredAt}, moment{&m.ReadAt},
		moment{&m.FailedAt}, moment{&m.CanceledAt}, &lastSeq)
	if err != nil {
		return Message{}, err
	}
	m.Position = events.Position{Partition: events.Partition(partition), Sequence: uint64(queuedSeq)}
	m.LastSeq = uint64(lastSeq)
	return m, nil
}

// Place gives where a message of any tenant was accepted: for operators, whom no scope holds. With no such message the error's code is
// NOT_FOUND.
func (v *Views) Place(ctx context.Context, id string) (events.Position, error) {
	var partition int16
	var seq int64
	if !askable(id) {
		return events.Position{}, notFound()
	}
	err := v.pool.QueryRow(ctx, `SELECT partition, queued_seq FROM messages WHERE id = $1`, planned, id).Scan(&partition, &seq)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return events.Position{}, notFound()
	case err != nil:
		return events.Position{}, coded("find message", err)
	}
	return events.Position{Partition: events.Partition(partition), Sequence: uint64(seq)}, nil
}

// MessageByGatewayID gives the message of an instance that a WhatsApp id was ever told of, in any attempt, and the
// sequence of its queued event. It is for the correlator: a receipt names an instance, not a tenant, and the instance
// is the scope.
func (v *Views) MessageByGatewayID(ctx context.Context, instance, gatewayID string) (Owner, bool, error) {
	var o Owner
	var partition int16
	var seq int64
	if !askable(gatewayID) {
		return o, false, nil
	}
	var left, failed *time.Time
	var receipts []string
	err := v.pool.QueryRow(ctx, `SELECT m.id, m.tenant_id, m.partition, m.queued_seq, coalesce(t.attempt, 0), m.dispatched_at,
			coalesce(m.failed_at, m.canceled_at),
			ARRAY(SELECT DISTINCT event FROM timeline r WHERE r.partition = m.partition AND r.message_id = m.id AND r.event LIKE 'receipt.%')
		FROM timeline t, LATERAL (SELECT * FROM messages WHERE id = t.message_id AND partition = t.partition OFFSET 0) m
		WHERE t.gateway_id = $2 AND m.instance_id = $1
		ORDER BY m.gateway_id = $2 DESC NULLS LAST, m.queued_seq LIMIT 1`, planned, instance, gatewayID).
		Scan(&o.MessageID, &o.TenantID, &partition, &seq, &o.Attempt, &left, &failed, &receipts)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Owner{}, false, nil
	case err != nil:
		return Owner{}, false, coded("find message of a receipt", err)
	}
	o.Queued = events.Position{Partition: events.Partition(partition), Sequence: uint64(seq)}
	o.Left, o.Ended = left != nil, failed != nil
	for _, r := range receipts {
		o.Recorded = append(o.Recorded, events.Status(strings.ToUpper(strings.TrimPrefix(r, "receipt."))))
	}
	return o, true, nil
}

// Owner says whose message a receipt is about.
type Owner struct {
	MessageID string
	TenantID  string
	Queued    events.Position
	Attempt   int             // that the WhatsApp id was told of in
	Left      bool            // it was accepted or proved
	Ended     bool            // it failed or was canceled
	Recorded  []events.Status // states there is a receipt for
}
