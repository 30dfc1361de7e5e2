-- Markers of PyQMQ: messages that consumer groups have processed (PostgreSQL 13 or newer).
CREATE TABLE IF NOT EXISTS {table} (
    k         bytea NOT NULL CHECK (octet_length(k) <= 400),
    update_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (k)
);
CREATE INDEX IF NOT EXISTS {index} ON {table} (update_at);
