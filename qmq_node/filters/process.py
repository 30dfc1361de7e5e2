"""The process that evaluates filters: one for a node, of low priority, slower beside a busy node, started on demand.

A filter evaluated in a thread would take the interpreter from the event loop, and a step that does not end could not be stopped.
The process opens the node's files for reading only. It ends after `IDLE_SECONDS` without a step, and with the node: it reads the
end of its connection then.
"""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any, Protocol, TypeVar

from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import LogError, QmqError
from qmq_node.filters.language import TooCostly
from qmq_node.filters.pace import Pace, cpu_seconds
from qmq_node.log.disk import Disk, File, SystemDisk

WORK_CPU_SECONDS_MAX = 4.0
"""Work that takes more processor time is stopped with the process: the filter is too costly for one of the messages."""
WORK_SECONDS_MAX = 20.0
"""Work that gets no processor time is stopped after so long."""
POLL_SECONDS = 0.25
IDLE_SECONDS = 60.0
"""The process ends when no step was requested for so long; it takes 60 MB."""
NICENESS = 15
"""Beside one that wants a whole core it gets 3 % of that, which is still enough to answer in time."""
_PROGRAM = "from qmq_node.filters.process import serve; import {}; serve({})"


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Work(Protocol[T_co]):
    """A bounded piece of work that can be pickled, and its result too."""

    @property
    def what(self) -> str:
        """Which messages it is about."""

    def run(self, disk: Disk, clock: Clock) -> T_co:
        """Do it. Raises QmqError, OSError."""


class FilterProcess:
    """Does work, one piece at a time; from any thread.

    Args:
        module: what its work needs. It is imported before the process lowers its priority: on a busy machine, the first step
            would take seconds otherwise.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def run(self, work: Work[T]) -> T:
        """Do a piece of work and return its result. Raises LogError, or TooCostly."""
        with self._lock:
            answer = self._ask_again(work) if self._connection is None else self._ask_known(work)
        if isinstance(answer, Exception):
            raise answer
        result: T = answer
        return result

    def _ask_known(self, work: Work[T]) -> Any:
        try:
            return self._ask(work)
        except (EOFError, ConnectionError):
            # Most likely it was idle, and ended a moment ago.
            self._stop()
            return self._ask_again(work)

    def _ask_again(self, work: Work[T]) -> Any:
        try:
            return self._ask(work)
        except (EOFError, OSError) as error:
            self._stop()
            raise LogError(f"the process of filters ended: {error or 'killed'}", code="scan.failed") from error

    def close(self) -> None:
        """End the process, if no step runs; one that runs ends it."""
        with self._lock:
            self._stop()

    def _ask(self, work: Work[T]) -> Any:
        connection = self._connection or self._start()
        process = self._process
        assert process is not None
        until = WORK_CPU_SECONDS_MAX + cpu_seconds(process.pid)
        connection.send(work)
        for _ in range(round(WORK_SECONDS_MAX / POLL_SECONDS)):
            if connection.poll(POLL_SECONDS):
                return connection.recv()
            if cpu_seconds(process.pid) > until:
                self._stop()
                raise TooCostly(
                    f"it took more than {WORK_CPU_SECONDS_MAX:g} s of processor time: the filter is too costly "
                    f"for one of {work.what}. Use fewer loops, or search shorter texts"
                )
        self._stop()
        raise LogError(f"the process of filters got no processor time for {WORK_SECONDS_MAX:g} s", code="scan.failed")

    def _start(self) -> Connection:
        self._connection, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-P", "-c", _PROGRAM.format(self._module, number)]
            environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": os.environ.get("PATH", "")}
            self._process = subprocess.Popen(
                command, pass_fds=[number], stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )
        return self._connection

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None


class _ReadOnlyDisk(SystemDisk):
    def open(self, path: str, *, writable: bool) -> File:
        return super().open(path, writable=False)


def serve(number: int) -> None:
    """Do the steps that come through a connection, until it ends or is idle for IDLE_SECONDS."""
    os.nice(NICENESS)
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
        # Where the kernel shares processors between sessions first, niceness counts within one only.
        file.write(str(NICENESS))
    node = os.getppid()
    Pace(lambda: cpu_seconds(node)).start()
    disk = _ReadOnlyDisk()
    with Connection(number) as connection:
        while connection.poll(IDLE_SECONDS):
            try:
                work = connection.recv()
            except EOFError:
                return
            answer: object
            try:
                answer = work.run(disk, SYSTEM_CLOCK)
            except (QmqError, OSError) as error:
                answer = LogError(str(error), code=getattr(error, "code", "log.unreadable"))
            connection.send(answer)
