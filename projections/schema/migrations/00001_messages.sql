-- +goose Up
-- Unqualified names: the connection's search_path says which schema these tables are made in.

CREATE TABLE messages (
    id               text        PRIMARY KEY,
    partition        smallint    NOT NULL,
    queued_seq       bigint      NOT NULL,
    tenant_id        text        NOT NULL,
    project_id       text        NOT NULL,
    environment      text        NOT NULL,
    key_id           text        NOT NULL,
    instance_id      text        NOT NULL,
    category         text        NOT NULL,
    class            text        NOT NULL,
    urgent           boolean     NOT NULL,
    template_id      text        NOT NULL,
    template_version integer     NOT NULL,
    origin           text        NOT NULL,
    source_number    text        NOT NULL,
    correlation_id   text        NOT NULL,
    recipient_hash   text        NOT NULL,
    gateway_id       text,
    retention_days   integer     NOT NULL,
    labels           jsonb       NOT NULL,
    retry_of         text        NOT NULL,
    sealed_key_id    text        NOT NULL,
    sealed_blob      bytea,
    stage            text        NOT NULL,
    status           text        NOT NULL,
    attempts         integer     NOT NULL,
    error_code       text,
    presumed         boolean     NOT NULL,
    corrected        boolean     NOT NULL,
    erased           boolean     NOT NULL,
    created_at       timestamptz NOT NULL,
    deliver_at       timestamptz,
    deliver_until    timestamptz,
    dispatched_at    timestamptz,
    sent_at          timestamptz,
    delivered_at     timestamptz,
    read_at          timestamptz,
    failed_at        timestamptz,
    canceled_at      timestamptz,
    last_seq         bigint      NOT NULL
) WITH (fillfactor = 80);

CREATE INDEX messages_tenant ON messages (tenant_id, created_at DESC, id);
CREATE INDEX messages_correlation ON messages (correlation_id, tenant_id);
CREATE INDEX messages_gateway ON messages (gateway_id, tenant_id) WHERE gateway_id IS NOT NULL;
CREATE INDEX messages_instance ON messages (instance_id, queued_seq);

CREATE TABLE timeline (
    partition   smallint    NOT NULL,
    seq         bigint      NOT NULL,
    message_id  text        NOT NULL,
    event       text        NOT NULL,
    at          timestamptz NOT NULL,
    stored_at   timestamptz NOT NULL,
    attempt     integer     NOT NULL,
    folded      boolean     NOT NULL,
    called      boolean     NOT NULL,
    presumed    boolean     NOT NULL,
    due_at      timestamptz,
    nonce       text,
    gateway_id  text,
    code        text,
    reason      text,
    cause       text,
    http_status integer,
    elapsed_ms  bigint,
    PRIMARY KEY (partition, seq, message_id)
);

CREATE INDEX timeline_message ON timeline (message_id, partition, seq);
CREATE INDEX timeline_gateway ON timeline (gateway_id) WHERE gateway_id IS NOT NULL;

CREATE TABLE attempts (
    message_id  text        NOT NULL,
    attempt     integer     NOT NULL,
    partition   smallint    NOT NULL,
    state       text        NOT NULL,
    started_at  timestamptz,
    ended_at    timestamptz,
    outcome     text,
    cause       text,
    http_status integer,
    elapsed_ms  bigint,
    called      boolean     NOT NULL,
    absent      boolean     NOT NULL,
    gateway_id  text,
    PRIMARY KEY (message_id, attempt)
) WITH (fillfactor = 80);

CREATE TABLE checkpoints (
    view       text        NOT NULL,
    partition  smallint    NOT NULL,
    seq        bigint      NOT NULL,
    event_id   text        NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (view, partition)
) WITH (fillfactor = 20);

-- +goose Down
DROP TABLE checkpoints, attempts, timeline, messages;
