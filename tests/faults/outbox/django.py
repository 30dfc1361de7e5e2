"""A program with Django."""

from typing import Any

import django
from django.conf import settings

from qmq.outbox.databases import Address, Kind
from tests.faults.outbox.points import BODIES, FLUSH_SECONDS, ORDERS, SUBJECT


def prepare(kind: Kind, database: Address, meta: str) -> None:
    """Configure Django."""
    engine: dict[str, Any] = {
        "ENGINE": f"django.db.backends.{'sqlite3' if kind is Kind.SQLITE else kind}",
        "NAME": database.database, "HOST": database.host, "PORT": database.port, "USER": database.user,
    }  # fmt: skip
    if kind is Kind.SQLITE:
        engine = {"ENGINE": engine["ENGINE"], "NAME": database.database, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
    elif kind is Kind.MYSQL:
        import pymysql

        pymysql.version_info = (2, 2, 7, "final", 0)
        pymysql.install_as_MySQLdb()
        engine["OPTIONS"] = {"ssl_disabled": True}
    settings.configure(
        DATABASES={"default": engine}, INSTALLED_APPS=["qmq.integrations.django.outbox"], QMQ_URL=meta, USE_TZ=True
    )
    django.setup()
    # What is imported at the first use.
    from django.db import connection

    connection.ops.quote_name("x")


def run(key: str) -> None:
    """One transaction, the second message in a savepoint."""
    from django.db import connection, transaction

    from qmq.integrations.django import outbox

    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {ORDERS} VALUES (%s)", [key])
        outbox.send(SUBJECT, f"{key} {BODIES[0]}")
        with transaction.atomic():
            outbox.send(SUBJECT, f"{key} {BODIES[1]}")
    assert outbox.flush(FLUSH_SECONDS)
