"""Which database, and bringing its tables up to date."""

import logging
import os
from typing import Any

from qmq.errors import SettingError

logger = logging.getLogger("qmq.meta")

SQLITE_TIMEOUT_SECONDS = 10
CONNECT_SECONDS = 5


def database_settings(url: str, data_dir: str) -> dict[str, Any]:
    """Django's settings for a database URL; by default SQLite in the data folder.

    Raises:
        SettingError: the URL can't be understood.
    """
    import dj_database_url

    if not url:
        url = f"sqlite:///{os.path.abspath(os.path.join(data_dir, 'meta.sqlite3'))}"
    try:
        found: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=60, conn_health_checks=True))
    except (ValueError, KeyError) as error:
        raise SettingError(
            f"database URL {url.split('@')[-1]!r} can't be understood; sqlite:///PATH, postgres://USER:PASSWORD@HOST/NAME"
            " and mysql://USER:PASSWORD@HOST/NAME are known"
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
        options |= {"charset": "utf8mb4", "connect_timeout": CONNECT_SECONDS}
        found["TEST"] = {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_bin"}
    else:
        options |= {"connect_timeout": CONNECT_SECONDS}
    found["OPTIONS"] = options
    return found


def check_collation() -> None:
    """Refuse a database that takes two names for one: `orders` and `Orders` are two subjects.

    Raises:
        SettingError: a MySQL or MariaDB whose collation ignores case.
    """
    from django.db import connection

    if connection.vendor != "mysql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT DATABASE(), @@collation_database")
        name, collation = cursor.fetchone()
    if not collation.endswith(("_bin", "_as_cs", "_cs")):
        raise SettingError(
            f"database {name} has collation {collation}, for which orders and Orders are one subject; before the tables"
            f" are made, run: ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )


def migrate() -> None:
    """Bring the tables up to date; with the database away, say so and go on: answers come from memory.

    Raises:
        SettingError: its collation ignores case.
    """
    from django.core.management import call_command
    from django.db import Error

    try:
        check_collation()
        call_command("migrate", "metaserver", interactive=False, verbosity=0)
    except Error as error:
        logger.warning("the database can't be migrated now: %s", error)
