"""Lint and all tests, as `make test` does: a pool of commands that run beside each other.

The first command is one pytest over all tests on SQLite, with several workers (tests/support/runner/groups.py), shown
as it runs. Beside it run the tests of databases on each server, the tests on other Python versions, lint and vitest;
their output is shown when they end, and a failure of one hides nothing of the others. At the end come tables of
folders, of the slowest tests and of commands. With arguments (for pytest) the tests are what these choose, on SQLite
and on each database server.

A test that fails is rerun alone after all commands, in the same way and on the same database. If it passes, it is flaky: it is
reported with both logs, and fails the run only if there are more than FLAKY_MAX such tests or if it was flaky in one of the runs
before. Never rerun are unit and simulated tests, broken promises (`PromiseBroken`), tests of a file that the present change
touches, and errors outside of tests. When more than RERUNS_MAX tests failed, none is rerun. A test in quarantine
(tests/quarantine.toml) that fails is reported and fails nothing.
"""

import datetime
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

from tests.support.runner import pythons, report, results
from tests.support.runner.changes import changed_files
from tests.support.runner.flaky import (
    FLAKY_MAX,
    HISTORY_RUNS,
    QUARANTINE,
    History,
    PolicyBroken,
    Quarantined,
    history_path,
    quarantined,
    short,
)
from tests.support.runner.machine import MachineWatch
from tests.support.runner.results import Failure, Results
from tests.support.servers.processes import PROJECT
from tests.support.servers.services import DATABASES, named_databases

Command = list[str]
WORKERS = 3
"""Of the pytest over all tests, on two cores: most tests wait for processes more than they compute."""
AT_ONCE = 3
"""Commands at a time, that pytest among them."""
RERUNS_MAX = 5
"""Tests that are rerun. When more fail, something is broken, and reruns would only take time."""
RESULTS = Path("build/test-results")
"""A JUnit file for each command, by its name; of the latest run."""
QUICK, PYTHONS = "--quick", "--pythons"
"""Instead of arguments for pytest: the rows of `make quick`, and only those on other Python versions."""
QUICK_RESULTS, PYTHONS_RESULTS = Path("build/test-results-quick"), Path("build/test-results-pythons")
SWARM = (sys.executable, "-m", "tests.sim.swarm.runs")
QUICK_SEEDS = 10
"""Of the simulation in `make quick`; in `make test` they are tests (tests/sim/swarm/test_swarm.py)."""
JUNIT_VARIABLE = "QMQ_JUNIT"
"""Names the file to a command that writes its results by itself (vitest)."""
# pytest remembers what failed in a file of the folder: one command at a time may.
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
FRONTEND = (sys.executable, "-m", "tools.frontend", "run")
ON_DATABASE = (sys.executable, "-m", "tests.support.runner.with_database")
ON_PYTHON = (sys.executable, "-m", "tests.support.runner.pythons", "--on")
POLITELY = ("nice", "-n", "5")
"""For what computes: tests beside it wait for processes, and these come first."""
TESTS_FAILED, INTERRUPTED = 1, 2
"""pytest's exit codes: some tests failed; Ctrl-C."""
LINES_OF_FAILURE = 100
"""So many last lines of a failed command's output its JUnit file has."""


@dataclass(frozen=True, slots=True)
class Row:
    """A command that has to pass: a program, or a pytest (`is_pytest`) with what selects its tests.

    Args:
        workers: options of pytest-xdist; a rerun has none.
    """

    name: str
    program: tuple[str, ...]
    selection: tuple[str, ...] = ()
    is_pytest: bool = True
    workers: tuple[str, ...] = ()

    def command(self, junit: Path) -> Command:
        """Return the command; a pytest writes its results to this file."""
        return self._with((*self.workers, *self.selection), junit)

    def rerun(self, test: str, junit: Path) -> Command:
        """Return the command that runs one test of the row alone, in the same way."""
        return self._with((test,), junit)

    def _with(self, selection: Sequence[str], junit: Path) -> Command:
        # The arguments of ours come last: they win over those of `make test ARGS=...`.
        return [*self.program, *selection, *(results.arguments(junit) if self.is_pytest else ())]


def rows(arguments: Sequence[str] = ()) -> list[Row]:
    """Return what has to pass, in the order of starting."""
    if arguments:
        chosen = Row("chosen", (sys.executable, "-m", "pytest"), tuple(arguments))
        return [chosen, *_on_databases((*arguments, "-m", "database"), "--may-be-empty"), *_lint()]
    return [
        Row("tests", PYTEST, workers=("-n", str(WORKERS), "-q")),
        # The longest of the others first, so that none is left alone at the end.
        *reversed(_on_databases(("-m", "database"))),
        *python_rows(is_whole=False),
        Row("vitest", (*POLITELY, *FRONTEND, "test"), is_pytest=False),
        *_lint(),
    ]


def python_rows(*, is_whole: bool = True) -> list[Row]:
    """Return a row for each other Python version that is installed.

    Args:
        is_whole: all tests of Python versions on each; otherwise only those of whole systems between the oldest and the newest.
    """
    ends = (pythons.VERSIONS[0], pythons.VERSIONS[-1])
    return [
        Row(
            f"python{version}",
            (*POLITELY, *ON_PYTHON, version, "--", *PYTEST[1:], "-q"),
            pythons.SELECTION if is_whole or version in ends else pythons.SYSTEMS,
        )
        for version in pythons.installed()
    ]


def quick_rows() -> list[Row]:
    """Return what `make quick` runs: unit tests, some seeds of the simulation, and lint of what the change touches."""
    changed = changed_files(PROJECT)
    python = sorted(path for path in changed if path.endswith(".py"))
    ruff = str(Path(sys.executable).with_name("ruff"))
    found = [
        Row("unit", PYTEST, ("tests/unit",), workers=("-n", "2", "-q")),
        *_swarm(QUICK_SEEDS),
        Row("mypy", (*POLITELY, sys.executable, "-m", "mypy"), is_pytest=False),
    ]
    if python:
        found += [
            Row("format", (ruff, "format", "--check", *python), is_pytest=False),
            Row("ruff", (ruff, "check", *python), is_pytest=False),
        ]
    if any(path.startswith("frontend/") for path in changed):
        found.append(Row("types of pages", (*POLITELY, *FRONTEND, "typecheck"), is_pytest=False))
    return found


def _swarm(seeds: int) -> list[Row]:
    """The simulation with so many seeds."""
    return [Row("simulation", (*SWARM, "--seeds", str(seeds)), is_pytest=False)]


def _lint() -> list[Row]:
    """The steps of `make lint` that take long beside each other, the others as one."""
    return [
        Row("eslint", (*POLITELY, *FRONTEND, "lint", "typecheck"), is_pytest=False),
        Row("lint", (*POLITELY, "make", "--no-print-directory", "lint-python"), is_pytest=False),
    ]


def _on_databases(selection: tuple[str, ...], *options: str) -> list[Row]:
    """A row for each database server: those that have to be there, else those that are installed."""
    named = named_databases()
    options = options if named else (*options, "--may-be-missing")
    return [
        Row(name, (*ON_DATABASE, name, *options, "--", *PYTEST, "-q"), selection)
        for name in (named or DATABASES)
        if name != "sqlite"
    ]


@dataclass(frozen=True, slots=True)
class Policy:
    """What decides about tests that fail: paths of the present change, tests in quarantine, and what earlier runs saw."""

    changed: frozenset[str] = frozenset()
    quarantine: tuple[Quarantined, ...] = ()
    history: History | None = None

    @classmethod
    def of_project(cls, *, is_whole: bool) -> "Policy":
        """Return the policy of a run of this project; only a whole run counts in the history.

        Raises:
            PolicyBroken: The quarantine or the history is not as its rules demand.
        """
        return cls(
            frozenset(changed_files(PROJECT)),
            tuple(quarantined(QUARANTINE, PROJECT, datetime.date.today())),
            History(history_path()) if is_whole else None,
        )

    def why_final(self, failure: Failure) -> str:
        """Return why the test must not be rerun; "" when it may be."""
        if why := failure.why_final:
            return why
        return "a file of this change" if short(failure.test).partition("::")[0] in self.changed else ""

    def is_quarantined(self, failure: Failure) -> bool:
        """Return whether the failure fails nothing. A broken promise always does."""
        if not failure.test or failure.is_promise:
            return False
        return any(entry.covers(short(failure.test)) for entry in self.quarantine)


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
    def start(cls, name: str, command: Command, junit: Path, *, is_shown: bool) -> "Running":
        """Start it."""
        output = None if is_shown else tempfile.TemporaryFile()  # noqa: SIM115 -- closed by `show`
        errors = None if is_shown else subprocess.STDOUT
        environment = {**os.environ, JUNIT_VARIABLE: str(junit.resolve())}
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment, start_new_session=True)
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

    def last_lines(self) -> str:
        """Return the end of its output; "" when that was shown as it came."""
        if self.output is None:
            return ""
        self.output.seek(0)
        return "\n".join(self.output.read().decode("utf-8", "replace").splitlines()[-LINES_OF_FAILURE:])

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

    def __init__(self, chosen: Sequence[Row], folder: Path, at_once: int, policy: Policy) -> None:
        self._rows = {row.name: row for row in chosen}
        self._folder = folder
        self._at_once = at_once
        self._policy = policy
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
                junit = self._junit(row.name)
                self._running.append(Running.start(row.name, row.command(junit), junit, is_shown=is_first))
            # Reports one that has ended, and leaves it to be waited for.
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            one = next(found for found in self._running if child is not None and found.process.pid == child.si_pid)
            one.wait()
            print(f"== {one}", flush=True)
            self._running.remove(one)
            self._ended.append(one)
            if not self._rows[one.name].is_pytest and self._results(one.name) is None:
                failure = "" if one.process.returncode == 0 else one.last_lines() or "see the output of the run"
                results.write(self._junit(one.name), one.name, one.seconds, failure)
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
            if not self._rows[one.name].is_pytest:
                codes.append(code)
                continue
            if code != TESTS_FAILED or found is None or not found.failures:
                print(f"== {one.name}: failed with exit code {code}, not by tests alone: nothing of it is rerun")
                codes.append(code)
                continue
            for failure in found.failures:
                name = failure.test or failure.text.splitlines()[0]
                if self._policy.is_quarantined(failure):
                    print(f"== QUARANTINED, failed {failure.test} ({one.name}):\n{failure.text}")
                elif why := self._policy.why_final(failure):
                    print(f"== {one.name}: not rerun, {why}: {name}")
                    codes.append(code)
                else:
                    candidates.append((one, failure))
        if len(candidates) > RERUNS_MAX:
            print(f"== {len(candidates)} tests failed; none is rerun: {RERUNS_MAX} are at most")
            return candidates[0][0].process.returncode
        flaky: list[str] = []
        for number, (one, failure) in enumerate(candidates):
            if self._passes_alone(one.name, failure, number):
                flaky.append(short(failure.test))
            else:
                codes.append(one.process.returncode)
        if len(flaky) > FLAKY_MAX:
            print(f"== {len(flaky)} flaky tests: FAILED, {FLAKY_MAX} are at most")
            codes.append(TESTS_FAILED)
        if self._policy.history is not None:
            for test in self._policy.history.add(flaky):
                print(f"== flaky twice in {HISTORY_RUNS} runs: FAILED {test}: repair it or put it into quarantine")
                codes.append(TESTS_FAILED)
        return next(iter(codes), 0)

    def _passes_alone(self, name: str, failure: Failure, number: int) -> bool:
        """Rerun a test and print both logs; whether it passed."""
        junit = self._junit(f"rerun-{number}-{name}")
        again = Running.start(name, self._rows[name].rerun(failure.test, junit), junit, is_shown=False)
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
        """Print the tables, the seeds, and how slow the machine was."""
        found = {one.name: self._results(one.name) for one in self._ended}
        rows = [("command", "tests", "passed", "failed", "skipped", "seconds", "CPU s", "exit code")]
        for one in self._ended:
            result = found[one.name]
            counts = (result.tests, result.passed, result.failed, result.skipped) if result is not None else ("-",) * 4
            times = (f"{one.seconds:.0f}", f"{one.cpu_seconds:.0f}", str(one.process.returncode))
            rows.append((one.name, *map(str, counts), *times))
        complete = {name: result for name, result in found.items() if result is not None}
        for line in (
            *report.folders(complete),
            *report.slowest(complete),
            *report.table(rows),
            report.seeds(complete),
            self._watch.report(),
        ):
            print(f"== {line}", flush=True)


def run(chosen: Sequence[Row], folder: Path = RESULTS, at_once: int = AT_ONCE, policy: Policy | None = None) -> int:
    """Run rows with their results in a folder that holds nothing else; the exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return AllTests(chosen, folder, at_once, policy or Policy()).run()


def main(arguments: Sequence[str]) -> int:
    """Run; the exit code."""
    try:
        policy = Policy.of_project(is_whole=not arguments)
    except PolicyBroken as error:
        print(f"== nothing was run: {error}")
        return TESTS_FAILED
    if arguments == [QUICK]:
        return run(quick_rows(), QUICK_RESULTS, policy=policy)
    if arguments in ([], [PYTHONS]):
        for version in pythons.missing():
            print(f"== Python {version}: NOT TESTED, it is not on PATH and not among pyenv's versions")
    if arguments == [PYTHONS]:
        return run(python_rows(), PYTHONS_RESULTS, policy=policy)
    return run(rows(arguments), policy=policy)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
