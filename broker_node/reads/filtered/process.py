"""The process that does the steps of searches: one for a node, of the lowest priority, started when it is needed.

A filter evaluated in a thread would take the interpreter from the event loop, and a step that does not end could not be stopped.
The process opens the node's files for reading only. It ends after `IDLE_SECONDS` without a step, and with the node: it reads the
end of its connection then.
"""

import os
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, Pipe

from broker_node.reads.filtered.step import Job, Result, run_step
from qmq.clock import SYSTEM_CLOCK
from qmq.errors import LogError, QmqError
from qmq_node.filters import TooCostly
from qmq_node.log.disk import File, SystemDisk

STEP_CPU_SECONDS_MAX = 4.0
"""A step that takes more processor time is stopped with its process: the filter is too costly for one of the messages."""
STEP_SECONDS_MAX = 20.0
"""So long a step is waited for that gets no processor time."""
POLL_SECONDS = 0.25
IDLE_SECONDS = 60.0
"""The process ends when no step was requested for so long; it takes 60 MB."""
NICENESS = 19
_PROGRAM = "from broker_node.reads.filtered.process import serve; serve({})"


class ScanProcess:
    """Does steps one at a time; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def run(self, job: Job) -> Result:
        """Do a step. Raises LogError, or TooCostly."""
        with self._lock:
            is_new = self._connection is None
            try:
                answer = self._ask(job)
            except (EOFError, OSError) as error:
                self._stop()
                if is_new:
                    raise LogError(f"the process of searches ended: {error or 'killed'}", code="scan.failed") from error
                # Most likely it was idle, and ended a moment ago.
                try:
                    answer = self._ask(job)
                except (EOFError, OSError) as again:
                    self._stop()
                    raise LogError(f"the process of searches ended: {again or 'killed'}", code="scan.failed") from again
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Result)
        return answer

    def close(self) -> None:
        """End the process, if no step runs; one that runs ends it."""
        with self._lock:
            self._stop()

    def _ask(self, job: Job) -> object:
        connection = self._connection or self._start()
        process = self._process
        assert process is not None
        until = STEP_CPU_SECONDS_MAX + _cpu_seconds(process.pid)
        connection.send(job)
        for _ in range(round(STEP_SECONDS_MAX / POLL_SECONDS)):
            if connection.poll(POLL_SECONDS):
                return connection.recv()
            if _cpu_seconds(process.pid) > until:
                self._stop()
                raise TooCostly(
                    f"a step of the search took more than {STEP_CPU_SECONDS_MAX:g} s of processor time: the filter is too costly "
                    f"for a message of sequences {job.begin} to {job.end - 1}. Use fewer loops, or search shorter texts"
                )
        raise TimeoutError(f"no processor time within {STEP_SECONDS_MAX:g} s")

    def _start(self) -> Connection:
        self._connection, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-P", "-c", _PROGRAM.format(number)]
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


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _ReadOnlyDisk(SystemDisk):
    def open(self, path: str, *, writable: bool) -> File:
        return super().open(path, writable=False)


def serve(number: int) -> None:
    """Do the steps that come through a connection, until it ends or is idle for IDLE_SECONDS."""
    os.nice(NICENESS)
    disk = _ReadOnlyDisk()
    with Connection(number) as connection:
        while connection.poll(IDLE_SECONDS):
            try:
                job = connection.recv()
            except EOFError:
                return
            answer: Result | Exception
            try:
                answer = run_step(disk, SYSTEM_CLOCK, job)
            except (QmqError, OSError) as error:
                answer = LogError(str(error), code=getattr(error, "code", "log.unreadable"))
            connection.send(answer)
