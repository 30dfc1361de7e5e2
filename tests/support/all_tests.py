"""Lint and all tests, as `make test` does: several commands at a time, as most tests wait for processes more than they compute.

The first command is shown as it goes, of the others the output when they end; a failure of one hides nothing of the others. With
arguments (for pytest) the tests are what these choose, on SQLite and on each database server.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

Command = list[str]
AT_ONCE = 3
"""Commands at a time, on two cores."""
# pytest remembers what failed in a file of the folder: one command at a time may.
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
LINT = ["make", "--no-print-directory", "lint"]
FRONTEND = [sys.executable, "-m", "tools.frontend", "run", "test"]
ON_DATABASE = [sys.executable, "-m", "tests.support.with_database"]
POLITELY = ["nice", "-n", "5"]
"""For what computes: tests beside it wait for processes, and these come first."""
INTERRUPTED = 2
"""pytest's exit code after Ctrl-C."""

STORIES = ("tests/e2e",)
SPARK = ("tests/integration/spark",)
SYSTEMS = ("tests/integration/control",)
PROCESSES = ("tests/conformance", "tests/docs", "tests/integration/cli", "tests/integration/live")
NODES = ("tests/fault", "tests/integration/broker", "tests/integration/client", "tests/integration/delay")
"""These and those above start processes of their own, and wait for them."""


def commands(arguments: Sequence[str] = ()) -> list[Command]:
    """What has to pass, in the order of starting: what takes long first, so that none is left alone at the end."""
    if arguments:
        databases = [*ON_DATABASE, "--may-be-empty", "--", *PYTEST, *arguments, "-m", "database"]
        return [[sys.executable, "-m", "pytest", *arguments], databases, LINT]
    apart = (*STORIES, *SPARK, *SYSTEMS, *PROCESSES, *NODES)
    return [
        [*PYTEST, *SYSTEMS],
        [*PYTEST, *STORIES],
        [*POLITELY, *PYTEST, *SPARK],
        [*PYTEST, *PROCESSES],
        [*PYTEST, *NODES],
        [*PYTEST, *(f"--ignore={folder}" for folder in apart)],
        [*ON_DATABASE, "--", *PYTEST, "-m", "database and not database_in_whole_runs"],
        [*POLITELY, *LINT],
        [*POLITELY, *FRONTEND],
    ]


@dataclass(slots=True)
class Running:
    """A command that runs in a session of its own, and what it says; None: that is shown as it goes."""

    command: Command
    process: "subprocess.Popen[bytes]"
    output: IO[bytes] | None
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, command: Command, *, is_shown: bool) -> "Running":
        """Start it."""
        output = None if is_shown else tempfile.TemporaryFile()  # noqa: SIM115 -- closed by `show`
        errors = None if is_shown else subprocess.STDOUT
        process = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True)
        return cls(command, process, output)

    def end(self) -> str:
        """Wait for it; its time and what it and its processes computed, but for processes that nobody waited for, as a line."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code = self.process.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        took = time.monotonic() - self.began
        return f"== {'passed' if code == 0 else 'FAILED'} in {took:.0f} s, computed {computed:.0f} s: {self}"

    def interrupt(self) -> None:
        """As by Ctrl-C: pytest and whoever it started clean up."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)

    def show(self) -> None:
        """Show what it said."""
        if self.output is not None:
            self.output.seek(0)
            sys.stdout.flush()
            shutil.copyfileobj(self.output, sys.stdout.buffer)
            sys.stdout.flush()
            self.output.close()

    def __str__(self) -> str:
        return " ".join("python" if word == sys.executable else word for word in self.command)


def run(commands: Sequence[Command], at_once: int = AT_ONCE) -> int:
    """Run them; the exit code of one that failed, or 0."""
    waiting = deque(commands)
    running: list[Running] = []
    untold: list[Running] = []
    """They have ended while the first was still shown as it goes."""
    codes = []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(Running.start(waiting.popleft(), is_shown=len(waiting) == len(commands) - 1))
            # Tells of one that has ended, and leaves it to be waited for.
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            one = next(found for found in running if child is not None and found.process.pid == child.si_pid)
            print(one.end(), flush=True)
            codes.append(one.process.returncode)
            running.remove(one)
            untold.append(one)
            if all(found.output is not None for found in running):
                for one in untold:
                    one.show()
                untold.clear()
    except KeyboardInterrupt:
        for one in running:
            one.interrupt()
        for one in [*untold, *running]:
            one.process.wait()
            one.show()
        return INTERRUPTED
    return next(filter(None, codes), 0)


if __name__ == "__main__":
    sys.exit(run(commands(sys.argv[1:])))
