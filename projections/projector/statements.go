package projector

import (
	"slices"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

var (
	messageKey = textColumn("id", func(r *messageRow) string { return r.id })

	// changing columns follow from the fold; every batch that touches a message writes them all.
	changing = []column[messageRow]{
		nullTextColumn("gateway_id", func(r *messageRow) string { return r.view.GatewayID }),
		textColumn("stage", func(r *messageRow) string { return string(r.view.Stage) }),
		textColumn("status", func(r *messageRow) string { return string(r.view.Status()) }),
		intColumn("attempts", func(r *messageRow) int { return r.view.Attempts }),
		nullTextColumn("error_code", func(r *messageRow) string { return string(r.view.ErrorCode) }),
		boolColumn("presumed", func(r *messageRow) bool { return r.view.Presumed }),
		boolColumn("corrected", func(r *messageRow) bool { return r.view.Corrected }),
		boolColumn("erased", func(r *messageRow) bool { return r.view.Erased }),
		boolColumn("ack_overdue", func(r *messageRow) bool { return r.view.AckOverdue }),
		boolColumn("refunded", func(r *messageRow) bool { return r.view.Refunded }),
		viewTime("dispatched_at", func(v *message.View) time.Time { return v.DispatchedAt }),
		viewTime("sent_at", func(v *message.View) time.Time { return v.SentAt }),
		viewTime("delivered_at", func(v *message.View) time.Time { return v.DeliveredAt }),
		viewTime("read_at", func(v *message.View) time.Time { return v.ReadAt }),
		viewTime("failed_at", func(v *message.View) time.Time { return v.FailedAt }),
		viewTime("canceled_at", func(v *message.View) time.Time { return v.CanceledAt }),
		seqColumn("last_seq", func(r *messageRow) uint64 { return r.lastSeq }),
	}

	// lasting columns are what the accepted message itself says.
	lasting = []column[messageRow]{
		seqColumn("queued_seq", func(r *messageRow) uint64 { return r.rec.Position.Sequence }),
		textColumn("tenant_id", func(r *messageRow) string { return text(r.rec.TenantID) }),
		textColumn("instance_id", func(r *messageRow) string { return r.addr.Instance }),
		textColumn("class", func(r *messageRow) string { return string(r.addr.Lane.Class) }),
		bodyText("project_id", func(b *events.MessageQueued) string { return b.Project }),
		bodyText("environment", func(b *events.MessageQueued) string { return string(b.Environment) }),
		bodyText("key_id", func(b *events.MessageQueued) string { return b.KeyID }),
		bodyText("category", func(b *events.MessageQueued) string { return string(b.Category) }),
		boolColumn("urgent", func(r *messageRow) bool { return r.body.Urgent }),
		bodyText("template_id", func(b *events.MessageQueued) string { return b.TemplateID }),
		intColumn("template_version", func(r *messageRow) int { return r.body.TemplateVersion }),
		bodyText("origin", func(b *events.MessageQueued) string { return b.Origin }),
		bodyText("source_number", func(b *events.MessageQueued) string { return b.SourceNumber }),
		bodyText("correlation_id", func(b *events.MessageQueued) string { return b.CorrelationID }),
		bodyText("recipient_hash", func(b *events.MessageQueued) string { return b.RecipientHash }),
		intColumn("retention_days", func(r *messageRow) int { return r.body.RetentionDays }),
		{name: "labels", array: "text", cast: "jsonb", pack: pack(func(r *messageRow) string { return r.labels })},
		bodyText("quota_windows", func(b *events.MessageQueued) string { return strings.Join(b.QuotaWindows, ",") }),
		bodyText("retry_of", func(b *events.MessageQueued) string { return b.RetryOf }),
		bodyText("sealed_key_id", func(b *events.MessageQueued) string { return b.Sealed.KeyID }),
		{name: "sealed_blob", array: "bytea", pack: pack(func(r *messageRow) []byte {
			if r.view.Erased {
				return nil
			}
			return r.body.Sealed.Blob
		})},
		timeColumn("created_at", func(r *messageRow) time.Time { return r.rec.Time }),
		timeColumn("deliver_at", func(r *messageRow) time.Time { return r.rec.DeliverAt }),
		timeColumn("deliver_until", func(r *messageRow) time.Time { return r.rec.DeliverUntil }),
	}

	// A second queued event of an id changes nothing but what follows from the fold: the first one is the message.
	insertMessages = insert("messages",
		"ON CONFLICT (id) DO UPDATE SET "+assign(changing)+
			", sealed_blob = CASE WHEN excluded.erased THEN NULL ELSE messages.sealed_blob END"+
			" WHERE messages.partition = excluded.partition",
		slices.Concat([]column[messageRow]{messageKey}, changing, lasting)...)

	// Sealed content is unreadable once its key is dead; the bytes go too.
	updateMessages = update("messages", "sealed_blob = CASE WHEN u.erased THEN NULL ELSE t.sealed_blob END",
		slices.Concat([]column[messageRow]{messageKey}, changing)...)

	insertTimeline = insert("timeline", "ON CONFLICT DO NOTHING",
		seqColumn("seq", func(r *timelineRow) uint64 { return r.seq }),
		textColumn("message_id", func(r *timelineRow) string { return r.messageID }),
		textColumn("event", func(r *timelineRow) string { return r.event }),
		timeColumn("at", func(r *timelineRow) time.Time { return r.at }),
		timeColumn("stored_at", func(r *timelineRow) time.Time { return r.storedAt }),
		intColumn("attempt", func(r *timelineRow) int { return r.attempt }),
		boolColumn("folded", func(r *timelineRow) bool { return r.folded }),
		boolColumn("called", func(r *timelineRow) bool { return r.called }),
		boolColumn("presumed", func(r *timelineRow) bool { return r.presumed }),
		timeColumn("due_at", func(r *timelineRow) time.Time { return r.dueAt }),
		nullTextColumn("nonce", func(r *timelineRow) string { return r.nonce }),
		nullTextColumn("gateway_id", func(r *timelineRow) string { return r.gatewayID }),
		nullTextColumn("code", func(r *timelineRow) string { return r.code }),
		nullTextColumn("reason", func(r *timelineRow) string { return r.reason }),
		nullTextColumn("cause", func(r *timelineRow) string { return r.cause }),
		nullIntColumn("http_status", func(r *timelineRow) int { return r.httpStatus }),
		nullBigColumn("elapsed_ms", func(r *timelineRow) int64 { return r.elapsedMS }),
	)

	attemptState = []column[attemptRow]{
		textColumn("state", func(r *attemptRow) string { return r.state }),
		timeColumn("started_at", func(r *attemptRow) time.Time { return r.startedAt }),
		timeColumn("ended_at", func(r *attemptRow) time.Time { return r.endedAt }),
		nullTextColumn("outcome", func(r *attemptRow) string { return r.outcome }),
		nullTextColumn("cause", func(r *attemptRow) string { return r.cause }),
		nullIntColumn("http_status", func(r *attemptRow) int { return r.httpStatus }),
		nullBigColumn("elapsed_ms", func(r *attemptRow) int64 { return r.elapsedMS }),
		boolColumn("called", func(r *attemptRow) bool { return r.called }),
		boolColumn("absent", func(r *attemptRow) bool { return r.absent }),
		nullTextColumn("gateway_id", func(r *attemptRow) string { return r.gatewayID }),
	}

	upsertAttempts = insert("attempts",
		"ON CONFLICT (message_id, attempt) DO UPDATE SET "+assign(attemptState)+" WHERE attempts.partition = excluded.partition",
		slices.Concat([]column[attemptRow]{
			textColumn("message_id", func(r *attemptRow) string { return r.messageID }),
			intColumn("attempt", func(r *attemptRow) int { return r.attempt }),
		}, attemptState)...)
)

func viewTime(name string, get func(*message.View) time.Time) column[messageRow] {
	return timeColumn(name, func(r *messageRow) time.Time { return get(&r.view) })
}

func bodyText(name string, get func(*events.MessageQueued) string) column[messageRow] {
	return textColumn(name, func(r *messageRow) string { return text(get(r.body)) })
}

const (
	makeCheckpoint = `INSERT INTO checkpoints (view, partition, seq, event_id) VALUES ($1, $2, 0, '') ON CONFLICT DO NOTHING`

	lockCheckpoint = `SELECT seq, event_id, build, digest, digested FROM checkpoints WHERE view = $1 AND partition = $2 FOR UPDATE`

	readCheckpoint = `SELECT seq FROM checkpoints WHERE view = $1 AND partition = $2`

	// The conditions make a backward move impossible even for a caller that forgot the lock, and the last one also where a
	// rebuilt schema took the place of the one whose row was locked: what was folded on the old rows does not go into the new.
	moveCheckpoint = `UPDATE checkpoints SET seq = $3, event_id = $4, digest = $5, digested = $6, updated_at = clock_timestamp()
		WHERE view = $1 AND partition = $2 AND seq < $3 AND build = $7`

	// The planner knows nothing of tables that were empty a moment ago, and a plan kept from then reads whole tables. Every
	// statement here is about few rows found by key, whatever the statistics say.
	planByKey = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

	// OFFSET 0 keeps one index look-up for each id.
	loadFacts = `SELECT t.* FROM unnest($2::text[]) AS u(id), LATERAL (
			SELECT message_id, seq, event, at, attempt, called, presumed, due_at, coalesce(nonce, ''),
				coalesce(gateway_id, ''), coalesce(code, ''), coalesce(reason, ''), coalesce(cause, ''),
				coalesce(http_status, 0), coalesce(elapsed_ms, 0)
			FROM timeline WHERE message_id = u.id AND partition = $1 AND folded ORDER BY seq OFFSET 0) t`
)
