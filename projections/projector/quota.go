package projector

import "pilotstatus.dev/events/message"

// quotaRow is what a batch changes in the windows that a message counts in (docs/reference/quota.md).
type quotaRow struct {
	id        string
	queuedSeq uint64 // of a message accepted in this batch, else 0
	// before and after are the fold before the batch and after it. RefundedSeq is the same however the log was cut into batches.
	before, after message.View
}

// quotaOf gives the messages whose share of their windows may change.
func quotaOf(known map[string]entry, accepted, changed []messageRow) []quotaRow {
	var out []quotaRow
	for _, r := range accepted {
		before := known[r.id].view()
		if len(r.body.QuotaWindows) > 0 || before.RefundedSeq != r.view.RefundedSeq {
			out = append(out, quotaRow{id: r.id, queuedSeq: r.rec.Position.Sequence, before: before, after: r.view})
		}
	}
	for _, r := range changed {
		if before := known[r.id].view(); before.RefundedSeq != r.view.RefundedSeq {
			out = append(out, quotaRow{id: r.id, before: before, after: r.view})
		}
	}
	return out
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// countQuota adds to the windows. It comes after the rows of messages: they say which windows those are, and whether an event that
// accepts is the first of its message. That one counts with all that is known; any other with what it changes.
var countQuota = statement[quotaRow]{
	text: `INSERT INTO quota_usage (partition, tenant_id, quota_window, accepted, refunded, last_seq)
		SELECT $1::smallint, m.tenant_id, w, sum(m.first::int), sum(CASE WHEN m.first THEN m.now ELSE m.change END),
			max(greatest(m.now_seq, CASE WHEN m.first THEN m.queued ELSE 0 END))
		FROM (SELECT t.tenant_id, t.quota_windows, t.queued_seq = u.queued AS first, u.*
			FROM unnest($2::text[], $3::bigint[], $4::integer[], $5::integer[], $6::bigint[]) AS u(id, queued, now, change, now_seq)
			JOIN messages t ON t.id = u.id AND t.partition = $1) m,
			unnest(string_to_array(m.quota_windows, ',')) AS w
		GROUP BY m.tenant_id, w
		ON CONFLICT (tenant_id, quota_window, partition) DO UPDATE SET accepted = quota_usage.accepted + excluded.accepted,
			refunded = quota_usage.refunded + excluded.refunded, last_seq = greatest(quota_usage.last_seq, excluded.last_seq)`,
	columns: []column[quotaRow]{
		textColumn("id", func(r *quotaRow) string { return r.id }),
		seqColumn("queued", func(r *quotaRow) uint64 { return r.queuedSeq }),
		intColumn("now", func(r *quotaRow) int { return number(r.after.Refunded) }),
		intColumn("change", func(r *quotaRow) int { return number(r.after.Refunded) - number(r.before.Refunded) }),
		seqColumn("now_seq", func(r *quotaRow) uint64 { return r.after.RefundedSeq }),
	},
}
