"""Rows that a job publishes, checked against their table. Pure: what is wrong is said with the row and the value."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from operator import itemgetter
from typing import Any

from console.analytics.steps import Step
from console.analytics.tables import Column, SummaryTable
from metaserver.services.changes import text_problem
from qmq.errors import QmqError

PUBLISH_ROWS_MAX = 100_000
"""Maximum number of rows of one transaction: SQLite blocks other writers meanwhile, and other databases must delete the previous
rows within one statement's time limit. More rows are published in several transactions.
"""
WHOLE_MAX = (1 << 63) - 1
AT = "at_ms"


class RowsRefused(QmqError):
    """Rows that are not what their table takes."""

    code = "analytics.rows_invalid"


@dataclass(frozen=True, slots=True)
class Window:
    """A range of time [from, to) in milliseconds since the epoch."""

    from_ms: int
    to_ms: int


def checked(
    table: SummaryTable, step: Step, rows: Iterable[Mapping[str, Any]], window: Window | None
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows' values in the order `at_ms` and the table's columns: parts of PUBLISH_ROWS_MAX rows, at least one.

    Args:
        rows: each with exactly `at_ms` and the table's columns; None is what is not known.
        window: where `at_ms` has to lie, in whole steps; None: anywhere.

    Raises:
        RowsRefused: a column is missing, unknown, of another type or out of bounds; a moment that begins no step or is outside
            of the window; two rows of one key. Earlier parts have been returned by then.
    """
    keys: set[tuple[Any, ...]] = set()
    following = iter(rows)
    while True:
        part = list(islice(following, PUBLISH_ROWS_MAX))
        if part or not keys:
            yield _checked(table, step, part, window, keys)
        if len(part) < PUBLISH_ROWS_MAX:
            return


def _checked(
    table: SummaryTable,
    step: Step,
    rows: Iterable[Mapping[str, Any]],
    window: Window | None,
    keys: set[tuple[Any, ...]],
) -> list[tuple[Any, ...]]:
    """The values of a part. Row numbers count on from the keys of the parts before it, and its own are added to these."""
    names = (AT, *(column.name for column in table.columns))
    wanted, values_of = frozenset(names), itemgetter(*names)
    found, first = [], len(keys)
    for number, row in enumerate(rows, first):
        if row.keys() != wanted:
            raise RowsRefused(f"{table.name}, row {number}: {_difference(row.keys(), wanted)}")
        found.append(values_of(row))
    if not found:
        return found
    # By column, and whole columns first: these are many rows, and hardly ever one is wrong.
    moments, *values = zip(*found, strict=True)
    _check(table, AT, moments, first, "integer", _moment_problem(step, window), False)
    for column, of_column in zip(table.columns, values, strict=True):
        _check(table, column.name, of_column, first, column.type, _problem(column), column.is_nullable)
    _check_keys(table, found, keys)
    return found


_CLASSES: dict[str, frozenset[type]] = {
    "text": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
}


def _check(
    table: SummaryTable,
    name: str,
    values: Sequence[Any],
    first: int,
    kind: str,
    problem: Callable[[Any], str],
    is_nullable: bool,
) -> None:
    """Raise for the first invalid value; each distinct text is checked once."""
    classes = _CLASSES[kind]
    for value in dict.fromkeys(values) if kind == "text" else values:
        if value is None:
            what = "" if is_nullable else "null, but a value is required"
        elif type(value) not in classes:
            what = f"{type(value).__name__} {value!r:.60}, must be {kind}"
        else:
            what = problem(value)
        if what:
            raise RowsRefused(f"{table.name}, row {first + values.index(value)}, {name}: {what}")


def _problem(column: Column) -> Callable[[Any], str]:
    """What is wrong with a value of the right type, or ""."""

    def of_text(value: str) -> str:
        if column.choices and value not in column.choices:
            return f"{value!r:.60}, must be one of {', '.join(column.choices)}"
        if column.length_max is not None and len(value) > column.length_max:
            return f"{value!r:.60}... has {len(value)} characters, the limit is {column.length_max}"
        return text_problem(value)

    problems: dict[str, Callable[[Any], str]] = {
        "text": of_text,
        "integer": lambda value: "" if 0 <= value <= WHOLE_MAX else f"{value}, from 0 to 2^63 - 1 is allowed",
        "number": lambda value: "" if isfinite(value) else f"{value}: unknown values must be null",
        "boolean": lambda value: "",
    }
    return problems[column.type]


def _moment_problem(step: Step, window: Window | None) -> Callable[[Any], str]:
    lowest, end = (window.from_ms, window.to_ms) if window is not None else (0, WHOLE_MAX)

    def problem(value: int) -> str:
        if value % step.ms:
            return f"{value} is not the start of a {step}"
        return "" if lowest <= value < end else f"{value} is outside of the window from {lowest} to {end}"

    return problem


def _check_keys(table: SummaryTable, found: list[tuple[Any, ...]], seen: set[tuple[Any, ...]]) -> None:
    """Raise for the first row whose key was seen; add the keys."""
    # The key's columns come first, behind the moment.
    length = 1 + len(table.model.key)
    for number, row in enumerate(found, len(seen)):
        key = row[:length]
        if key in seen:
            named = ", ".join(f"{name} {value!r}" for name, value in zip((AT, *table.model.key), key, strict=True))
            raise RowsRefused(f"{table.name}, row {number}: duplicate row of {named}")
        seen.add(key)


def _difference(has: Iterable[str], wanted: frozenset[str]) -> str:
    missing, unknown = sorted(wanted - set(has)), sorted(set(has) - wanted)
    parts = [f"without {', '.join(missing)}"] if missing else []
    return "; ".join([*parts, f"unknown: {', '.join(unknown)[:200]}"] if unknown else parts)
