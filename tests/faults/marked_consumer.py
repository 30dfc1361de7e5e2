"""A consumer whose handler has a marker, as a process that kills itself before or after one of its steps.

`python -m tests.faults.marked_consumer FACE META SUBJECT DATABASE STEP`: consume until a message with the property `end` comes.
Each statement, commit and acknowledgement of the other messages is two steps, before and after it, whose names are written to the
output. The process ends by SIGKILL at step number STEP; 0: never.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from qmq import Consumer, Delivery, Middleware
from qmq.idempotent import dbapi
from qmq.outbox.databases import Address, Kind

EFFECTS = ("first", "second")
"""What a message does, each a statement."""
INSERT = "INSERT INTO effects (what) VALUES ({})"


class Steps:
    """What happens, and where it ends."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._count = 0

    def at(self, name: str) -> None:
        """Write the name of the step, without values; perhaps kill this process."""
        self._count += 1
        print(f"step {name.partition('(')[0].strip()}", flush=True)
        if self._count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name: str, work: Callable[[], Any]) -> Any:
        """Two steps with the work between."""
        self.at(f"before {name}")
        result = work()
        self.at(f"after {name}")
        return result


class Acknowledging(Middleware):
    """Steps around the acknowledgement."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def before_ack(self, delivery: Delivery) -> None:
        if "end" not in delivery.properties:
            self._steps.at("before ack")

    def after_ack(self, delivery: Delivery) -> None:
        if "end" not in delivery.properties:
            self._steps.at("after ack")


def connect(address: Address, steps: Steps) -> Any:
    """A connection of the driver whose statements and commits are steps."""
    if address.kind is Kind.SQLITE:
        import sqlite3

        cursor = stepped_cursor(sqlite3.Cursor, steps)
        factory = stepped_connection(sqlite3.Connection, steps)
        factory.cursor = lambda self: cursor(self)
        return sqlite3.connect(address.database, timeout=60, factory=factory)
    if address.kind is Kind.POSTGRESQL:
        import psycopg

        return stepped_connection(psycopg.Connection, steps).connect(
            host=address.host, port=address.port, user=address.user, dbname=address.database,
            cursor_factory=stepped_cursor(psycopg.Cursor, steps),
        )  # fmt: skip
    import pymysql

    return stepped_connection(pymysql.connections.Connection, steps)(
        host=address.host, port=address.port, user=address.user, database=address.database, ssl_disabled=True,
    )  # fmt: skip


def stepped_cursor(base: Any, steps: Steps) -> Any:
    def execute(self: Any, sql: Any, *arguments: Any, **options: Any) -> Any:
        return steps.around(sql, lambda: base.execute(self, sql, *arguments, **options))

    return type("Cursor", (base,), {"execute": execute})


def stepped_connection(base: Any, steps: Steps) -> Any:
    def execute(self: Any, sql: str, *arguments: Any) -> Any:
        return steps.around(sql, lambda: base.execute(self, sql, *arguments))

    def execute_query(self: Any, sql: str | bytes, unbuffered: bool = False) -> Any:
        name = sql.decode() if isinstance(sql, bytes) else sql
        return steps.around(name, lambda: base.query(self, sql, unbuffered))

    def run_command(self: Any, command: Any) -> Any:
        name = command.decode() if isinstance(command, bytes) else str(command)
        steps.at(f"before {name}")
        yield from base._exec_command(self, command)
        steps.at(f"after {name}")

    def method(name: str) -> Any:
        return lambda self: steps.around(name.upper(), lambda: getattr(base, name)(self))

    # Beside cursors, a method of sqlite3 and a generator of psycopg. PyMySQL's cursors call methods of the connection.
    members = {
        "sqlite3": {"execute": execute},
        "psycopg": {"_exec_command": run_command},
        "pymysql": {"begin": method("begin"), "query": execute_query, "commit": method("commit")},
    }[base.__module__.partition(".")[0]]
    return type("Connection", (base,), members)


def with_dbapi(address: Address, steps: Steps) -> Callable[..., Any]:
    @dbapi.once(partial(connect, address, steps))
    def handle(delivery: Delivery, *, connection: Any) -> None:
        mark = "?" if address.kind is Kind.SQLITE else "%s"
        for effect in EFFECTS:
            cursor = connection.cursor()
            cursor.execute(INSERT.format(mark), (f"{delivery.message_id} {effect}",))
            cursor.close()

    return handle


def with_sqlalchemy(address: Address, steps: Steps) -> Callable[..., Any]:
    from sqlalchemy import URL, create_engine, event, text
    from sqlalchemy.orm import Session

    from qmq.idempotent.sqlalchemy import once

    driver = {Kind.SQLITE: "sqlite", Kind.POSTGRESQL: "postgresql+psycopg", Kind.MYSQL: "mysql+pymysql"}[address.kind]
    at = (address.user, None, address.host, address.port) if address.host else ()
    url = URL.create(driver, *at, database=address.database)
    engine = create_engine(url, connect_args={"ssl_disabled": True} if address.kind is Kind.MYSQL else {})
    with engine.connect():
        pass  # the dialect's own statements are behind it
    event.listen(engine, "before_cursor_execute", lambda _c, _cu, sql, *_: steps.at(f"before {sql}"))
    event.listen(engine, "after_cursor_execute", lambda _c, _cu, sql, *_: steps.at(f"after {sql}"))
    event.listen(engine, "commit", lambda _: steps.at("before COMMIT"))
    event.listen(Session, "after_commit", lambda _: steps.at("after COMMIT"))

    def handle(delivery: Delivery) -> None:
        with Session(engine) as session, once(delivery, session) as is_first:
            if is_first:
                for effect in EFFECTS:
                    session.execute(text(INSERT.format(":what")), {"what": f"{delivery.message_id} {effect}"})

    return handle


def with_django(address: Address, steps: Steps) -> Callable[..., Any]:
    import django
    from django.conf import settings
    from django.db import connection
    from django.db.backends.signals import connection_created

    if address.kind is Kind.MYSQL:
        import pymysql

        pymysql.install_as_MySQLdb()
        pymysql.version_info = (2, 2, 8, "final", 0)
    engine = "sqlite3" if address.kind is Kind.SQLITE else str(address.kind)
    database = {"ENGINE": f"django.db.backends.{engine}", "NAME": address.database, "HOST": address.host,
                "PORT": address.port or "", "USER": address.user}  # fmt: skip
    if address.kind is Kind.MYSQL:
        database["OPTIONS"] = {"ssl_disabled": True}
    settings.configure(DATABASES={"default": database}, USE_TZ=True, INSTALLED_APPS=[])
    django.setup()
    from qmq.integrations.django.idempotent import once

    def follow(connection: Any, **_: Any) -> None:
        commit = connection._commit
        connection._commit = lambda: steps.around("COMMIT", commit)
        connection.execute_wrappers.append(lambda execute, sql, *rest: steps.around(sql, lambda: execute(sql, *rest)))

    connection_created.connect(follow, weak=False)

    @once()
    def handle(delivery: Delivery) -> None:
        with connection.cursor() as cursor:
            for effect in EFFECTS:
                cursor.execute(INSERT.format("%s"), (f"{delivery.message_id} {effect}",))

    return handle


FACES = {"dbapi": with_dbapi, "django": with_django, "sqlalchemy": with_sqlalchemy}


async def main(face: str, meta: str, subject: str, database: str, last: str) -> None:
    steps, loop, ended = Steps(int(last)), asyncio.get_running_loop(), asyncio.Event()
    marked = FACES[face](Address.parse(database), steps)

    def handle(delivery: Delivery) -> None:
        if "end" in delivery.properties:
            loop.call_soon_threadsafe(ended.set)
        else:
            marked(delivery)

    # One name for the process that is killed and the one after it: its messages come again at once.
    consumer = Consumer(
        meta, subject, "billing", start="earliest", consumer_id=subject, middleware=[Acknowledging(steps)]
    )
    async with consumer, asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.run(handle))
        await ended.wait()
        await consumer.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
