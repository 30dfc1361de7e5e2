"""When the lag of a group is drained: replays of earlier days at the speed of now, with an interval from what came due.

`points` and `drained_minutes` need only the minutes of the groups they are about, so groups can be divided; `forecasts` needs the
calibration of all. A group without lag is drained: it has no forecast and is no case.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spark_analytics.forecasts import conformal
from spark_analytics.forecasts.conformal import Booleans, Calibration, Cases, Doubles, Longs, Rule

METHOD = "replay of the last 14 days"
DAY_MINUTES = 1440
DAY_MS = 86_400_000
MINUTE_SECONDS = 60.0
DAY_SECONDS = 86_400.0
DAYS_MAX = 14
"""Earlier days that are replayed, at most."""
DAYS_MIN = 3
"""Fewer say nothing: unknown."""
SPEED_MINUTES = 30
"""The minutes whose mean is the speed of now, and whose first and last lag say whether it falls."""
WAITING_MINUTES = (2.0, 20.0, 120.0)
"""Where classes by size begin: lag in minutes of arrivals."""
CLASSES = (
    "below_2_minutes", "below_20_minutes", "below_2_hours", "from_2_hours",
    "falling_below_2_minutes", "falling_below_20_minutes", "falling_below_2_hours", "falling_from_2_hours",
)  # fmt: skip
"""Names of the classes, by number."""
RULE = Rule("drain", len(CLASSES), scores_max=100, scores_min=30, step=0.02, is_shared=True, kept_ms=60 * DAY_MS)
_BLOCKS = (0, 15, 60, 240, DAY_MINUTES)
"""Minutes at which replays that are drained are dropped: most are drained early, so most minutes are never computed."""


@dataclass(frozen=True, slots=True)
class Points:
    """Forecasts without intervals of groups with lag; arrays of one length."""

    groups: Longs
    """Row of the history."""
    minutes: Doubles
    """Until the lag is drained, at most DAY_MINUTES, which stands for later ones; NaN: unknown."""
    classes: Longs
    """Number in CLASSES."""


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Arrays of one length, in seconds; inf: not within a day; NaN: unknown."""

    low_seconds: Doubles
    mid_seconds: Doubles
    high_seconds: Doubles


@dataclass(frozen=True, slots=True)
class History:
    """Minutes of groups; a minute of the history is a column."""

    arrived: Doubles
    """(groups, minutes + 1): messages that arrived before each minute, ascending, and before the end of the last; no NaN."""
    lag: Doubles
    """(groups, minutes + 1): messages, at the beginning of each minute and at the end of the last; NaN: not known."""
    was_reset: Booleans
    """(groups, minutes): whether the group was set elsewhere within the minute, so that its lag says nothing about its speed."""
    known_from: Longs
    """(groups,): the first minute of a group, or how many minutes too late it comes."""


def points(history: History, at: int) -> Points:
    """Return a point for each group that has lag at a time.

    It is the median of replays: the lag of now, plus what arrived on an earlier day from this time of day on, less what is consumed
    at the speed of now, until nothing is left. The last DAYS_MAX days are replayed; with fewer than DAYS_MIN the point is unknown.

    Args:
        at: the minute whose beginning is now; what is behind it in the history does not count.

    Raises:
        ValueError: fewer than SPEED_MINUTES minutes lie before it, or it lies behind the history.
    """
    arrived, lag = history.arrived, history.lag
    if not SPEED_MINUTES <= at < lag.shape[1]:
        raise ValueError(f"minute {at} of a history of {lag.shape[1] - 1}: must be from {SPEED_MINUTES} to its end")
    groups = np.flatnonzero(lag[:, at] > 0)
    now = lag[groups, at]
    speed = _speeds(history, groups, at)
    days = np.minimum((at - history.known_from[groups]) // DAY_MINUTES, DAYS_MAX)
    drained = np.full((len(groups), DAYS_MAX), np.nan)
    for day in range(1, int(days.max(initial=0)) + 1):
        rows = np.flatnonzero(days >= day)
        drained[rows, day - 1] = _replayed(arrived, groups[rows], now[rows], speed[rows], at - day * DAY_MINUTES)
    minutes = np.full(len(groups), np.nan)
    is_known = days >= DAYS_MIN
    minutes[is_known] = np.nanmedian(drained[is_known], axis=1)
    return Points(groups, minutes, _classes(arrived, lag, groups, at))


def _speeds(history: History, groups: Longs, at: int) -> Doubles:
    """Messages a minute: the mean of the last minutes with lag; if that is 0, the median of the history's busy minutes, else 0.

    What lag loses counts as consumed, so what a filter leaves out and what retention removes does too.
    """
    consumed, has_lag = _consumed(history, groups, at - SPEED_MINUTES, at)
    speed: Doubles = np.where(has_lag, consumed, 0.0).sum(axis=1) / np.maximum(has_lag.sum(axis=1), 1)
    for row in np.flatnonzero(speed <= 0):
        consumed, has_lag = _consumed(history, groups[row : row + 1], max(0, at - DAYS_MAX * DAY_MINUTES), at)
        busy = consumed[has_lag & (consumed > 0)]
        speed[row] = np.median(busy) if len(busy) else 0.0
    return speed


def _consumed(history: History, groups: Longs, begin: int, end: int) -> tuple[Doubles, Booleans]:
    """Messages consumed in each minute, and whether the minute counts in the speed: it has lag at its end, and no reset."""
    lag = history.lag[groups, begin : end + 1]
    consumed = np.diff(history.arrived[groups, begin : end + 1]) - np.diff(lag)
    return consumed, (lag[:, 1:] > 0) & ~history.was_reset[groups, begin:end] & ~np.isnan(consumed)


def _replayed(arrived: Doubles, groups: Longs, lag: Doubles, speed: Doubles, begin: int) -> Doubles:
    """Minutes until the lag is drained if as much arrives as from a minute of the history on; at most DAY_MINUTES."""
    minutes = np.full(len(groups), float(DAY_MINUTES))
    before = arrived[groups, begin]
    pending = np.arange(len(groups))
    for low, high in pairwise(_BLOCKS):
        passed = np.arange(low + 1, high + 1)
        left = arrived[groups[pending], begin + low + 1 : begin + high + 1] - passed * speed[pending, None]
        is_drained = left <= (before - lag)[pending, None]
        first = is_drained.argmax(axis=1)
        is_found = is_drained[np.arange(len(pending)), first]
        minutes[pending[is_found]] = low + 1 + first[is_found]
        pending = pending[~is_found]
    return minutes


def _classes(arrived: Doubles, lag: Doubles, groups: Longs, at: int) -> Longs:
    begin = max(0, at - DAY_MINUTES)
    arrivals = (arrived[groups, at] - arrived[groups, begin]) / (at - begin)
    waiting = lag[groups, at] / np.maximum(arrivals, 1e-9)
    size = np.searchsorted(WAITING_MINUTES, waiting, side="right")
    is_falling = lag[groups, at] < lag[groups, at - SPEED_MINUTES]
    return np.asarray(size + is_falling * (len(WAITING_MINUTES) + 1), dtype=np.int64)


def forecasts(calibration: Calibration, series: Longs, made: Points) -> Forecasts:
    """Return the forecasts of points with intervals from what came due.

    Args:
        series: row of the calibration of each point.
    """
    found = conformal.intervals(RULE, calibration, series, made.classes)
    low, mid, high = (
        _seconds(made.minutes * np.exp(score)) for score in (found.low, np.zeros(len(series)), found.high)
    )
    return Forecasts(low, mid, high)


def _seconds(minutes: Doubles) -> Doubles:
    return np.where(minutes >= DAY_MINUTES, np.inf, minutes * MINUTE_SECONDS)


def drained_minutes(lag: Doubles, groups: Longs, at: int) -> Doubles:
    """Return the minutes from a time to the end of the first one without lag, within a day; inf: none; NaN: not known.

    Args:
        lag: as in `History`, with a day behind the time.
    """
    ahead = lag[groups, at + 1 : at + 1 + DAY_MINUTES]
    is_end = ~(ahead > 0)
    first = is_end.argmax(axis=1)
    found = np.where(is_end.any(axis=1), first + 1.0, np.inf)
    found[np.isnan(ahead[np.arange(len(groups)), first])] = np.nan
    return found


def cases(series: Longs, classes: Longs, made: Forecasts, truth_minutes: Doubles, made_ms: Longs) -> Cases:
    """Return the cases of forecasts that were made a day ago; of those without a point or a truth there are none.

    All come due a day after they were made: if lags that drain early came due early, they would be too many among the latest.

    Args:
        truth_minutes: as from `drained_minutes`.
    """
    is_case = ~np.isnan(made.mid_seconds) & ~np.isnan(truth_minutes)
    truth = truth_minutes[is_case] * MINUTE_SECONDS
    return Cases(
        series[is_case],
        classes[is_case],
        np.log(truth / np.minimum(made.mid_seconds[is_case], DAY_SECONDS)),
        conformal.missed(made.low_seconds[is_case], made.high_seconds[is_case], truth),
        made_ms[is_case] + DAY_MS,
    )
