"""The results of a pytest run as a JUnit file: a plugin that completes what pytest writes, and what `make test` reads from it."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.promises import is_broken_promise

TEST = "test"
"""Property of a test case: the argument that makes pytest run it alone, from any folder."""
PROMISE_BROKEN = "promise_broken"
"""Property of a test case that failed with a PromiseBroken."""


def arguments(path: Path) -> list[str]:
    """Return the arguments with which pytest writes its results to a file and prints its slowest tests."""
    return [
        "-p", "tests.support.results", f"--junitxml={path}", "-o", "junit_logging=all", "-o", "junit_log_passing_tests=false",
        "--durations=30",
    ]  # fmt: skip


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the argument that selects the test to its results."""
    item.user_properties.append((TEST, f"{item.path}::{item.nodeid.partition('::')[2]}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark a failure that is a broken promise."""
    if call.excinfo is not None and is_broken_promise(call.excinfo.value):
        item.user_properties.append((PROMISE_BROKEN, "true"))
    return (yield)


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that failed, or an error outside of any test (`test` is empty)."""

    test: str
    text: str
    is_promise: bool

    @property
    def why_final(self) -> str:
        """Return why the test must not be rerun; "" when it may be."""
        if not self.test:
            return "an error outside of the tests"
        if self.is_promise:
            return "a broken promise"
        path = Path(self.test.partition("::")[0])
        folders = list(zip(path.parts, path.parts[1:], strict=False))
        if ("tests", "unit") in folders or ("tests", "fuzz") in folders:
            return "a unit test"
        return ""


@dataclass(frozen=True, slots=True)
class Results:
    """The totals of one pytest run, and its failures."""

    tests: int
    failed: int
    skipped: int
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> int:
        return self.tests - self.failed - self.skipped


def read(path: Path) -> Results | None:
    """Return what pytest wrote to the file; None when there is no complete file: pytest did not reach its end."""
    try:
        root = ElementTree.parse(path).getroot()
    except (FileNotFoundError, ElementTree.ParseError):
        return None
    tests = skipped = 0
    failures: dict[str, Failure] = {}
    for case in root.iter("testcase"):
        tests += 1
        problems = [*case.findall("failure"), *case.findall("error")]
        if not problems:
            skipped += case.find("skipped") is not None
        else:
            properties = {found.get("name"): found.get("value", "") for found in case.iter("property")}
            test = properties.get(TEST, "")
            parts = [f"{problem.get('message', '')}\n{problem.text or ''}" for problem in problems]
            parts += [f"-- {tag}:\n{text}" for tag in ("system-out", "system-err") if (text := case.findtext(tag))]
            # A test that fails and whose teardown fails too is two test cases.
            key = test or f"{case.get('classname')}.{case.get('name')}"
            before = failures.get(key)
            failures[key] = Failure(
                test,
                "\n".join([*([before.text] if before else []), *parts]),
                PROMISE_BROKEN in properties or (before is not None and before.is_promise),
            )
            tests -= before is not None
    return Results(tests, len(failures), skipped, tuple(failures.values()))
