"""`manage.py qmq_consume`: run the consumers of a project."""

import importlib
import signal
import types
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import autoreload

import qmq
from qmq import sync
from qmq.errors import LocalProtocolError
from qmq.integrations.django.worker import AnyApp, Worker

DEFAULT_MODULE = "consumers"
RELOAD_STOP_SECONDS = 10.0
"""How long a reload waits for running handlers; the messages of those that take longer are delivered again."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Command(BaseCommand):
    """The command."""

    help = (
        "Runs the consumers of qmq.App and qmq.sync.App objects until SIGINT or SIGTERM. Then running handlers finish, and"
        " their acknowledgements are sent. A second signal ends the process at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "modules", nargs="*", metavar="MODULE",
            help=f"modules with App objects, such as shop.consumers; default: module {DEFAULT_MODULE!r} of each installed app",
        )  # fmt: skip
        parser.add_argument("--app", metavar="NAME", help="run only App objects of this name in the modules")
        parser.add_argument(
            "--concurrency", type=int, metavar="N",
            help="handlers of each consumer that run at the same time; default: as in the code",
        )  # fmt: skip
        parser.add_argument(
            "--reload", action=BooleanOptionalAction, default=None,
            help="restart when code changes, for development; default: settings.DEBUG",
        )  # fmt: skip

    def handle(self, *_: object, **options: Any) -> None:
        """Run."""
        is_reloading = settings.DEBUG if options["reload"] is None else options["reload"]
        if not is_reloading:
            self._run_until_signal(self._worker(options))
            return
        # In the process that the reloader starts, the worker runs in a thread: the reloader watches files in the main thread.
        workers: list[Worker] = []

        def work() -> None:
            try:
                workers.append(self._worker(options))
            except CommandError as error:
                self.stderr.write(f"{error}; waiting for a change of the code")
            else:
                workers[0].run()

        try:
            autoreload.run_with_reloader(work)
        finally:
            for worker in workers:
                self.stderr.write("stopping: running handlers finish")
                worker.stop()
                if not worker.wait_ended(RELOAD_STOP_SECONDS):
                    self.stderr.write(
                        f"handlers still run after {RELOAD_STOP_SECONDS:g} s; their messages are delivered again"
                    )

    def _run_until_signal(self, worker: Worker) -> None:
        def on_signal(number: int, frame: types.FrameType | None) -> None:
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            self.stderr.write("stopping: running handlers finish; a second signal ends the process at once")
            worker.stop()

        before = {number: signal.signal(number, on_signal) for number in SIGNALS}
        try:
            worker.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _worker(self, options: dict[str, Any]) -> Worker:
        names = options["modules"] or list(default_modules())
        if not names:
            raise CommandError(f"no installed app has a module {DEFAULT_MODULE!r}; name the modules to run")
        chosen: dict[str, AnyApp] = {}
        for name in names:
            chosen |= self._apps_of(name, options["app"])
        if not chosen:
            which = f"named {options['app']!r} " if options["app"] else ""
            raise CommandError(f"no qmq.App or qmq.sync.App object {which}in {', '.join(names)}")
        unique = list({id(app): app for app in chosen.values()}.values())
        try:
            worker = Worker(unique, concurrency=options["concurrency"])
        except LocalProtocolError as error:
            raise CommandError(f"--concurrency: {error}") from error
        self.stdout.write(f"consuming with {', '.join(chosen)}; Ctrl-C stops")
        self.stdout.flush()
        return worker

    def _apps_of(self, name: str, wanted: str | None) -> dict[str, AnyApp]:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise CommandError(f"no module {name!r}: {error}") from error
        return {
            f"{name}.{key}": value
            for key, value in vars(module).items()
            if isinstance(value, (qmq.App, sync.App)) and wanted in (None, key)
        }


def default_modules() -> Iterator[str]:
    """The modules of installed apps that hold App objects by convention."""
    for config in apps.get_app_configs():
        name = f"{config.name}.{DEFAULT_MODULE}"
        if find_spec(name) is not None:
            yield name
