"""How often a rule would have fired, from values of the past. Pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

from console.alerts.arrivals import Arrivals
from console.alerts.rules import Conditions, Event, State, step

Point = tuple[float, float | None]
"""A time in seconds since the epoch, and the value from then on; None: not measured."""


class Source(StrEnum):
    """Where values of the past are from."""

    LIVE_HISTORY = "live_history"
    """Redis: the last hour."""
    ANALYTICS = "analytics"
    """The summary tables: maxima by minute."""
    AUDIT_LOG = "audit_log"
    ARRIVALS = "arrivals"
    """Dead letters as they were counted: the last hour, less the rule's window."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of time that was evaluated, in seconds since the epoch."""

    source: Source
    begin: float
    end: float


def firings(conditions: Conditions, points: Iterable[Point]) -> int:
    """How often a rule fires on values in the order of their times."""
    state, count = State(), 0
    for at, value in points:
        state, event = step(conditions, state, value, at)
        count += event is Event.FIRING
    return count


def rows_of_minutes(rows: Sequence[tuple[float, float]], step_seconds: float) -> Iterator[Point]:
    """Maxima above a threshold, by the beginning of their minute, with 0 where a minute is not there: it was not above."""
    until = -math.inf
    for at, value in rows:
        if until < at:
            yield until, 0.0
        yield at, value
        until = at + step_seconds
    yield until, 0.0


def sums_of_window(changes: Arrivals, window_seconds: float, begin: float, end: float) -> Iterator[Point]:
    """How many came within the window, at each time in [begin, end] when that changes."""
    steps = sorted([(at, count) for at, count in changes] + [(at + window_seconds, -count) for at, count in changes])
    after = [step for step in steps if begin < step[0] <= end]
    total = sum(count for at, count in steps if at <= begin)
    yield begin, total
    for at, together in groupby(after, key=itemgetter(0)):
        total += sum(count for _, count in together)
        yield at, total
