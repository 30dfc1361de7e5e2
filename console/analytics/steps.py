"""The steps of time that summaries are kept at, and which of them a chart is drawn from. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

POINTS_MAX = 1_000
"""Points of one series that an automatic step answers with, at most."""
DAY_MS = 86_400_000


class Step(StrEnum):
    """The time that a row covers. Each step is a multiple of the previous one, and starts at whole UTC days."""

    MINUTE = "minute"
    TEN_MINUTES = "ten_minutes"
    HOUR = "hour"
    DAY = "day"

    @property
    def ms(self) -> int:
        return _MS[self]

    @property
    def seconds(self) -> int:
        return _MS[self] // 1000


_MS = {Step.MINUTE: 60_000, Step.TEN_MINUTES: 600_000, Step.HOUR: 3_600_000, Step.DAY: DAY_MS}


def widened(from_ms: int, to_ms: int, step: Step) -> tuple[int, int]:
    """The range [from, to) up to whole steps."""
    return from_ms - from_ms % step.ms, to_ms + -to_ms % step.ms


def points(from_ms: int, to_ms: int, step: Step) -> int:
    """Steps that begin in [from, to)."""
    return -(-to_ms // step.ms) - -(-from_ms // step.ms)


def step_for(
    from_ms: int,
    to_ms: int,
    now_ms: int,
    steps: Sequence[Step],
    keep_days: Mapping[Step, int],
    points_max: int = POINTS_MAX,
) -> Step | None:
    """The finest of these steps that draws the range with `points_max` points or fewer and is still kept at its beginning.

    Where none is kept so long, the coarsest that has few enough points; None: even that one has too many.
    """
    few = [step for step in steps if points(from_ms, to_ms, step) <= points_max]
    kept = [step for step in few if from_ms >= now_ms - keep_days[step] * DAY_MS]
    return min(kept, key=lambda step: step.ms) if kept else max(few, key=lambda step: step.ms, default=None)
