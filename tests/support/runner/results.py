"""The results of a command as a JUnit file: a plugin that completes what pytest writes, and what `make test` reads from it."""

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
SEED = "seed"
"""Property of a test case that a seed decided: `request.node.user_properties.append((SEED, 7))`."""
PURE = {"unit": "a unit test", "sim": "a simulated test"}
"""Folders of tests that depend on nothing that could differ from one run to the next."""


def arguments(path: Path) -> list[str]:
    """Return the arguments with which pytest writes its results to a file."""
    return [
        "-p", "tests.support.runner.results", f"--junitxml={path}",
        "-o", "junit_logging=all", "-o", "junit_log_passing_tests=false",
    ]  # fmt: skip


def write(path: Path, name: str, seconds: float, failure: str = "") -> None:
    """Write the results of a command that writes none itself, as one test case; with a `failure` it failed."""
    suite = ElementTree.Element("testsuite", name=name, tests="1", failures=str(int(bool(failure))))
    case = ElementTree.SubElement(suite, "testcase", classname="commands", name=name, time=f"{seconds:.3f}")
    if failure:
        # Control characters, as in colored output, are not XML.
        text = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in failure)
        ElementTree.SubElement(case, "failure", message="failed").text = text
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def why_pure(test: str) -> str:
    """Return why a test must pass in every run ("a unit test"); "" when it depends on processes and time."""
    path = Path(test.partition("::")[0])
    folders = zip(path.parts, path.parts[1:], strict=False)
    return next((PURE[inner] for outer, inner in folders if outer == "tests" and inner in PURE), "")


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
        return why_pure(self.test)


@dataclass(frozen=True, slots=True)
class Case:
    """A test that ran: its class or file as JUnit names it (dots between), its name, and its seconds with all fixtures."""

    place: str
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Results:
    """The totals of one command, its tests, its failures, and the seeds that decided tests."""

    tests: int
    failed: int
    skipped: int
    failures: tuple[Failure, ...]
    cases: tuple[Case, ...]
    seeds: frozenset[int]

    @property
    def passed(self) -> int:
        return self.tests - self.failed - self.skipped


def read(path: Path) -> Results | None:
    """Return what a command wrote to the file; None when there is no complete file: the command did not reach its end."""
    try:
        root = ElementTree.parse(path).getroot()
    except (FileNotFoundError, ElementTree.ParseError):
        return None
    tests = skipped = 0
    failures: dict[str, Failure] = {}
    cases: list[Case] = []
    seeds: set[int] = set()
    for case in root.iter("testcase"):
        tests += 1
        cases.append(Case(case.get("classname", ""), case.get("name", ""), float(case.get("time", 0))))
        properties = {found.get("name"): found.get("value", "") for found in case.iter("property")}
        if SEED in properties:
            seeds.add(int(properties[SEED]))
        problems = [*case.findall("failure"), *case.findall("error")]
        if not problems:
            skipped += case.find("skipped") is not None
        else:
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
    return Results(tests, len(failures), skipped, tuple(failures.values()), tuple(cases), frozenset(seeds))
