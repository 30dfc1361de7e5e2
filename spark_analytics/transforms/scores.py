"""Whether forecasts held, once they came due. Pure.

A drain forecast comes due when its interval ends, at the latest DRAIN_DUE_MS after it was made; a disk forecast DISK_DUE_MS after
it was made. Forecasts that say nothing (unknown; no lag to drain) and those that can't be decided are no cases.
"""

from dataclasses import dataclass

from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

DRAIN_DUE_MS = DAY_MS
"""A drain forecast whose interval ends later is decided only if the lag was drained before, or if it said that it may never be."""
DISK_DUE_MS = DAY_MS


@dataclass(frozen=True, slots=True)
class Case:
    """A forecast that came due: when, in ms since the epoch, and whether the truth was inside of its interval."""

    due_ms: int
    is_held: bool

    @property
    def hour_ms(self) -> int:
        """When the hour begins at whose end, or in which, it came due."""
        return (self.due_ms - 1) // HOUR_MS * HOUR_MS


def drain_due_ms(made_ms: int, high_seconds: float | None) -> int:
    """When a drain forecast comes due."""
    latest = made_ms + DRAIN_DUE_MS
    return latest if high_seconds is None else min(latest, made_ms + round(high_seconds * SECOND_MS))


def drain_case(
    made_ms: int, low_seconds: float | None, high_seconds: float | None, drained_ms: int | None
) -> Case | None:
    """How a drain forecast turned out; None: that can't be decided.

    Args:
        made_ms: when it was made, the end of its step.
        low_seconds: the early case; None: even that is never.
        high_seconds: the late case; None: never.
        drained_ms: when the first minute began in which the lag was 0; None: there was none yet.
    """
    due_ms = drain_due_ms(made_ms, high_seconds)
    if drained_ms is not None and drained_ms < due_ms:
        is_early = low_seconds is None or drained_ms + MINUTE_MS < made_ms + low_seconds * SECOND_MS
        return Case(due_ms, not is_early)
    if high_seconds is None:
        return Case(due_ms, True)
    return Case(due_ms, False) if high_seconds * SECOND_MS <= DRAIN_DUE_MS else None


def disk_case(
    made_ms: int,
    free_bytes: int,
    growth_bytes_per_second: float,
    low_seconds: float | None,
    high_seconds: float | None,
    grown_bytes: int,
) -> Case | None:
    """How a disk forecast turned out, by the speed at which the disk filled until it came due; None: it was full already.

    Args:
        made_ms: when it was made, the end of its step.
        free_bytes: what was free then.
        growth_bytes_per_second: the speed it rests on.
        low_seconds: the early case; None: even that is never.
        high_seconds: the late case; None: never.
        grown_bytes: how much more was used when it came due.
    """
    if free_bytes <= 0 or low_seconds == 0:
        return None
    speed = grown_bytes / (DISK_DUE_MS / SECOND_MS)
    # A time until full is what is free over a speed; the interval of speeds lies even around the growth.
    fastest = 0.0 if low_seconds is None else free_bytes / low_seconds
    if high_seconds:
        slowest = free_bytes / high_seconds
    else:
        slowest = float("-inf") if low_seconds is None else 2 * growth_bytes_per_second - fastest
    return Case(made_ms + DISK_DUE_MS, slowest <= speed <= fastest)
