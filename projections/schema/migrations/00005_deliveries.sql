-- +goose Up
-- One row for each try to tell an endpoint of a customer's, from HOOKLOG (docs/reference/views.md).
CREATE TABLE deliveries (
    seq         bigint      PRIMARY KEY,
    tenant_id   text        NOT NULL,
    endpoint_id text        NOT NULL,
    webhook_id  text        NOT NULL,
    message_id  text        NOT NULL,
    event       text        NOT NULL,
    attempt     integer     NOT NULL,
    result      text        NOT NULL,
    http_status integer,
    reason      text,
    elapsed_ms  bigint      NOT NULL,
    at          timestamptz NOT NULL,
    stored_at   timestamptz NOT NULL,
    next_at     timestamptz,
    delivery    jsonb
);

CREATE INDEX deliveries_endpoint ON deliveries (endpoint_id, seq DESC);

-- +goose Down
DROP TABLE deliveries;
