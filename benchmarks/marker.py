"""`python -m benchmarks.marker`: what a marker adds to a handler's transaction; a table for SQLite, PostgreSQL and MariaDB.

The handler inserts a row and updates one on an open connection, as a pool lends it. Pairs of a message without and with a marker
alternate, so that both meet the same machine; the difference is the median of the pairs' differences. The last column is a delivery
whose marker exists. The servers are those of the tests, which do not sync: a sync of the disk is the same for both.
"""

import argparse
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from qmq.clock import SYSTEM_CLOCK
from qmq.idempotent.dbapi import once
from qmq.outbox.databases import Kind
from qmq_testing import delivery
from tests.served.idempotent.databases import Database
from tests.support.servers.services import SERVERS, ServerMissing, own_database, running

PAIRS = 3_000
WARM_UP = 200
"""Pairs before the first that counts."""


def run_ms(work: Callable[[Any], Any], message: Any) -> float:
    """Milliseconds of one call."""
    began = SYSTEM_CLOCK.monotonic()
    work(message)
    return (SYSTEM_CLOCK.monotonic() - began) * 1000


def measure(database: Database, pairs: int) -> str:
    """One row of the table."""
    database.make_tables()
    database.execute(
        "CREATE TABLE totals (id int PRIMARY KEY, amount int NOT NULL)", "INSERT INTO totals VALUES (1, 0)"
    )
    connection = database.connect()

    @contextmanager
    def lend() -> Iterator[Any]:
        yield connection

    def work(connection: Any, message_id: str) -> None:
        cursor = connection.cursor()
        cursor.execute(f"INSERT INTO effects (what) VALUES ({database.mark})", (message_id,))
        cursor.execute("UPDATE totals SET amount = amount + 1 WHERE id = 1")
        cursor.close()

    def without(message: Any) -> None:
        if database.kind is Kind.SQLITE:
            connection.execute("BEGIN IMMEDIATE")
        work(connection, message.message_id)
        connection.commit()

    @once(lend)
    def with_marker(message: Any, *, connection: Any) -> None:
        work(connection, message.message_id)

    plain, marked, differences, repeated = [], [], [], []
    for number in range(-WARM_UP, pairs):
        # Which one is first alternates too.
        order = (without, with_marker) if number % 2 else (with_marker, without)
        message = delivery(
            "", message_id=f"261129.120000.0123456789abcdef.{number}", subject="order.paid", group="billing"
        )
        took = {each: run_ms(each, message) for each in order}
        again = run_ms(with_marker, message)
        if number >= 0:
            plain.append(took[without])
            marked.append(took[with_marker])
            differences.append(took[with_marker] - took[without])
            repeated.append(again)
    connection.close()
    low, _, high = quantiles(differences, n=4)
    return (
        f"| {database.kind} | {median(plain):.3f} | {median(marked):.3f} | {median(differences):+.3f} ({low:+.3f} to {high:+.3f})"
        f" | {median(repeated):.3f} |"
    )


def sqlite_file(folder: str) -> str:
    """The URL of an empty database."""
    path = Path(folder) / "marker.sqlite3"
    sqlite3.connect(path).close()
    return f"sqlite:///{path}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.marker", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()
    print(
        "| database | without, p50 ms | with a marker, p50 ms | difference, p50 ms (quartiles) | processed before, p50 ms |"
    )
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="qmq-bench-") as folder:
        print(measure(Database(sqlite_file(folder)), options.pairs), flush=True)
    for name in ("postgresql", "mariadb"):
        with ExitStack() as stack:
            try:
                server = stack.enter_context(running(SERVERS[name]))
            except ServerMissing as missing:
                print(f"{name}: {missing}")
                continue
            url = stack.enter_context(own_database(server.url, "marker"))
            print(measure(Database(url), options.pairs), flush=True)


if __name__ == "__main__":
    main()
