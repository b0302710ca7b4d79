-- +goose Up
-- A digest covers every event from the first one of the log, or of its run, to up_to (docs/audit.md).
CREATE TABLE digests (
    partition smallint NOT NULL,
    up_to     bigint   NOT NULL,
    digest    bytea    NOT NULL,
    PRIMARY KEY (partition, up_to)
);

-- digest is as of sequence digested, which is seq unless a run is still to begin. build names the rebuild that made the
-- tables: rows remembered from others are worth nothing.
ALTER TABLE checkpoints
    ADD COLUMN digest   bytea,
    ADD COLUMN digested bigint NOT NULL DEFAULT 0,
    ADD COLUMN build    text   NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE checkpoints DROP COLUMN build, DROP COLUMN digested, DROP COLUMN digest;
DROP TABLE digests;
