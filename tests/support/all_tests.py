"""Lint and all tests, as `make test` does: several rows at a time, as most tests wait for processes more than they compute.

The first row is shown as it runs, the output of the others when they end; a failure of one hides nothing of the others. At the end
comes a table of the rows with their totals. With arguments (for pytest) the tests are what these choose, on SQLite and on each
database server.

A test that fails is rerun alone after all rows, in the same way and on the same database. If it passes, it is flaky: it is reported
with both logs, and fails the run only if there are more than FLAKY_MAX such tests. Never rerun are unit tests, broken promises
(`PromiseBroken`) and errors outside of tests. When more than RERUNS_MAX tests failed, none is rerun.
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
from pathlib import Path
from typing import IO

from tests.support import results
from tests.support.machine import MachineWatch
from tests.support.results import Failure, Results
from tests.support.services import DATABASES, named_databases

Command = list[str]
AT_ONCE = 3
"""Rows at a time, on two cores."""
FLAKY_MAX = 2
"""Flaky tests that a run may have."""
RERUNS_MAX = 5
"""Tests that are rerun. When more fail, something is broken, and reruns would only take time."""
RESULTS = Path("build/test-results")
"""A JUnit file for each row, by its name; of the latest run."""
# pytest remembers what failed in a file of the folder: one command at a time may.
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
LINT = ("make", "--no-print-directory", "lint")
FRONTEND = (sys.executable, "-m", "tools.frontend", "run", "test")
ON_DATABASE = (sys.executable, "-m", "tests.support.with_database")
POLITELY = ("nice", "-n", "5")
"""For what computes: tests beside it wait for processes, and these come first."""
TESTS_FAILED, INTERRUPTED = 1, 2
"""pytest's exit codes: some tests failed; Ctrl-C."""

STORIES = ("tests/e2e",)
SPARK = ("tests/integration/spark",)
SYSTEMS = ("tests/integration/control",)
PROCESSES = ("tests/conformance", "tests/docs", "tests/integration/cli", "tests/integration/live")
NODES = ("tests/fault", "tests/integration/broker", "tests/integration/client", "tests/integration/delay")
"""These and those above start processes of their own, and wait for them."""


@dataclass(frozen=True, slots=True)
class Row:
    """A command that has to pass: a program, or a pytest (`is_pytest`) with what selects its tests."""

    name: str
    program: tuple[str, ...]
    selection: tuple[str, ...] = ()
    is_pytest: bool = True

    def command(self, junit: Path) -> Command:
        """Return the command; a pytest writes its results to this file."""
        return self._with(self.selection, junit)

    def rerun(self, test: str, junit: Path) -> Command:
        """Return the command that runs one test of the row alone, in the same way."""
        return self._with((test,), junit)

    def _with(self, selection: Sequence[str], junit: Path) -> Command:
        # The arguments of ours come last: they win over those of `make test ARGS=...`.
        return [*self.program, *selection, *(results.arguments(junit) if self.is_pytest else ())]


def rows(arguments: Sequence[str] = ()) -> list[Row]:
    """Return what has to pass, in the order of starting: the longest first, so that none is left alone at the end."""
    lint = Row("lint", (*POLITELY, *LINT), is_pytest=False)
    if arguments:
        chosen = Row("chosen", (sys.executable, "-m", "pytest"), tuple(arguments))
        return [chosen, *_on_databases((*arguments, "-m", "database"), "--may-be-empty"), lint]
    apart = (*STORIES, *SPARK, *SYSTEMS, *PROCESSES, *NODES)
    return [
        Row("systems", PYTEST, SYSTEMS),
        Row("stories", PYTEST, STORIES),
        Row("spark", (*POLITELY, *PYTEST), SPARK),
        Row("processes", PYTEST, PROCESSES),
        Row("nodes", PYTEST, NODES),
        Row("rest", PYTEST, tuple(f"--ignore={folder}" for folder in apart)),
        *_on_databases(("-m", "database")),
        lint,
        Row("vitest", (*POLITELY, *FRONTEND), is_pytest=False),
    ]


def _on_databases(selection: tuple[str, ...], *options: str) -> list[Row]:
    """A row for each database server: those that have to be there, else those that are installed."""
    named = named_databases()
    options = options if named else (*options, "--may-be-missing")
    return [
        Row(name, (*ON_DATABASE, name, *options, "--", *PYTEST), selection)
        for name in (named or DATABASES)
        if name != "sqlite"
    ]


@dataclass(slots=True)
class Running:
    """A command in a session of its own, with its output; None: the output is shown as it comes."""

    name: str
    command: Command
    process: "subprocess.Popen[bytes]"
    output: IO[bytes] | None
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @classmethod
    def start(cls, name: str, command: Command, *, is_shown: bool) -> "Running":
        """Start it."""
        output = None if is_shown else tempfile.TemporaryFile()  # noqa: SIM115 -- closed by `show`
        errors = None if is_shown else subprocess.STDOUT
        process = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True)
        return cls(name, command, process, output)

    def wait(self) -> int:
        """Wait for its end; its exit code."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code = self.process.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Without processes that its own processes did not wait for.
        self.cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.seconds = time.monotonic() - self.began
        return code

    def interrupt(self) -> None:
        """As by Ctrl-C: pytest and the processes it started clean up."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)

    def show(self) -> None:
        """Print its output."""
        if self.output is not None:
            self.output.seek(0)
            sys.stdout.flush()
            shutil.copyfileobj(self.output, sys.stdout.buffer)
            sys.stdout.flush()
            self.output.close()

    def __str__(self) -> str:
        took = f"in {self.seconds:.0f} s, CPU {self.cpu_seconds:.0f} s"
        command = " ".join("python" if word == sys.executable else word for word in self.command)
        return f"{'passed' if self.process.returncode == 0 else 'FAILED'} {took}: {self.name}: {command}"


class AllTests:
    """One run of rows and of the reruns after them."""

    def __init__(self, chosen: Sequence[Row], folder: Path, at_once: int = AT_ONCE) -> None:
        self._rows = {row.name: row for row in chosen}
        self._folder = folder
        self._at_once = at_once
        self._running: list[Running] = []
        self._unshown: list[Running] = []
        """They have ended while the first was still shown as it runs."""
        self._ended: list[Running] = []
        self._watch = MachineWatch(folder)

    def run(self) -> int:
        """Run everything and report; the exit code: 0, or that of a row that failed."""
        try:
            with self._watch:
                self._run_rows()
                code = self._judge()
        except KeyboardInterrupt:
            for one in self._running:
                one.interrupt()
            for one in [*self._unshown, *self._running]:
                one.process.wait()
                one.show()
            return INTERRUPTED
        self._report()
        return code

    def _run_rows(self) -> None:
        waiting = deque(self._rows.values())
        while waiting or self._running:
            while waiting and len(self._running) < self._at_once:
                is_first = len(waiting) == len(self._rows)
                row = waiting.popleft()
                self._running.append(Running.start(row.name, row.command(self._junit(row.name)), is_shown=is_first))
            # Reports one that has ended, and leaves it to be waited for.
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            one = next(found for found in self._running if child is not None and found.process.pid == child.si_pid)
            one.wait()
            print(f"== {one}", flush=True)
            self._running.remove(one)
            self._ended.append(one)
            self._unshown.append(one)
            if all(found.output is not None for found in self._running):
                while self._unshown:
                    self._unshown.pop(0).show()

    def _junit(self, name: str) -> Path:
        return self._folder / f"{name}.xml"

    def _results(self, name: str) -> Results | None:
        return results.read(self._junit(name))

    def _judge(self) -> int:
        """Rerun what may be rerun; the exit code."""
        codes: list[int] = []
        """Of rows that failed for good."""
        candidates: list[tuple[Running, Failure]] = []
        for one in self._ended:
            code = one.process.returncode
            if code == 0:
                continue
            found = self._results(one.name)
            if code != TESTS_FAILED or found is None or not found.failures:
                print(f"== {one.name}: failed with exit code {code}, not by tests alone: nothing of it is rerun")
                codes.append(code)
                continue
            for failure in found.failures:
                if failure.why_final:
                    print(
                        f"== {one.name}: not rerun, {failure.why_final}: {failure.test or failure.text.splitlines()[0]}"
                    )
                    codes.append(code)
                else:
                    candidates.append((one, failure))
        if len(candidates) > RERUNS_MAX:
            print(f"== {len(candidates)} tests failed; none is rerun: {RERUNS_MAX} are at most")
            return candidates[0][0].process.returncode
        flaky = 0
        for number, (one, failure) in enumerate(candidates):
            if self._passes_alone(one.name, failure, number):
                flaky += 1
            else:
                codes.append(one.process.returncode)
        if flaky > FLAKY_MAX:
            print(f"== {flaky} flaky tests: FAILED, {FLAKY_MAX} are at most")
            codes.append(TESTS_FAILED)
        return next(iter(codes), 0)

    def _passes_alone(self, name: str, failure: Failure, number: int) -> bool:
        """Rerun a test and print both logs; whether it passed."""
        junit = self._junit(f"rerun-{number}-{name}")
        again = Running.start(name, self._rows[name].rerun(failure.test, junit), is_shown=False)
        self._running.append(again)
        code = again.wait()
        self._running.remove(again)
        found = results.read(junit)
        is_flaky = code == 0 and found is not None and found.passed == 1
        verdict = "FLAKY" if is_flaky else "FAILED AGAIN"
        print(
            f"== {verdict} {failure.test} ({name}): the first run:\n{failure.text}\n== {verdict} the rerun:", flush=True
        )
        again.show()
        return is_flaky

    def _report(self) -> None:
        """Print the table of rows, and how slow the machine was."""
        titles = ("row", "tests", "passed", "failed", "skipped", "seconds", "CPU s", "exit code")
        table = [titles]
        for one in self._ended:
            found = self._results(one.name)
            counts = (found.tests, found.passed, found.failed, found.skipped) if found is not None else ("-",) * 4
            times = (f"{one.seconds:.0f}", f"{one.cpu_seconds:.0f}", str(one.process.returncode))
            table.append((one.name, *map(str, counts), *times))
        widths = [max(len(line[column]) for line in table) for column in range(len(titles))]
        for line in table:
            numbers = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
            print(f"== {line[0].ljust(widths[0])}  {'  '.join(numbers)}")
        print(f"== {self._watch.report()}", flush=True)


def run(chosen: Sequence[Row], folder: Path = RESULTS, at_once: int = AT_ONCE) -> int:
    """Run rows with their results in a folder that holds nothing else; the exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return AllTests(chosen, folder, at_once).run()


if __name__ == "__main__":
    sys.exit(run(rows(sys.argv[1:])))
