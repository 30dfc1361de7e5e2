"""Number of arrivals within a window, from a counter that is sampled. Pure."""

WINDOW_SECONDS_MAX = 3_600
BUCKET_SECONDS = 10
"""Arrivals closer together than this are one entry: at most 361 entries an hour."""

Arrivals = list[list[float]]
"""[seconds since the epoch, how many], oldest first."""


def noted(arrivals: Arrivals, count_before: int, count: int, now: float) -> Arrivals:
    """Return the arrivals with those since the last sample. A counter that fell has been restarted, so no arrivals are assumed."""
    kept = [entry for entry in arrivals if entry[0] > now - WINDOW_SECONDS_MAX]
    came = count - count_before
    if came <= 0:
        return kept
    if kept and 0 <= now - kept[-1][0] < BUCKET_SECONDS:
        return [*kept[:-1], [kept[-1][0], kept[-1][1] + came]]
    return [*kept, [now, came]]


def within(arrivals: Arrivals, window_seconds: float, now: float) -> int:
    """How many came in the window before now."""
    return int(sum(count for at, count in arrivals if at > now - window_seconds))
