"""The tables at the end of `make test`, made from the results of its commands."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.support.required import is_ci
from tests.support.runner.results import Results

SLOWEST = 20


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return aligned lines: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]  # fmt: skip


def folder_of(place: str) -> str:
    """Return the folder of a test below tests/, two levels deep, from its place in a JUnit file."""
    parts = place.split(".")
    files = [number for number, part in enumerate(parts) if part.startswith("test_")]
    return "/".join(parts[1 : files[0] if files else len(parts)][:2]) or place


def folders(found: Mapping[str, Results]) -> list[str]:
    """Return the tests and seconds of each folder in each command that ran tests of folders, the longest first."""
    tests: Counter[tuple[str, str]] = Counter()
    seconds: Counter[tuple[str, str]] = Counter()
    for name, result in found.items():
        for case in result.cases:
            if case.place.startswith("tests."):
                tests[name, folder_of(case.place)] += 1
                seconds[name, folder_of(case.place)] += case.seconds
    lines = [(place, name, str(tests[name, place]), f"{spent:.1f}") for (name, place), spent in seconds.most_common()]
    return table([("folder", "command", "tests", "seconds"), *lines]) if lines else []


def slowest(found: Mapping[str, Results]) -> list[str]:
    """Return the slowest tests of all commands."""
    cases = [(case.seconds, name, case) for name, result in found.items() for case in result.cases]
    cases.sort(key=lambda one: -one[0])
    return [
        f"the slowest {min(SLOWEST, len(cases))} of {len(cases)} tests, with their fixtures:",
        *(f"{spent:7.1f} s  {name}: {case.place}::{case.name}" for spent, name, case in cases[:SLOWEST]),
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers in order, consecutive ones as ranges: 1-3, 7."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][-1] == number - 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ", ".join("-".join(map(str, one)) for one in found)


def seeds(found: Mapping[str, Results]) -> str:
    """Return the seeds of this run: those of simulated tests, and how hypothesis chose its examples."""
    used = sorted({seed for result in found.values() for seed in result.seeds})
    hash_seed = os.environ.get("PYTHONHASHSEED", "random")
    examples = "the same in each run (CI is set)" if is_ci() else "random; a failure prints the blob that repeats it"
    return f"seeds: simulation {ranges(used) or 'none'}; PYTHONHASHSEED {hash_seed}; examples of hypothesis {examples}"
