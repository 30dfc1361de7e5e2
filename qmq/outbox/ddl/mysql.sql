-- Outbox of PyQMQ: messages of committed transactions that no broker has confirmed yet (MariaDB 10.6, MySQL 8 or newer).
-- A table that QMQ made for its Java programs lacks one column. Run this as well then:
-- ALTER TABLE {table} ADD last_error varchar(500) NULL
CREATE TABLE IF NOT EXISTS {table} (
    id          bigint NOT NULL AUTO_INCREMENT,
    content     longtext NOT NULL,
    status      smallint NOT NULL DEFAULT 0,
    error       int unsigned NOT NULL DEFAULT 0,
    create_time datetime NOT NULL,
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    last_error  varchar(500) NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE IF NOT EXISTS {lease_table} (
    name       varchar(200) NOT NULL,
    holder     varchar(200) NOT NULL,
    generation bigint NOT NULL,
    until_ms   bigint NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
