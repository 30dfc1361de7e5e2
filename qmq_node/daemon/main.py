"""The main function of a daemon: read the settings, construct it, run it until a signal or its first failure."""

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from qmq.errors import SettingError
from qmq.options import exit_wrong, parse_options
from qmq.private_files import restrict_umask
from qmq_node.daemon.daemon import Daemon
from qmq_node.daemon.options import DaemonOptions
from qmq_node.process.life import LifeEnded
from qmq_node.process.machine import Machine
from qmq_node.process.memory import keep_freed_memory, limit_collections
from qmq_node.process.runner import FAILED, run_until_signal, set_up_logging

O = TypeVar("O", bound=DaemonOptions)  # noqa: E741


def run_daemon(
    make: Callable[[O, Machine], Daemon],
    options_class: type[O],
    argv: list[str] | None,
    *,
    prog: str,
    process: str,
    description: str,
    prepare: Callable[[O], None] = lambda options: None,
) -> int:
    """Run a daemon until a signal stops it, or its first failure; the exit code.

    Args:
        prepare: called before `make`, without an event loop; may raise SettingError or OSError.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        options = parse_options(
            options_class, arguments, os.environ, prog=prog, process=process, description=description
        )  # fmt: skip
        restrict_umask()
        set_up_logging(options.log_level, options.log_format)
        keep_freed_memory()
        prepare(options)
        return run_until_signal(
            lambda stop, loop_pauses: _run(partial(make, options, Machine(loop_pauses=loop_pauses)), stop)
        )
    except SettingError as error:
        exit_wrong(prog, error)
    except OSError as error:
        sys.stderr.write(f"{prog}: {error}\n")
        return FAILED


async def _run(make: Callable[[], Daemon], stop: asyncio.Event) -> None:
    """Run daemons until `stop`: one, and a further one after each that ended because its part in its broker group did."""
    while not stop.is_set():
        daemon = make()
        try:
            await _run_one(daemon, stop)
        except LifeEnded as ended:
            if stop.is_set():
                return
            daemon.logger.warning("%s starts again: %s", daemon.title, ended)


async def _run_one(daemon: Daemon, stop: asyncio.Event) -> None:
    daemon.supervisor.watch_loop()
    limit_collections(daemon.supervisor, daemon.clock)
    try:
        await daemon.start()
        daemon.machine.loop_pauses.start()
        await daemon.serve(stop)
    finally:
        await daemon.close()
    daemon.failure.check()
