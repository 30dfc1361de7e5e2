"""The command: an online shop's data and traffic in a running system."""

import asyncio
import contextlib
import signal
import sys
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone

from console.accounts import services
from console.accounts.models import User
from console.accounts.roles import Role
from console.launcher.programs import Ports
from console.management.passwords import hand_out
from console.management.places import add_places
from examples.shop.history import publish_history
from examples.shop.metadata import make_metadata
from examples.shop.run import Options, run
from examples.shop.session import Session
from examples.shop.shop import Shop, read_shop
from examples.shop.workers import Incident
from metaserver.errors import ChangeRefused
from qmq.errors import ConnectionLost, QmqError

USER = "demo"
"""The administrator that the demo acts as."""
REASON = "demo"
RATE = 20.0
RATE_MAX = 2_000.0
SEED = 2_026
PROGRESS_SECONDS = 10.0
"""How often progress is told where it is no terminal."""


def _positive(text: str) -> float:
    with contextlib.suppress(ValueError):
        value = float(text)
        if 0 < value < float("inf"):
            return value
    raise ArgumentTypeError(f"{text!r}: must be a number above 0")


def _rate(text: str) -> float:
    value = _positive(text)
    if value > RATE_MAX:
        raise ArgumentTypeError(f"{text!r}: up to {RATE_MAX:g} messages per second")
    return value


class Command(BaseCommand):
    """Teams, people, subjects, consumer groups, alerts, delayed messages and dead letters of an online shop, and its traffic
    until Ctrl-C. What it creates stays."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_places(parser)
        parser.add_argument("--console", help="the console's URL; default: the one of --port-base")
        parser.add_argument(
            "--once", action="store_true", help="load, wait until consumers have processed everything, and stop"
        )
        parser.add_argument("--seconds", type=_positive, help="how long to send; default: until Ctrl-C")
        parser.add_argument("--rate", type=_rate, default=RATE, help=f"messages per second; default: {RATE:g}")
        parser.add_argument("--seed", type=int, default=SEED, help="seed of the random messages")

        parser.add_argument(
            "--incident", type=_positive, nargs=2, metavar=("AFTER", "SECONDS"),
            help="let parcel.moved/tracking process less than arrives, from AFTER seconds on, for SECONDS",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        """Sign in and run."""
        base = options["port_base"]
        ports = Ports.choose(base)
        meta_url = settings.META_URL if base is None else f"http://127.0.0.1:{ports.meta_http}/meta/address"
        incident = None if options["incident"] is None else Incident(*options["incident"])
        wanted = Options(meta_url, options["rate"], options["seconds"], options["once"], options["seed"], incident)
        try:
            session = Session(options["console"] or f"http://127.0.0.1:{ports.console}")
            self._sign_in(session)
            shop = read_shop()
            report = self._teller()
            for line in make_metadata(session, shop, timezone.now(), self._hand_out):
                report(line)
            report(publish_history(session, shop, seed=wanted.seed))
            asyncio.run(self._run(session, shop, wanted, report))
        except QmqError as error:
            raise CommandError(str(error)) from error

    def _sign_in(self, session: Session) -> None:
        try:
            session.ask("GET", "/healthz")
        except ConnectionLost as error:
            raise CommandError(
                f"{error}; start the system with `make up`, or specify it with --port-base or --console"
            ) from error
        password = _password()
        try:
            session.sign_in(USER, password)
        except QmqError as error:
            raise CommandError(
                f"the console at {session.url} rejected the sign-in of {USER}: {error}. Does it use the data folder"
                f" {settings.DATA_DIR}? Otherwise set --data-dir or QMQ_DATABASE_URL"
            ) from error
        self.stdout.write(f"console {session.url}: sign in as {USER}, password {self._hand_out(USER, password)}")

    def _hand_out(self, name: str, password: str) -> str:
        try:
            return hand_out(name, password, out=sys.stdout, data_dir=settings.DATA_DIR)
        except OSError as error:
            raise CommandError(f"the password of {name} can't be written: {error}") from error

    async def _run(self, session: Session, shop: Shop, wanted: Options, report: Callable[[str], None]) -> None:
        counts: Counter[str] = Counter()
        task = asyncio.create_task(run(session, shop, wanted, timezone.now(), counts, report))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self.stdout.write(f"\nended: {counts['sent']:,} messages sent, {counts['received']:,} received")

    def _teller(self) -> Callable[[str], None]:
        reported_at = float("-inf")

        def report(line: str) -> None:
            nonlocal reported_at
            is_progress = line.startswith("\r")
            if sys.stdout.isatty():
                self.stdout.write(line, ending="" if is_progress else "\n")
            elif not is_progress or monotonic() - reported_at >= PROGRESS_SECONDS:
                reported_at = monotonic() if is_progress else reported_at
                self.stdout.write(line.lstrip("\r"))
            self.stdout.flush()

        return report


def _password() -> str:
    """A new password of the demo's administrator, who is made when missing. Raises CommandError."""
    try:
        if User.objects.filter(username=USER).exists():
            made = services.reset_password(USER, actor=services.UP, reason=REASON)
        else:
            values = {"role": Role.ADMIN.value, "first_name": "Demo"}
            made = services.create_user(USER, values, actor=services.UP, reason=REASON)
    except (DatabaseError, ChangeRefused) as error:
        raise CommandError(
            f"user {USER} can't be created in the database of {settings.DATA_DIR}: {error}; does the system use this folder?"
        ) from error
    assert made.secret is not None
    return made.secret
