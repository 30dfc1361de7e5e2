"""`python -m benchmarks.outbox_latency`: from the commit of a transaction to the broker's answer that its message is stored.

A program commits 100 transactions per second with one message each, in four threads (DB-API face of the outbox), on SQLite,
PostgreSQL and MariaDB; nodes sync as usual. Nothing here asserts: figures go to docs/performance.md by hand, with the date.
"""

import argparse
import sqlite3
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.outbox import open_connection
from qmq.client.middleware import Middleware, OutgoingMessage
from qmq.errors import SendFailed
from qmq.outbox.databases import Address, connect
from qmq.outbox.dbapi import Outbox
from qmq.outbox.dialects import ddl_statements
from qmq.receipt import Receipt
from qmq.sync import Producer
from tests.support.servers.services import MariadbServer, PostgresqlServer, own_database, running
from tests.support.servers.system import System

RATE = 100
THREADS = 4
SECONDS = 30.0
SUBJECT = "bench.latency"


class Stored(Middleware):
    """When each message was stored, by its ID."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def after_send(self, message: OutgoingMessage, outcome: Receipt | SendFailed) -> None:
        if not isinstance(outcome, Receipt):
            raise SystemExit(f"a message was not stored: {outcome}")
        self.at[message.message_id] = time.perf_counter()


def commit(outbox: Outbox, connection: Any, number: int, committed: dict[str, float], seconds: float) -> None:
    """Transactions of one thread at its part of the rate."""
    pause = THREADS / RATE
    next_at = time.monotonic() + pause * number / THREADS
    ends_at = next_at + seconds
    while next_at < ends_at:
        time.sleep(max(0.0, next_at - time.monotonic()))
        with outbox.transaction(connection) as transaction:
            connection.cursor().execute("INSERT INTO business (value) VALUES ('x')")
            message_id = transaction.send(SUBJECT, {"number": number})
        committed[message_id] = time.perf_counter()
        next_at += pause


def measure(database: Address, meta_url: str, seconds: float) -> None:
    connection = connect(database)
    for statement in [*ddl_statements(database.kind), "CREATE TABLE business (value text)"]:
        connection.change(statement)
    connection.close()
    stored, committed = Stored(), dict[str, float]()
    opener = partial(open_connection, database)
    with Producer(meta_url, app="bench", middleware=[stored]) as producer, Outbox(opener, producer) as outbox:
        connections = [opener() for _ in range(THREADS)]
        threads = [
            threading.Thread(target=commit, args=(outbox, connection, number, committed, seconds))
            for number, connection in enumerate(connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outbox.flush(30.0)
    found = sorted(max(0.0, stored.at[message_id] - at) * 1e3 for message_id, at in committed.items())
    p50, p99 = (found[int(len(found) * part)] for part in (0.5, 0.99))
    print(f"{database.kind:10}  {len(found)} messages  p50 {p50:.2f} ms  p99 {p99:.2f} ms", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        system = stack.enter_context(System(folder))
        system.start_nodes()
        file = folder / "own.sqlite3"
        sqlite3.connect(file).close()
        urls = [f"sqlite:///{file}"]
        for kind in (PostgresqlServer, MariadbServer):
            server = stack.enter_context(running(kind))
            urls.append(stack.enter_context(own_database(server.url, "bench")).partition("?")[0])
        for url in urls:
            measure(Address.parse(url), system.meta_url, arguments.seconds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
