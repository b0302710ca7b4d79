-- +goose Up
-- What the reconciler looks for (docs/reference/views.md): which messages wait for a receipt, and which should have ended. The
-- conditions name only columns whose change moves a row in other indexes anyway.
ALTER TABLE messages ADD COLUMN ack_overdue boolean NOT NULL DEFAULT false;

CREATE INDEX messages_unacknowledged ON messages (partition, dispatched_at) WHERE status = 'QUEUED' AND dispatched_at IS NOT NULL AND NOT ack_overdue;
CREATE INDEX messages_undelivered ON messages (partition, dispatched_at) WHERE status IN ('QUEUED', 'SENT') AND dispatched_at IS NOT NULL;
CREATE INDEX messages_waiting ON messages (partition, deliver_until) WHERE status = 'QUEUED' AND dispatched_at IS NULL;

-- +goose Down
DROP INDEX messages_waiting, messages_undelivered, messages_unacknowledged;
ALTER TABLE messages DROP COLUMN ack_overdue;
