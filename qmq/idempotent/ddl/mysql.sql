-- Markers of processed messages, MariaDB 10.6 or newer and MySQL 8 (docs/how-to/idempotency.md).
-- VARBINARY: keys that differ in case or in trailing spaces stay different.
CREATE TABLE qmq_processed (
    k VARBINARY(400) NOT NULL PRIMARY KEY,
    update_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    KEY qmq_processed_update_at (update_at)
) ENGINE = InnoDB;
