-- Markers of processed messages, PostgreSQL 13 or newer (docs/how-to/idempotency.md).
CREATE TABLE qmq_processed (
    k bytea NOT NULL PRIMARY KEY CHECK (octet_length(k) <= 400),
    update_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX qmq_processed_update_at ON qmq_processed (update_at);
