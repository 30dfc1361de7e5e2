"""`python -m benchmarks.outbox`: what a message in the outbox adds to a transaction, for each framework and database; a table.

A transaction inserts one business row; every second one sends a message as well, so that both kinds are measured under the same
load. Between transactions the program waits until the message is stored and its row deleted: that work is not in the figures, but
cores that have waited are slow (`--every 20`: it waits after 20 pairs). Face "insert" is the row alone, without any code of ours.
The servers do not sync, as in tests, so the differences are those of statements and Python.

Needs the tests' folder beside it (it starts databases and nodes as the tests do).
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

from qmq.client.message import standard_properties
from qmq.client.middleware import OutgoingMessage
from qmq.clock import SystemClock
from qmq.outbox.databases import Address, Kind, connect
from qmq.outbox.dialects import TABLE, Statements, ddl_statements
from qmq.outbox.rows import content_of
from qmq.sync import Producer
from tests.support.servers.services import mariadb_server, own_database, postgresql_server
from tests.support.servers.system import System

PAIRS = 600
WARM_UP = 50
"""Pairs before the first that counts."""
FLUSH_SECONDS = 30.0
STORED_SECONDS = 0.003
SUBJECT = "outbox.benchmark"
BODY = "x" * 128
BUSINESS = "business"
"""The table of business rows."""
Transaction = Callable[[int], None]
"""One transaction with this number of messages."""
Face = Callable[[Address, str], tuple[Transaction, Callable[[], object]]]
"""From a database and a metaserver's address to its transactions, and what waits until messages are sent and deleted."""


def django(database: Address, meta: str) -> tuple[Transaction, Callable[[], object]]:
    """`qmq.integrations.django.outbox`."""
    import django
    from django.conf import settings

    engine: dict[str, Any] = {
        "ENGINE": f"django.db.backends.{'sqlite3' if database.kind is Kind.SQLITE else database.kind}",
        "NAME": database.database, "HOST": database.host, "PORT": database.port, "USER": database.user,
    }  # fmt: skip
    if database.kind is Kind.SQLITE:
        engine["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA synchronous=FULL"}
    elif database.kind is Kind.MYSQL:
        pymysql.version_info = (2, 2, 7, "final", 0)
        pymysql.install_as_MySQLdb()
        engine["OPTIONS"] = {"ssl_disabled": True}
    settings.configure(
        DATABASES={"default": engine}, INSTALLED_APPS=["qmq.integrations.django.outbox"], QMQ_URL=meta, USE_TZ=True
    )
    django.setup()
    from django.db import connection
    from django.db.transaction import atomic

    from qmq.integrations.django import outbox

    def transaction(messages: int) -> None:
        with atomic():
            with connection.cursor() as cursor:
                cursor.execute(f"INSERT INTO {BUSINESS} (v) VALUES (%s)", [BODY])
            for _ in range(messages):
                outbox.send(SUBJECT, BODY)

    return transaction, lambda: outbox.flush(FLUSH_SECONDS)


def sqlalchemy(database: Address, meta: str) -> tuple[Transaction, Callable[[], object]]:
    """`qmq.outbox.sqlalchemy`, with a new session for each transaction."""
    import sqlalchemy as sa
    from sqlalchemy.orm import Session

    from qmq.outbox.sqlalchemy import Outbox

    if database.kind is Kind.SQLITE:
        engine = sa.create_engine(f"sqlite:///{database.database}")
    else:
        driver = "postgresql+psycopg" if database.kind is Kind.POSTGRESQL else "mysql+pymysql"
        engine = sa.create_engine(f"{driver}://{database.user}@{database.host}:{database.port}/{database.database}")
    producer = Producer(meta)
    producer.start()
    outbox = Outbox(engine, producer)
    insert = sa.table(BUSINESS, sa.column("v")).insert()

    def transaction(messages: int) -> None:
        with Session(engine) as session, session.begin():
            session.execute(insert, {"v": BODY})
            for _ in range(messages):
                outbox.send(session, SUBJECT, BODY)

    return transaction, lambda: outbox.flush(FLUSH_SECONDS)


def open_connection(database: Address) -> Any:
    """By the database's driver."""
    if database.kind is Kind.SQLITE:
        return sqlite3.connect(database.database, check_same_thread=False)
    if database.kind is Kind.POSTGRESQL:
        return psycopg.connect(host=database.host, port=database.port, user=database.user, dbname=database.database)
    return pymysql.connect(
        host=database.host, port=database.port, user=database.user, database=database.database, ssl_disabled=True
    )


def insert(database: Address, meta: str) -> tuple[Transaction, Callable[[], object]]:
    """The row alone, by the driver, deleted by another connection: what no code of ours can be faster than."""
    connection, other = open_connection(database), open_connection(database)
    mark = "?" if database.kind is Kind.SQLITE else "%s"
    statement = Statements(database.kind).insert(1).replace("?", mark)
    content = content_of(OutgoingMessage(SUBJECT, "m" * 40, {**standard_properties("benchmark", 1), "data": BODY}))

    def transaction(messages: int) -> None:
        cursor = connection.cursor()
        cursor.execute(f"INSERT INTO {BUSINESS} (v) VALUES ({mark})", [BODY])
        for _ in range(messages):
            cursor.execute(statement, [content])
        connection.commit()

    def delete() -> None:
        # About as long as a message takes to be stored: cores that have waited are slower.
        time.sleep(STORED_SECONDS)
        other.cursor().execute(f"DELETE FROM {TABLE}")
        other.commit()

    return transaction, delete


def dbapi(database: Address, meta: str) -> tuple[Transaction, Callable[[], object]]:
    """`qmq.outbox.dbapi`."""
    from qmq.outbox.dbapi import Outbox

    producer = Producer(meta)
    producer.start()
    outbox = Outbox(partial(open_connection, database), producer)
    connection = open_connection(database)
    mark = "?" if database.kind is Kind.SQLITE else "%s"

    def transaction(messages: int) -> None:
        with outbox.transaction(connection) as own:
            connection.cursor().execute(f"INSERT INTO {BUSINESS} (v) VALUES ({mark})", [BODY])
            for _ in range(messages):
                own.send(SUBJECT, BODY)

    return transaction, lambda: outbox.flush(FLUSH_SECONDS)


FACES: dict[str, Face] = {"django": django, "sqlalchemy": sqlalchemy, "dbapi": dbapi, "insert": insert}


def measure(
    transaction: Transaction, wait: Callable[[], object], pairs: int, messages: int, every: int
) -> list[list[float]]:
    """Milliseconds of transactions without and with messages, in turns."""
    clock = SystemClock()
    took: list[list[float]] = [[], []]
    for number in range(WARM_UP + pairs):
        for times, count in zip(took, (0, messages), strict=True):
            began = clock.monotonic()
            transaction(count)
            if number >= WARM_UP:
                times.append((clock.monotonic() - began) * 1000)
            if number % every == 0:
                wait()
    return took


@contextmanager
def databases(folder: Path, kinds: list[Kind]) -> Iterator[list[Address]]:
    """An empty database of each kind with the tables."""
    with ExitStack() as stack:
        found = []
        for kind in kinds:
            if kind is Kind.SQLITE:
                address = Address(kind, str(folder / "business.sqlite3"))
                Path(address.database).touch()
            else:
                server = stack.enter_context(postgresql_server() if kind is Kind.POSTGRESQL else mariadb_server())
                at = urlsplit(stack.enter_context(own_database(server.url, "benchmark")))
                address = Address(kind, at.path[1:], at.hostname or "", at.port or 0, at.username or "")
            _prepare(address)
            found.append(address)
        yield found


def _prepare(address: Address) -> None:
    key = {
        Kind.SQLITE: "integer PRIMARY KEY", Kind.POSTGRESQL: "bigserial PRIMARY KEY",
        Kind.MYSQL: "bigint AUTO_INCREMENT PRIMARY KEY",
    }[address.kind]  # fmt: skip
    connection = connect(address)
    if address.kind is Kind.SQLITE:
        connection.rows("PRAGMA journal_mode = WAL")
    for statement in (*ddl_statements(address.kind), f"CREATE TABLE {BUSINESS} (id {key}, v varchar(1000))"):
        connection.change(statement)
    connection.close()


def main() -> None:
    """Print p50 and p90 without and with messages, and the difference at p50."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--faces", nargs="+", choices=list(FACES), default=list(FACES), metavar="FACE", help=", ".join(FACES)
    )
    parser.add_argument(
        "--databases", nargs="+", choices=[str(kind) for kind in Kind], default=[str(kind) for kind in Kind]
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, help="transactions without and with messages that count")
    parser.add_argument("--messages", type=int, default=1, help="messages of a transaction")
    parser.add_argument("--every", type=int, default=1, help="pairs after which the program waits for its messages")
    parser.add_argument("--one", nargs=3, metavar=("FACE", "DATABASE", "META"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        face, url, meta = options.one
        print(
            json.dumps(measure(*FACES[face](Address.parse(url), meta), options.pairs, options.messages, options.every))
        )
        return
    print(
        f"{'face':<12} {'database':<11} {'without p50':>12} {'p90':>7} {'with p50':>10} {'p90':>7} {'difference p50':>15}"
    )
    kinds = [Kind(kind) for kind in options.databases]
    with tempfile.TemporaryDirectory() as folder, System(Path(folder), groups=1) as system:
        system.start()
        with databases(Path(folder), kinds) as addresses:
            for face in options.faces:
                for address in addresses:
                    _print_row(face, address, system.meta_url, options)


def _print_row(face: str, address: Address, meta: str, options: argparse.Namespace) -> None:
    command = [
        sys.executable, "-m", "benchmarks.outbox", "--one", face, str(address), meta,
        "--pairs", str(options.pairs), "--messages", str(options.messages), "--every", str(options.every),
    ]  # fmt: skip
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    without, with_messages = json.loads(printed)
    print(
        f"{face:<12} {address.kind:<11} {median(without):>9.3f} ms {quantiles(without, n=10)[8]:>7.3f}"
        f" {median(with_messages):>7.3f} ms {quantiles(with_messages, n=10)[8]:>7.3f}"
        f" {median(with_messages) - median(without):>12.3f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
