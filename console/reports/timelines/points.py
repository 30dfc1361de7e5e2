"""Values over time: fewer points for a chart, and what a span comes to. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Column = list[float | None]

RANK_RATIO = 0.99
"""The percentile of a span."""


@dataclass(frozen=True, slots=True)
class Points:
    """Values at `at_ms[i]`, each of the `step_ms` from there on; None: not measured."""

    step_ms: int
    at_ms: Sequence[int]
    highest: Mapping[str, Column]
    mean: Mapping[str, Column]
    """Of the same fields; of a single measurement it is the same value."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a field of a span comes to; None: nothing of it was measured."""

    mean: float | None
    p99: float | None
    """The 99th percentile of the highest values of steps, each weighted with the time that it stands for."""
    measured_seconds: int


def factor_for(steps: int, points_max: int) -> int:
    """How many steps one point stands for, so that at most `points_max` points do for these steps."""
    # Points begin at whole multiples of their length, so a range touches one more than it contains.
    return 1 if steps <= points_max else -(-steps // (points_max - 1))


def thinned(points: Points, factor: int) -> tuple[list[int], dict[str, Column]]:
    """Return times and columns with one point for `factor` steps: the highest value, so that peaks stay.

    A point begins at a multiple of its length: it stays the same while the range moves. The first one begins with the values.
    """
    length_ms = factor * points.step_ms
    at_ms: list[int] = []
    places: list[list[int]] = []
    bucket = None
    for index, at in enumerate(points.at_ms):
        if at // length_ms != bucket:
            bucket = at // length_ms
            at_ms.append(max(bucket * length_ms, points.at_ms[0]))
            places.append([])
        places[-1].append(index)
    columns = {
        field: [_highest([values[index] for index in of]) for of in places] for field, values in points.highest.items()
    }
    return at_ms, columns


def figures(parts: Sequence[Points], field: str) -> Figures:
    """Return what a field comes to over these points, which do not overlap."""
    measured = [
        (highest, mean, part.step_ms)
        for part in parts
        for highest, mean in zip(part.highest.get(field, ()), part.mean.get(field, ()), strict=True)
        if highest is not None and mean is not None
    ]
    total_ms = sum(ms for _, _, ms in measured)
    if not total_ms:
        return Figures(None, None, 0)
    mean = math.fsum(mean * ms for _, mean, ms in measured) / total_ms
    passed_ms, p99 = 0, 0.0
    for highest, _, ms in sorted(measured):
        passed_ms, p99 = passed_ms + ms, highest
        if passed_ms >= RANK_RATIO * total_ms:
            break
    return Figures(mean, p99, total_ms // 1000)


def _highest(values: Column) -> float | None:
    return max((value for value in values if value is not None), default=None)
