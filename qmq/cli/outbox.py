"""`qmq outbox`: the tables of the outbox, its relay, and what waits in it."""

import argparse
import os
import signal
import socket
import types
from functools import partial
from typing import Any

from qmq.cli import values
from qmq.cli.output import say, say_json, warn
from qmq.errors import DatabaseFailed
from qmq.outbox.counts import counts_of
from qmq.outbox.databases import Address, Connection, Kind, connect
from qmq.outbox.dialects import PENDING_COUNTED_MAX, TABLE, Statements, TableName, ddl
from qmq.outbox.relay import GRACE_SECONDS, PASS_SECONDS, Pass, Relay
from qmq.outbox.relaying import Relaying
from qmq.sync import Producer
from qmq.words import counted, printable

PASSWORD_VARIABLE = "QMQ_DATABASE_PASSWORD"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    outbox = commands.add_parser("outbox", help="messages in transactions: tables, relay, what waits")
    kinds = outbox.add_subparsers(dest="kind", required=True)
    table = argparse.ArgumentParser(add_help=False)
    table.add_argument(
        "--table", default=TABLE, help=f"table of the outbox, with its schema if needed; default: {TABLE}"
    )
    database = argparse.ArgumentParser(add_help=False)
    database.add_argument(
        "--database",
        required=True,
        metavar="URL",
        help="postgresql://user@host:port/name, mysql://user@host:port/name or sqlite:////path, with ?tls=encrypt or ?tls=verify"
        f" for TLS; the password is in {PASSWORD_VARIABLE}",
    )

    command = kinds.add_parser("ddl", parents=[table], help="print the SQL that makes the tables")
    command.add_argument(
        "database_kind", choices=[str(kind) for kind in Kind], help="kind of the database; mysql is also MariaDB"
    )
    command.set_defaults(run=_ddl)

    command = kinds.add_parser(
        "status", parents=[database, table], help="show what waits in the outbox, and which relay serves it"
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_status)

    command = kinds.add_parser(
        "relay",
        parents=[shared, database, table],
        help="send what programs have left in the outbox",
        description="Sends the messages that programs have left in the outbox, because they ended or no broker was available,"
        " until SIGTERM or Ctrl-C. Several relays of one table take turns.",
    )
    command.add_argument(
        "--grace", type=values.seconds, default=GRACE_SECONDS, metavar="SECONDS",
        help=f"age from which rows are sent: younger ones are still sent by their program; default: {GRACE_SECONDS:g}",
    )  # fmt: skip
    command.add_argument("--rate", type=values.rate, metavar="ROWS", help="most rows per second; default: no limit")
    command.add_argument(
        "--age-max-hours", type=values.rate, metavar="HOURS",
        help="older rows that can't be sent are left to an operator (status -2); default: they are tried indefinitely",
    )  # fmt: skip
    command.add_argument("--once", action="store_true", help=f"end after one pass, of at most {PASS_SECONDS:g} s")
    command.set_defaults(run=_relay)


def _ddl(arguments: argparse.Namespace) -> int:
    for line in ddl(Kind(arguments.database_kind), arguments.table).splitlines():
        say(line)
    return 0


def _connect(arguments: argparse.Namespace) -> Connection:
    return connect(Address.parse(arguments.database, os.environ.get(PASSWORD_VARIABLE, "")))


def _status(arguments: argparse.Namespace) -> int:
    connection = _connect(arguments)
    try:
        found = counts_of(connection, Statements(connection.kind, arguments.table))
    finally:
        connection.close()
    oldest_seconds = found.oldest_ms / 1000 if found.oldest_ms is not None else None
    if arguments.json:
        say_json(
            {"pending": found.pending, "oldest_seconds": oldest_seconds, "failed": found.failed, "relay": found.leader}
        )
        return 0
    say(
        f"pending  {_count(found.pending)}"
        + (f", the oldest for {oldest_seconds:.0f} s" if oldest_seconds is not None else "")
    )
    say(f"failed   {_count(found.failed)}" + (", for an operator" if found.failed else ""))
    say(f"relay    {found.leader or 'none'}")
    return 0


def _count(number: int) -> str:
    return f"more than {PENDING_COUNTED_MAX}" if number > PENDING_COUNTED_MAX else str(number)


def _relay(arguments: argparse.Namespace) -> int:
    TableName.parse(arguments.table)
    address = Address.parse(arguments.database, os.environ.get(PASSWORD_VARIABLE, ""))
    with Producer(arguments.meta, app="qmq-outbox") as producer:
        relay = Relay(
            partial(connect, address),
            producer,
            table=arguments.table,
            label=f"{socket.gethostname()}:{os.getpid()}",
            grace_seconds=arguments.grace,
            rows_per_second=arguments.rate,
            age_hours_max=arguments.age_max_hours,
        )
        relaying = Relaying({str(address): relay}, _Report(as_json=arguments.json))
        if arguments.once:
            try:
                _Report(as_json=arguments.json)(str(address), relay.run_pass())
            finally:
                relay.close()
            return 0

        def on_signal(number: int, frame: types.FrameType | None) -> None:
            relaying.stop()

        for number in SIGNALS:
            signal.signal(number, on_signal)
        warn(f"relaying {arguments.table} of {printable(str(address))}; Ctrl-C stops")
        relaying.run()
    return 0


class _Report:
    """Prints what passes have done, if there is something new."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._last: object = None

    def __call__(self, database: str, done: Pass | DatabaseFailed) -> None:
        if self._as_json:
            say_json(_described(done))
            return
        what: object
        if isinstance(done, DatabaseFailed):
            what = text = str(done)
        elif not done.is_leader:
            what = text = "another relay serves this table"
        else:
            what = sorted(done.problems)  # their texts name a message, which is another one each time
            text = ", ".join(f"{subject}: {problem}" for subject, problem in sorted(done.problems.items()))
            if done.sent or done.failed or done.ended:
                say(
                    f"{counted(done.sent, 'message')} sent, {done.failed} to be tried again, {done.ended} for an operator, "
                    f"{done.left} of unavailable subjects"
                )
        if text and what != self._last:
            warn(text)
        self._last = what


def _described(done: Pass | DatabaseFailed) -> dict[str, Any]:
    if isinstance(done, DatabaseFailed):
        return {"error": str(done), "code": done.code}
    return {
        "is_leader": done.is_leader, "sent": done.sent, "failed": done.failed, "ended": done.ended, "left": done.left,
        "problems": done.problems,
    }  # fmt: skip
