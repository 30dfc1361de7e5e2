-- Markers of PyQMQ: messages that consumer groups have processed (MariaDB 10.6, MySQL 8 or newer).
-- VARBINARY: keys that differ in case or in trailing spaces stay different.
CREATE TABLE IF NOT EXISTS {table} (
    k         varbinary(400) NOT NULL,
    update_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (k),
    KEY {index} (update_at)
) ENGINE = InnoDB;
