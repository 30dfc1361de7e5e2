-- Outbox of PyQMQ: messages of committed transactions that no broker has confirmed yet (PostgreSQL 13 or newer).
CREATE TABLE IF NOT EXISTS {table} (
    id          bigserial PRIMARY KEY,
    content     text NOT NULL,
    status      smallint NOT NULL DEFAULT 0,
    error       integer NOT NULL DEFAULT 0,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error  varchar(500) NULL
);
-- Rows live for milliseconds: dead ones are removed early, because the relay's reads pass them.
ALTER TABLE {table} SET (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0);
CREATE TABLE IF NOT EXISTS {lease_table} (
    name       varchar(200) PRIMARY KEY,
    holder     varchar(200) NOT NULL,
    generation bigint NOT NULL,
    until_ms   bigint NOT NULL
);
