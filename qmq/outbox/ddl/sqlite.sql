-- Outbox of PyQMQ: messages of committed transactions that no broker has confirmed yet (SQLite 3.35 or newer).
-- AUTOINCREMENT: an ID is never used again, so that a late DELETE can't remove another message's row.
CREATE TABLE IF NOT EXISTS {table} (
    id          integer PRIMARY KEY AUTOINCREMENT,
    content     text NOT NULL,
    status      integer NOT NULL DEFAULT 0,
    error       integer NOT NULL DEFAULT 0,
    create_time text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    update_time text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    last_error  varchar(500) NULL
);
CREATE TABLE IF NOT EXISTS {lease_table} (
    name       varchar(200) NOT NULL PRIMARY KEY,
    holder     varchar(200) NOT NULL,
    generation bigint NOT NULL,
    until_ms   bigint NOT NULL
);
