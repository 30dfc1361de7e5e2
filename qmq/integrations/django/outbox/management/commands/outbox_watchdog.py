"""`manage.py outbox_watchdog`: send what the project's programs have left in their outboxes."""

import math
import os
import signal
import socket
import types
from argparse import ArgumentParser, ArgumentTypeError
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from qmq.errors import DatabaseFailed
from qmq.integrations.django.outbox.databases import open_connection
from qmq.integrations.django.outbox.tables import is_wanted, kind_of, table
from qmq.integrations.django.sending import metaserver_url
from qmq.outbox.databases import Connection
from qmq.outbox.relay import GRACE_SECONDS, PASS_SECONDS, Pass, Relay
from qmq.outbox.relaying import Relaying
from qmq.sync import Producer
from qmq.words import counted, nearest, printable

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Command(BaseCommand):
    """The command."""

    help = (
        "Sends the messages that the project's programs have left in their databases, because they ended or no broker was"
        " available, until SIGINT or SIGTERM. Then the rows that are being sent are finished. Several of these processes, and other"
        " relays, take turns."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "--database", action="append", metavar="ALIAS",
            help="serve this database; may be repeated; default: all in which the project's routers allow the table",
        )  # fmt: skip
        parser.add_argument(
            "--once", action="store_true", help=f"end after one pass, of at most {PASS_SECONDS:g} s each"
        )
        parser.add_argument(
            "--grace", type=_number, default=GRACE_SECONDS, metavar="SECONDS",
            help=f"age from which rows are sent: younger ones are still sent by their program; default: {GRACE_SECONDS:g}",
        )  # fmt: skip
        parser.add_argument("--rate", type=_positive, metavar="ROWS", help="most rows per second; default: no limit")
        parser.add_argument(
            "--age-max-hours", type=_positive, metavar="HOURS",
            help="older rows that can't be sent are left to an operator (status -2); default: they are tried indefinitely",
        )  # fmt: skip

    def handle(self, *_: object, **options: Any) -> None:
        """Run."""
        aliases = self._aliases(options["database"])
        self._shown: dict[str, str] = {}
        with Producer(metaserver_url(), app="qmq-outbox") as producer:
            relays = {
                alias: Relay(
                    partial(_connect, alias),
                    producer,
                    table=table(),
                    label=f"{socket.gethostname()}:{os.getpid()}",
                    grace_seconds=options["grace"],
                    rows_per_second=options["rate"],
                    age_hours_max=options["age_max_hours"],
                )
                for alias in aliases
            }
            if options["once"]:
                self._run_once(relays)
            else:
                self._run_until_signal(Relaying(relays, self._report), aliases)

    def _aliases(self, wanted: list[str] | None) -> list[str]:
        aliases = list(dict.fromkeys(wanted)) if wanted else [alias for alias in connections if is_wanted(alias)]
        for alias in aliases:
            if alias not in connections.settings:
                raise CommandError(
                    f"--database {alias}: no database has this alias: {nearest(alias, list(connections))}"
                )
            kind_of(connections[alias])
        if not aliases:
            raise CommandError("the project's routers allow the outbox in none of its databases")
        return aliases

    def _run_once(self, relays: dict[str, Relay]) -> None:
        failed = []
        for alias, relay in relays.items():
            try:
                self._report(alias, relay.run_pass())
            except DatabaseFailed as error:
                failed.append(f"{alias}: {error}")
            finally:
                relay.close()
        if failed:
            raise CommandError("; ".join(failed))

    def _run_until_signal(self, relaying: Relaying, aliases: list[str]) -> None:
        def on_signal(number: int, frame: types.FrameType | None) -> None:
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            relaying.stop()
            self.stderr.write(
                "stopping: rows that are being sent are finished; a second signal ends the process at once"
            )

        before = {number: signal.signal(number, on_signal) for number in SIGNALS}
        try:
            self.stdout.write(f"relaying {table()} of {', '.join(aliases)}; Ctrl-C stops")
            self.stdout.flush()
            relaying.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _report(self, alias: str, done: Pass | DatabaseFailed) -> None:
        """Print what a pass has done, and a problem when it is new. Called in the threads of the relays."""
        if isinstance(done, DatabaseFailed):
            problem = str(done)
        elif not done.is_leader:
            problem = "another relay serves this table"
        else:
            problem = ", ".join(f"{subject}: {why}" for subject, why in sorted(done.problems.items()))
            if done.sent or done.failed or done.ended:
                self.stdout.write(
                    f"{alias}: {counted(done.sent, 'message')} sent, {done.failed} to be tried again, {done.ended} for an"
                    f" operator, {done.left} of unavailable subjects"
                )
                self.stdout.flush()
        if problem and problem != self._shown.get(alias):
            self.stderr.write(printable(f"{alias}: {problem}"))
        self._shown[alias] = problem


def _connect(alias: str) -> Connection:
    return Connection(open_connection(alias))


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise ArgumentTypeError(f"{text!r}: must be a number, 0 or more")
    return found


def _positive(text: str) -> float:
    found = _number(text)
    if not found:
        raise ArgumentTypeError(f"{text!r}: must be more than 0")
    return found
