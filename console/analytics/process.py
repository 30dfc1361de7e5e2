"""Analytics jobs as a process of their own: the console never imports Spark, and a job that runs out of memory takes nothing with
it."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.conf import settings

from console import child_processes
from console.child_processes import tied_to_parent

MODULE = "spark_analytics.jobs"
EXIT_UNAVAILABLE = 3
EXIT_BUSY = 4
"""As spark_analytics.jobs.__main__ says them."""
STOP_GRACE_SECONDS = 20.0
STOPPING_GRACE_SECONDS = 10.0
"""Time for a running process when its worker is stopped: less than the worker itself has, which is 15 s with `manage.py up`."""
LOOK_SECONDS = 0.5
LAST_LINES = 100
LAST_BYTES = 16 << 10
NICENESS = 10
"""Brokers and consumers on the same machine come first."""
AUTOGROUP = Path("/proc/self/autogroup")
"""The niceness of our session, where the kernel has such."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code (None: it was stopped because its time was over) and its last lines."""

    code: int | None
    output: tuple[str, ...]
    errors: tuple[str, ...]
    was_stopped: bool = False
    """`stop` has ended it."""


_running: "set[subprocess.Popen[bytes]]" = set()
_is_stopping = threading.Event()


def command(arguments: Sequence[str]) -> list[str]:
    """The process's command line."""
    return [sys.executable, "-m", MODULE, *arguments]


def environment() -> dict[str, str]:
    """Its environment: ours, and where the code is, whatever folder we are in; Spark's workers need it as well."""
    path = [str(settings.BASE_DIR), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def run(arguments: Sequence[str], *, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> Ended:
    """Run it with low priority and wait, at most so long. It ends with us, however we end; so does its Java, which ends with it.

    `meanwhile` is called every LOOK_SECONDS.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command(arguments),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
            preexec_fn=tied_to_parent(also=_lower_priority),
        )
        _running.add(process)
        if _is_stopping.is_set():  # `stop` ran before it was in `_running`
            process.terminate()
        try:
            code = _wait(process, seconds, meanwhile)
        finally:
            _running.discard(process)
            child_processes.stop(process, 0.0 if _is_stopping.is_set() else STOP_GRACE_SECONDS)
        return Ended(code, _last_lines(out), _last_lines(errors), was_stopped=_is_stopping.is_set() and code != 0)


def stop() -> None:
    """Stop the running and all future child processes, because this process ends. Does not wait; for signal handlers."""
    _is_stopping.set()
    for process in tuple(_running):
        process.terminate()


def memory_available_bytes(path: Path = Path("/proc/meminfo")) -> int | None:
    """Return the memory that is available without swapping; None: the system does not report it."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def _lower_priority() -> None:
    os.nice(NICENESS)
    # Where the kernel shares the cores between sessions first, a process's niceness counts inside of its own session only.
    with contextlib.suppress(OSError):
        AUTOGROUP.write_text(str(NICENESS))


def _wait(process: "subprocess.Popen[bytes]", seconds: float, meanwhile: Callable[[], None]) -> int | None:
    """Return the exit code; None when the process did not end in time, which is short once this process is stopping."""
    deadline, was_stopped = time.monotonic() + seconds, False
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, LOOK_SECONDS))
        meanwhile()
        if _is_stopping.is_set() and not was_stopped:
            deadline, was_stopped = min(deadline, time.monotonic() + STOPPING_GRACE_SECONDS), True
    return None


def _last_lines(file: IO[bytes]) -> tuple[str, ...]:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LAST_BYTES))
    lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    return tuple(line for line in lines if line)[-LAST_LINES:]
