"""Kills a program of a framework at each of its points, from the begin of its transaction to the deletion of its rows.

A point lies before and behind each statement, between each request to the database server and its answer, and before and behind
each write to and answer from a metaserver or broker. Which there are, one run without a kill tells. The program is a module
`tests.faults.outbox.<framework>` with

    def prepare(kind: Kind, database: Address, meta: str) -> None    # imports and settings; no thread and no connection
    def run(key: str) -> None                                         # in a fork of the prepared process

`run` writes the row `key` into the table ORDERS and sends BODIES of it to SUBJECT in the same transaction, then waits until all is
sent and deleted. This process forks for each run, because imports take longer than everything else.
"""

import asyncio
import functools
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from qmq.net.caller import Caller
from qmq.outbox.databases import Address, Connection, Kind, connect
from qmq.outbox.dialects import Statements, ddl_statements
from qmq.outbox.relay import Relay
from qmq.sync import Consumer, Producer
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System
from tests.support.waiting import eventually

ROUNDS = 20 if os.environ.get("QMQ_FAULTS") == "full" else 1
FLUSH_SECONDS = 60.0
SUBJECT = "outbox.orders"
ORDERS = "orders"
BODIES = ("first", "second")
"""What a transaction sends, in this order, behind the key and a space."""


# --- in the program -----------------------------------------------------------------------------------------------------


class Points:
    """Counts the points of this process, and kills it at one of them."""

    def __init__(self, kill_at: int) -> None:
        self._kill_at = kill_at
        self._lock = threading.Lock()
        self.names: list[str] = []

    def pass_(self, name: str) -> None:
        """This thread is at a point."""
        with self._lock:
            self.names.append(name)
            if len(self.names) == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, method: str, name: Callable[..., str]) -> None:
        """Make points before and behind a method of a class."""
        inner = getattr(owner, method)

        @functools.wraps(inner)
        def call(this: Any, *arguments: Any, **options: Any) -> Any:
            text = name(*arguments)
            self.pass_(f"before {text}")
            result = inner(this, *arguments, **options)
            self.pass_(f"behind {text}")
            return result

        setattr(owner, method, call)

    def watch(self, kind: Kind) -> None:
        """Make the points of a driver and of the network."""
        {Kind.SQLITE: self._watch_sqlite, Kind.POSTGRESQL: self._watch_postgresql, Kind.MYSQL: self._watch_mysql}[
            kind
        ]()
        transport = asyncio.selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
        self.around(transport, "write", lambda *_: "a request")
        self.around(Caller, "buffer_updated", lambda *_: "an answer")

    def _watch_sqlite(self) -> None:
        points = self

        @functools.cache
        def watched_cursor(factory: type[sqlite3.Cursor]) -> type[sqlite3.Cursor]:
            found = type("WatchedCursor", (factory,), {})
            points.around(found, "execute", lambda sql, *_: _short(sql))
            return found

        @functools.cache
        def watched_connection(factory: Any) -> Any:
            class WatchedConnection(factory):  # type: ignore[misc]
                def cursor(self, factory: type[sqlite3.Cursor] = sqlite3.Cursor) -> Any:
                    return super().cursor(watched_cursor(factory))

            for method in ("commit", "rollback"):
                points.around(WatchedConnection, method, lambda *_, method=method: method.upper())
            # It does not call `cursor`.
            points.around(WatchedConnection, "execute", lambda sql, *_: _short(sql))
            return WatchedConnection

        inner = sqlite3.connect

        def connect(*arguments: Any, factory: Any = sqlite3.Connection, **options: Any) -> Any:
            return inner(*arguments, factory=watched_connection(factory), **options)

        sqlite3.connect = sqlite3.dbapi2.connect = connect  # type: ignore[attr-defined, assignment]

    def _watch_postgresql(self) -> None:
        import psycopg

        points = self
        inner = psycopg.Connection.wait

        def wait(this: Any, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
            points.pass_("before a round trip")
            result = inner(this, watched(gen), *arguments, **options)
            points.pass_("behind a round trip")
            return result

        def watched(gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            try:
                wanted = next(gen)
                points.pass_("between a request and its answer")
                while True:
                    wanted = gen.send((yield wanted))
            except StopIteration as end:
                return end.value

        psycopg.Connection.wait = wait  # type: ignore[method-assign, assignment]
        inner_async = psycopg.AsyncConnection.wait

        async def wait_async(this: Any, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
            points.pass_("before a round trip")
            result = await inner_async(this, watched(gen), *arguments, **options)
            points.pass_("behind a round trip")
            return result

        psycopg.AsyncConnection.wait = wait_async  # type: ignore[method-assign, assignment]

    def _watch_mysql(self) -> None:
        from pymysql.connections import Connection as PyMysql

        self.around(PyMysql, "_execute_command", lambda command, sql, *_: _short(sql))
        for method in ("_read_query_result", "_read_ok_packet"):
            self.around(PyMysql, method, lambda *_: "the server's answer")


def _short(sql: Any) -> str:
    text = sql.decode(errors="replace") if isinstance(sql, bytes) else str(sql)
    return " ".join(text.split()[:2])


def serve(framework: str, kind: Kind, database: str, meta: str) -> None:
    """Fork for each line of the input, a key and the number of the point to be killed at; answer with a line of JSON."""
    module = importlib.import_module(f"tests.faults.outbox.{framework}")
    module.prepare(kind, Address.parse(database), meta)
    for line in sys.stdin:
        key, kill_at = line.split()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            points = Points(int(kill_at))
            points.watch(kind)
            module.run(key)
            os.write(writer, json.dumps(points.names).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as result:
            names = json.loads(result.read() or b"[]")
        _, status = os.waitpid(child, 0)
        print(json.dumps([os.waitstatus_to_exitcode(status), names]), flush=True)


# --- in the test --------------------------------------------------------------------------------------------------------


class Program:
    """A prepared process of a framework."""

    def __init__(self, framework: str, database: Address, meta: str, log: Path) -> None:
        self._log = log
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, framework, database.kind, str(database), meta], cwd=PROJECT,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip

    def __enter__(self) -> "Program":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, key: str, kill_at: int = 0) -> list[str]:
        """Run a transaction; the names of its points, none if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(key, kill_at, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the program ended:\n{self._log.read_text()}"
        code, names = json.loads(answer)
        assert code in (0, -signal.SIGKILL), f"exit code {code}:\n{self._log.read_text()}"
        return list(names)


@contextmanager
def tables(database: Address) -> Iterator[Connection]:
    """A connection to a database with the tables of a program."""
    if database.kind is Kind.SQLITE:
        with sqlite3.connect(database.database) as made:
            made.execute("PRAGMA journal_mode = WAL")
        made.close()
    connection = connect(database)
    try:
        for statement in (*ddl_statements(database.kind), f"CREATE TABLE {ORDERS} (name varchar(100) PRIMARY KEY)"):
            connection.change(statement)
        yield connection
    finally:
        connection.close()


def kill_at_each_point(
    framework: str, database: Address, system: System, folder: Path, *, expected: set[str], rounds: int = ROUNDS
) -> None:
    """Kill the program at each of its points, in so many rounds, and check the promises after a relay has run.

    Args:
        expected: names of points that have to be among those found, so that a driver that is used in another way is noticed.
    """
    meta = system.meta_url
    with tables(database) as connection, Producer(meta, app="relay") as producer:
        relay = Relay(functools.partial(connect, database), producer, label="relay", grace_seconds=0.0)
        with Program(framework, database, meta, folder / f"{framework}.log") as program:
            names = program.run("whole")
            assert expected <= set(names), names
            assert not connection.rows("SELECT id FROM qmq_msg_queue"), "a run that is not killed deletes its rows"
            kills = 0
            for turn in range(rounds):
                for point in range(1, len(names) + 1):
                    kills += not program.run(f"{turn}-{point}", point)
                    relay.run_pass()
            # The order of steps in several threads differs a little, so that few points are not reached.
            assert kills >= 0.8 * rounds * len(names), f"{kills} kills at {len(names)} points"
        pending = Statements(database.kind).pending

        def is_empty() -> bool:
            relay.run_pass()
            return connection.rows(pending, [1]) == [(0,)]

        # A server may commit after its client was killed.
        eventually(is_empty, what="the outbox is empty")
        relay.close()
        committed = {name for (name,) in connection.rows(f"SELECT name FROM {ORDERS}")}
    check(committed, meta)


def check(committed: set[str], meta: str) -> None:
    """Each committed row has its messages, with one ID each and in their order, and no other row has one."""
    order: dict[str, list[str]] = defaultdict(list)
    ids: dict[str, set[str]] = defaultdict(set)
    with Consumer(meta, SUBJECT, "check", start="earliest") as consumer:
        while deliveries := consumer.pull(500, timeout=2 if committed <= order.keys() else 20):
            for delivery in deliveries:
                with delivery:
                    text = delivery.decode(str)
                    key, body = text.split()
                    ids[text].add(delivery.message_id)
                    if body not in order[key]:
                        order[key].append(body)
    assert set(order) == committed, f"{set(order) ^ committed}: row and message exist both or neither"
    assert all(bodies == list(BODIES) for bodies in order.values()), order
    assert all(len(found) == 1 for found in ids.values()), "all copies of a message have one ID"


if __name__ == "__main__":
    serve(sys.argv[1], Kind(sys.argv[2]), sys.argv[3], sys.argv[4])
