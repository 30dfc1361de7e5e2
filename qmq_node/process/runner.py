"""Logging, signals and exit codes of a daemon's process."""

import asyncio
import errno
import json
import logging
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from qmq.errors import QmqError, SettingError
from qmq_node.process.log_writer import LogWriter
from qmq_node.process.loop_pauses import LoopPauses

OUT_OF_RESOURCES_SECONDS = 10.0
"""Minimum interval between log lines about a lack of file descriptors or memory."""
FAILED = 1
"""Exit code after a failure, after which a service manager restarts the process."""
GIL_SWITCH_SECONDS = 0.0002
"""How long a thread that returns from the disk waits for the interpreter; the default of 5 ms is longer than most syncs."""


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up_logging(level: str, form: str) -> None:
    """Log to standard error, one line per record, written in a thread of its own; `form` is plain or json."""
    handler = LogWriter(sys.stderr.fileno())
    if form == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        plain = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s")
        plain.converter = time.gmtime
        handler.setFormatter(plain)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class _LoopErrors:
    """Exception handler of the event loop. A lack of file descriptors is logged at most every OUT_OF_RESOURCES_SECONDS."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an exception that no other code handled."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            if loop.time() - self._logged_at > OUT_OF_RESOURCES_SECONDS:
                self._logged_at = loop.time()
                logging.getLogger("qmq").error("no new connections for now: %s; raise `ulimit -n`", error.strerror)
            return
        logging.getLogger("qmq").error("%s", context.get("message"), exc_info=error)


def run_until_signal(main: Callable[[asyncio.Event, LoopPauses], Awaitable[None]]) -> int:
    """Run `main(stop, loop_pauses)` until it returns; SIGTERM and SIGINT set `stop`, a second one ends at once. The exit code."""
    sys.setswitchinterval(GIL_SWITCH_SECONDS)
    loop_pauses = LoopPauses(time.monotonic)

    async def runner() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_LoopErrors().handle)
        task = asyncio.current_task()
        assert task is not None

        def on_signal() -> None:
            if stop.is_set():
                task.cancel()
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        await main(stop, loop_pauses)

    try:
        with asyncio.Runner(loop_factory=loop_pauses.new_event_loop) as loop_runner:
            loop_runner.run(runner())
    except asyncio.CancelledError:
        return FAILED
    except SettingError:
        raise
    except (OSError, QmqError) as error:
        # Expected, such as a port in use or a full disk: a traceback would add nothing.
        logging.getLogger("qmq").critical("the process ends: %s", error)
        return FAILED
    except Exception as error:
        logging.getLogger("qmq").exception("the process ends: %s: %s", type(error).__name__, error)
        return FAILED
    return 0
