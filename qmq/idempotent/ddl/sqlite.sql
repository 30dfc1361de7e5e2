-- Markers of processed messages, SQLite 3.24 or newer (docs/how-to/idempotency.md).
CREATE TABLE qmq_processed (
    k BLOB NOT NULL PRIMARY KEY CHECK (length(k) <= 400),
    update_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID;
CREATE INDEX qmq_processed_update_at ON qmq_processed (update_at);
