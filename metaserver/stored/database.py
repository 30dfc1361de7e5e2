"""The settings of the metadata database, and its migration."""

import logging
import os
from typing import Any

from qmq.errors import SettingError

logger = logging.getLogger("qmq.meta")

SQLITE_TIMEOUT_SECONDS = 10
CONNECT_SECONDS = 3
ANSWER_SECONDS = 6
"""Time limit for one statement of the database server. Requests and jobs then fail, and the next ones retry, because waiting for
a hanging server would block a thread and its client. Migrations have no limit.
"""


def database_settings(url: str, data_dir: str) -> dict[str, Any]:
    """Django's settings for a database URL; by default SQLite in the data folder. Raises SettingError for an invalid URL."""
    import dj_database_url

    if not url:
        url = f"sqlite:///{os.path.abspath(os.path.join(data_dir, 'meta.sqlite3'))}"
    try:
        found: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=60, conn_health_checks=True))
    except (ValueError, KeyError) as error:
        raise SettingError(
            f"database URL {url.split('@')[-1]!r} is not valid; sqlite:///PATH, postgres://USER:PASSWORD@HOST/NAME"
            " and mysql://USER:PASSWORD@HOST/NAME are supported"
        ) from error
    engine = str(found["ENGINE"])
    options = dict(found.get("OPTIONS", {}))
    if engine.endswith("sqlite3"):
        options |= {
            "timeout": SQLITE_TIMEOUT_SECONDS,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
        }
    elif engine.endswith("mysql"):
        import pymysql

        # Django asks for mysqlclient's version; PyMySQL is the same interface without a compiler.
        pymysql.version_info = (2, 2, 7, "final", 0)
        pymysql.install_as_MySQLdb()
        options |= {
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": ANSWER_SECONDS,
            "write_timeout": ANSWER_SECONDS,
        }
        found["TEST"] = {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_bin"}
    elif engine == "django.db.backends.postgresql":
        found["ENGINE"] = "metaserver.postgresql"
        options |= {"connect_timeout": CONNECT_SECONDS, "answer_seconds": ANSWER_SECONDS}
    found["OPTIONS"] = options
    return found


_BUSY_SQLSTATES = frozenset({"40001", "40P01", "55P03"})
_BUSY_NUMBERS = frozenset({1205, 1213})
"""Of PostgreSQL and of MariaDB: a lock was not granted in time, or the transaction was rolled back to end a deadlock."""


def is_busy(error: BaseException) -> bool:
    """Whether an error of Django's database layer says only that other transactions hold locks, so a repetition can succeed."""
    cause = error.__cause__
    if str(getattr(cause, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return True
    number = cause.args[0] if cause is not None and cause.args else None
    return getattr(cause, "sqlstate", None) in _BUSY_SQLSTATES or (isinstance(number, int) and number in _BUSY_NUMBERS)


def wait_for_ever(*, using: str, **_: Any) -> None:
    """Remove the time limits of Django's connection of this name, because migrations of large tables take long."""
    from django.db import connections

    connection: Any = connections[using]
    connection.ensure_connection()
    if connection.vendor == "postgresql":
        connection.connection.answer_seconds = None
    elif connection.vendor == "mysql":
        # PyMySQL has no public name for it, and no way to reconnect inside Django's migration.
        connection.connection._read_timeout = connection.connection._write_timeout = None


def check_collation() -> None:
    """Raises SettingError for a database whose collation ignores case, because `orders` and `Orders` are two subjects."""
    from django.db import connection

    if connection.vendor != "mysql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT DATABASE(), @@collation_database")
        name, collation = cursor.fetchone()
    if not collation.endswith(("_bin", "_as_cs", "_cs")):
        raise SettingError(
            f"database {name} has collation {collation}, for which orders and Orders are one subject; before the tables"
            f" are created, run: ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )


def migrate() -> None:
    """Bring the tables up to date, if the database is available. Raises SettingError: as `check_collation`."""
    from django.core.management import call_command
    from django.db import Error, connection

    try:
        check_collation()
        call_command("migrate", "metaserver", interactive=False, verbosity=0)
    except Error as error:
        logger.warning("the database can't be migrated now: %s", error)
    finally:
        connection.close()  # the next one has time limits again
