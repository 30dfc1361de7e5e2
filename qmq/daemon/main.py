"""`python -m <node>`: options -> node -> run."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from qmq.daemon.allocator import keep_freed_memory
from qmq.daemon.loop_pauses import LoopPauses
from qmq.daemon.machine import Machine
from qmq.daemon.node import Node
from qmq.daemon.node_options import NodeOptions
from qmq.daemon.runner import FAILED, run_daemon, set_up_logging
from qmq.errors import SettingError
from qmq.options import exit_wrong, parse_options
from qmq.private_files import restrict_umask

O = TypeVar("O", bound=NodeOptions)  # noqa: E741


def run_node(
    make: Callable[[O, Machine], Node],
    options_class: type[O],
    argv: list[str] | None,
    *,
    prog: str,
    process: str,
    description: str,
) -> int:
    """Run a node until it is told to stop; the exit code."""
    try:
        options = parse_options(
            options_class,
            sys.argv[1:] if argv is None else argv,
            os.environ,
            prog=prog,
            process=process,
            description=description,
        )
    except SettingError as error:
        exit_wrong(prog, error)
    restrict_umask()
    set_up_logging(options.log_level, options.log_format)
    keep_freed_memory()

    async def run(stop: asyncio.Event, loop_pauses: LoopPauses) -> None:
        node = make(options, Machine(loop_pauses=loop_pauses))
        node.supervisor.watch_loop()
        try:
            await node.start()
            loop_pauses.start()
            await node.serve(stop)
        finally:
            await node.close()
        node.failure.check()

    try:
        return run_daemon(run)
    except SettingError as error:
        exit_wrong(prog, error)
    except OSError as error:
        sys.stderr.write(f"{prog}: {error}\n")
        return FAILED
