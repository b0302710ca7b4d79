-- +goose Up
-- What an endpoint answered, sealed, and the way to the newest try of one delivery (docs/reference/views.md).
ALTER TABLE deliveries ADD COLUMN response_key_id text, ADD COLUMN response_blob bytea;

CREATE INDEX deliveries_webhook ON deliveries (endpoint_id, webhook_id, seq DESC);

-- +goose Down
DROP INDEX deliveries_webhook;
ALTER TABLE deliveries DROP COLUMN response_key_id, DROP COLUMN response_blob;
