"""`python -m benchmarks.outbox_outage`: transactions with a message while all broker groups are away; prints a table.

A program commits transactions at a fixed rate on PostgreSQL, each with a business row and a message (DB-API face of the outbox),
and a relay runs beside it. Phases: broker groups are there; they are stopped; they are there again. Then the time until no message
of the outage is left. Nothing here asserts: figures go to docs/performance.md by hand, with the date.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg

from qmq.client.config import Limits
from qmq.outbox.committed import MEMORY_SECONDS
from qmq.outbox.databases import Address, connect
from qmq.outbox.dbapi import Outbox
from qmq.outbox.dialects import TABLE, ddl_statements
from qmq.sync import Producer
from tests.support.servers.processes import PROJECT
from tests.support.servers.services import PostgresqlServer, own_database, running
from tests.support.servers.system import System

RATE = 500
THREADS = 8
UP_SECONDS = 60.0
AWAY_SECONDS = 300.0
SUBJECT = "bench.outage"


class Load:
    """Transactions at a fixed rate, in threads."""

    def __init__(self, url: str, outbox: Outbox, rate: float) -> None:
        self._url = url
        self._outbox = outbox
        self._pause = THREADS / rate
        self._lock = threading.Lock()
        self._seconds: list[float] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(THREADS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        with psycopg.connect(self._url) as connection:
            next_at = time.monotonic() + self._pause * number / THREADS
            while not self._stopping.wait(max(0.0, next_at - time.monotonic())):
                began = time.perf_counter()
                with self._outbox.transaction(connection) as transaction:
                    connection.execute("INSERT INTO business (value) VALUES ('x')")
                    transaction.send(SUBJECT, {"number": number})
                self._seconds.append(time.perf_counter() - began)
                next_at += self._pause

    def take(self) -> list[float]:
        """The seconds of the transactions since the last call."""
        found, self._seconds = self._seconds, []
        return sorted(found)


def report(phase: str, seconds: list[float], elapsed: float) -> None:
    p50, p99 = (seconds[int(len(seconds) * part)] * 1e3 for part in (0.5, 0.99))
    print(f"{phase:12} {len(seconds) / elapsed:6.0f} transactions/s  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms", flush=True)


def phase(name: str, load: Load, seconds: float) -> None:
    load.take()
    began = time.monotonic()
    time.sleep(seconds)
    report(name, load.take(), time.monotonic() - began)


def measure(system: System, url: str, arguments: argparse.Namespace) -> None:
    watch = connect(Address.parse(url))

    def waiting(last: int) -> int:
        [[found]] = watch.rows(f"SELECT count(*) FROM {TABLE} WHERE id <= ?", [last])
        return int(found)

    # Room for what is sent from memory during an outage: later rows wait for the relay, up to 65 s after the return.
    limits = Limits(queue_messages=int(2 * arguments.rate * MEMORY_SECONDS))
    with Producer(system.meta_url, app="bench", limits=limits) as producer:
        outbox = Outbox(lambda: psycopg.connect(url), producer)
        with Load(url, outbox, arguments.rate) as load:
            phase("warm-up", load, 5.0)
            for _ in range(arguments.outages):
                phase("up", load, arguments.up)
                for broker in system.brokers.values():
                    broker.stop()
                phase("away", load, arguments.away)
                [[last]] = watch.rows(f"SELECT max(id) FROM {TABLE}")
                count = waiting(last)
                for broker in system.brokers.values():
                    broker.start()
                began = time.monotonic()
                phase("up again", load, 5.0)
                while waiting(last):
                    time.sleep(0.2)
                print(f"{count} rows of the outage are sent {time.monotonic() - began:.1f} s after the return")
        outbox.close()
    watch.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--up", type=float, default=UP_SECONDS)
    parser.add_argument("--away", type=float, default=AWAY_SECONDS)
    parser.add_argument("--outages", type=int, default=1, help="how many, one after another")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        System(Path(folder)) as system,
        running(PostgresqlServer) as server,
        own_database(server.url, "bench") as found,
    ):
        url = found.partition("?")[0]
        system.start_nodes()
        connection = connect(Address.parse(url))
        for statement in [
            *ddl_statements(connection.kind),
            "CREATE TABLE business (id bigserial PRIMARY KEY, value text)",
        ]:
            connection.change(statement)
        connection.close()
        command = [sys.executable, "-m", "qmq.cli", "outbox", "relay", "--database", url, "--meta", system.meta_url]
        with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL) as relay:
            try:
                measure(system, url, arguments)
            finally:
                os.kill(relay.pid, signal.SIGTERM)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
