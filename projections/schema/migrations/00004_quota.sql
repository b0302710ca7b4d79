-- +goose Up
-- What of each window of a plan was accepted, and refunded, in each partition (docs/reference/quota.md).
CREATE TABLE quota_usage (
    tenant_id    text     NOT NULL,
    quota_window text     NOT NULL,
    partition    smallint NOT NULL,
    accepted     bigint   NOT NULL,
    refunded     bigint   NOT NULL,
    last_seq     bigint   NOT NULL,
    PRIMARY KEY (tenant_id, quota_window, partition)
) WITH (fillfactor = 50);

CREATE INDEX quota_usage_changed ON quota_usage (partition, last_seq);

-- quota_windows are the names, with commas between.
ALTER TABLE messages
    ADD COLUMN quota_windows text    NOT NULL DEFAULT '',
    ADD COLUMN refunded      boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE messages DROP COLUMN refunded, DROP COLUMN quota_windows;
DROP TABLE quota_usage;
