-- +goose Up
-- Each list of a customer's messages is one walk along an index, newest first, however many rows there are
-- (docs/reference/views.md). Making them keeps projectors waiting, not readers.
CREATE INDEX messages_list ON messages (tenant_id, project_id, environment, created_at DESC, id DESC);
CREATE INDEX messages_status ON messages (tenant_id, project_id, environment, status, created_at DESC, id DESC);
CREATE INDEX messages_category ON messages (tenant_id, project_id, environment, category, created_at DESC, id DESC);
CREATE INDEX messages_sender ON messages (tenant_id, project_id, environment, instance_id, created_at DESC, id DESC);
CREATE INDEX messages_recipient ON messages (recipient_hash, created_at DESC, id DESC);
CREATE INDEX messages_template ON messages (template_id, created_at DESC, id DESC) WHERE template_id <> '';

-- An array, unlike a JSON document, has statistics of its elements: a rare label is looked up, a common one walked to.
-- +goose StatementBegin
CREATE FUNCTION label_array(labels jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT ARRAY(SELECT jsonb_array_elements_text($1)) $$;
-- +goose StatementEnd
CREATE INDEX messages_labels ON messages USING gin (label_array(labels));

-- Nothing else used it.
DROP INDEX messages_tenant;

-- +goose Down
CREATE INDEX messages_tenant ON messages (tenant_id, created_at DESC, id);
DROP INDEX messages_list, messages_status, messages_category, messages_sender, messages_recipient, messages_template, messages_labels;
DROP FUNCTION label_array(jsonb);
