"""The rules for tests that fail now and then: what earlier runs saw, and which tests are in quarantine."""

import datetime
import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.support.runner.results import why_pure
from tests.support.servers.processes import PROJECT

FLAKY_MAX = 2
"""Flaky tests that a run may have."""
HISTORY_RUNS = 50
"""Runs in which a test may be flaky once."""
HISTORY_VARIABLE = "QMQ_FLAKY_HISTORY"
HISTORY = Path("build/flaky-history.json")
QUARANTINE = PROJECT / "tests/quarantine.toml"
QUARANTINE_MAX = 5
QUARANTINE_DAYS = 14
FIELDS = ("test", "date", "owner", "issue", "uncovered")


class PolicyBroken(Exception):
    """The quarantine or the history is not as its rules demand."""


def history_path() -> Path:
    """Return the file in which a machine, or the cache of a CI, keeps what earlier runs saw."""
    return Path(os.environ.get(HISTORY_VARIABLE) or HISTORY)


def short(test: str) -> str:
    """Return a test's id relative to the project, as it is the same in every clone."""
    path, separator, name = test.partition("::")
    return f"{os.path.relpath(path, PROJECT)}{separator}{name}"


class History:
    """The flaky tests of the last HISTORY_RUNS runs.

    Raises:
        PolicyBroken: The file is not one that `add` wrote.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs: list[list[str]] = []
        if path.exists():
            try:
                self._runs = [[str(test) for test in run] for run in json.loads(path.read_text())["runs"]]
            except (ValueError, KeyError, TypeError) as error:
                raise PolicyBroken(f"{path} is no history of flaky tests ({error!r}): delete it") from error

    def add(self, flaky: list[str]) -> list[str]:
        """Record the flaky tests of a run and return those that were flaky in one of the runs before."""
        before = {test for run in self._runs[1 - HISTORY_RUNS :] for test in run}
        self._runs = [*self._runs[1 - HISTORY_RUNS :], flaky]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({"runs": self._runs}, indent=1))
        new.replace(self._path)
        return [test for test in flaky if test in before]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A test that may fail, until a date."""

    test: str
    date: datetime.date
    owner: str
    issue: str
    uncovered: str
    """What no test covers meanwhile."""

    def covers(self, test: str) -> bool:
        """Return whether a test is this one, with any parameters unless the entry names them."""
        return test == self.test or test.startswith(f"{self.test}[")

    def faults(self, project: Path, today: datetime.date) -> list[str]:
        """Return what is wrong with the entry."""
        path, _, name = self.test.partition("::")
        function = name.split("::")[-1].partition("[")[0]
        age = (today - self.date).days
        found = []
        if age > QUARANTINE_DAYS:
            found.append(f"it is {age} days old, {QUARANTINE_DAYS} are at most: repair or delete the test")
        if age < 0:
            found.append(f"its date {self.date} is in the future")
        if why := why_pure(self.test):
            found.append(f"{why} must pass in every run")
        if not (project / path).is_file() or f"def {function}(" not in (project / path).read_text():
            found.append("there is no such test")
        return found


def quarantined(path: Path, project: Path, today: datetime.date) -> list[Quarantined]:
    """Return the tests in quarantine.

    Raises:
        PolicyBroken: An entry lacks a field, is too old, names a test that must not be there, or there are too many.
    """
    try:
        entries = tomllib.loads(path.read_text()).get("quarantined", [])
    except tomllib.TOMLDecodeError as error:
        raise PolicyBroken(f"{path.name}: {error}") from error
    found: list[Quarantined] = []
    wrong = [f"{len(entries)} entries, {QUARANTINE_MAX} are at most"] if len(entries) > QUARANTINE_MAX else []
    for entry in entries:
        name = entry.get("test", "an entry without `test`")
        if set(entry) != set(FIELDS) or not all(entry.values()):
            wrong.append(f"{name}: the fields are {', '.join(FIELDS)}")
        elif type(entry["date"]) is not datetime.date:
            wrong.append(f"{name}: `date` must be a date such as 2026-11-23, without quotes")
        else:
            found.append(Quarantined(**entry))
            wrong += [f"{name}: {fault}" for fault in found[-1].faults(project, today)]
    if wrong:
        raise PolicyBroken("\n".join(f"{path.name}: {fault}" for fault in wrong))
    return found
