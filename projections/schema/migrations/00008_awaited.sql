-- +goose Up
-- What the reconciler looks for, by instance (projections/views/awaited.go): a few of each are read, however many wait at one. What was
-- corrected once is never failed again, so it waits for no delivery. As before, the conditions name only columns whose change moves a
-- row in other indexes anyway.
DROP INDEX messages_waiting, messages_undelivered, messages_unacknowledged;

CREATE INDEX messages_unacknowledged ON messages (partition, instance_id, dispatched_at, id)
    WHERE status = 'QUEUED' AND dispatched_at IS NOT NULL AND NOT ack_overdue;
CREATE INDEX messages_undelivered ON messages (partition, instance_id, dispatched_at, id)
    WHERE status IN ('QUEUED', 'SENT') AND dispatched_at IS NOT NULL AND NOT corrected;
CREATE INDEX messages_waiting ON messages (partition, instance_id, deliver_until, id) WHERE status = 'QUEUED' AND dispatched_at IS NULL;

-- +goose Down
DROP INDEX messages_waiting, messages_undelivered, messages_unacknowledged;

CREATE INDEX messages_unacknowledged ON messages (partition, dispatched_at) WHERE status = 'QUEUED' AND dispatched_at IS NOT NULL AND NOT ack_overdue;
CREATE INDEX messages_undelivered ON messages (partition, dispatched_at) WHERE status IN ('QUEUED', 'SENT') AND dispatched_at IS NOT NULL;
CREATE INDEX messages_waiting ON messages (partition, deliver_until) WHERE status = 'QUEUED' AND dispatched_at IS NULL;
