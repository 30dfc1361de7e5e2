"""Histories of broker groups as the collector would have left them in Redis."""

import math
from collections.abc import Mapping, Sequence

from console.snapshot.history import SECTIONS, STEP_SECONDS, STEPS
from console.snapshot.many_histories import Histories, Row

HOUR_MS = 3_600_000
TEN_MINUTES_MS = 600_000
POINTS = TEN_MINUTES_MS // (STEP_SECONDS * 1000)
"""Measurements of ten minutes."""


def point(**numbers: float) -> Row:
    """What was measured of a broker group at a step; the other fields are unknown."""
    return tuple(numbers.get(field, math.nan) for field in SECTIONS["broker_groups"])


def history(end_ms: int, series: Mapping[str, Sequence[Row | None]]) -> Histories:
    """Return the hour before `end_ms`; of each group the newest points, before which nothing was measured."""
    known = {name: [None] * (STEPS - len(points)) + list(points) for name, points in series.items()}
    return Histories(end_ms - HOUR_MS, known)
