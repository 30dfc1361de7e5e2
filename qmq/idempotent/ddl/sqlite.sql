-- Markers of PyQMQ: messages that consumer groups have processed (SQLite 3.24 or newer).
CREATE TABLE IF NOT EXISTS {table} (
    k         blob NOT NULL CHECK (length(k) <= 400),
    update_at text NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (k)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {index} ON {table} (update_at);
