"""What differs from the same hour of earlier weeks, in a time zone. Stateless: everything comes from 12 weeks of hours.

Values count something per hour, or are of that size: 1 is the difference that begins to matter, as log(1 + value) is compared.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from spark_analytics.forecasts.conformal import Booleans, Doubles, Longs

HOUR_MS = 3_600_000
DAY_HOURS = 24
WEEK_HOURS = 168
WEEKS_MAX = 8
"""Earlier weeks that are compared with, at most."""
WEEKS_YOUNG = 4
"""With fewer weeks of an hour, the same hour of the last days counts too: with w weeks, by 1 - w / WEEKS_YOUNG."""
DAYS = 7
"""Earlier days that count while a series is young."""
VALUES_MIN = 3
"""Earlier values of an hour, of weeks and days together, below which nothing is expected."""
ERRORS_HOURS = 4 * WEEK_HOURS
"""Hours before an hour whose errors it is ranked among."""
ERRORS_MIN = WEEK_HOURS
"""Errors below which an hour is not judged."""
OUTER_RATIO = 0.02
"""Share of hours that are outer ones: half of it at each end, as errors downwards are often smaller than those upwards."""
LOOKBACK_HOURS = WEEKS_MAX * WEEK_HOURS + ERRORS_HOURS + 2
"""Hours before a window that its hours are judged by: those of the hour before the first, and one more where clocks change."""
SERIES_AT_ONCE = 1_000
"""Series that are computed together: some 100 KB each."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Arrays (series, hours of the window). NaN: not judged; then nothing is flagged."""

    expected: Doubles
    low: Doubles
    """The end of what is not outer, at least 0."""
    high: Doubles
    score: Doubles
    """The error in half distances between the ends, with its sign; 0 if they are equal."""
    is_flagged: Booleans


def local_hours(first_ms: int, hours_count: int, zone: ZoneInfo) -> Longs:
    """Return the local hour of each hour, as hours since 1970 by the clocks of a zone.

    Where clocks go forward a number is left out; where they go back, two hours have the same.
    """
    found = []
    for at in range(first_ms // HOUR_MS, first_ms // HOUR_MS + hours_count):
        offset = datetime.fromtimestamp(at * 3600, zone).utcoffset() or timedelta(0)
        found.append(at + int(offset.total_seconds() // 3600))
    return np.array(found, dtype=np.int64)


def judged(values: Doubles, first_ms: int, zone: ZoneInfo, hours_count: int) -> Judged:
    """Judge the last hours of series.

    An hour is flagged if it and the one before are outer ones in one direction: if their errors, the differences of log(1 + value)
    from the expected one, rank in the outer OUTER_RATIO of those of the 4 weeks before. Expected is the median of the same local
    hour of the week in earlier weeks, for young series mixed with that of the same hour of the last days.

    Args:
        values: (series, hours), at least 0; NaN: not measured. LOOKBACK_HOURS before the window count, fewer if there are fewer.
        first_ms: when the first hour begins, in ms since the epoch.
        hours_count: hours of the window, at the end of the values.

    Raises:
        ValueError: there are fewer hours than the window has, or a value is negative.
    """
    if values.shape[1] < hours_count:
        raise ValueError(f"values of {values.shape[1]} hours for a window of {hours_count}")
    if np.nanmin(values, initial=0.0) < 0:
        raise ValueError(f"the value {np.nanmin(values)} is negative: counts and durations are required")
    surplus = max(0, values.shape[1] - hours_count - LOOKBACK_HOURS)
    local = local_hours(first_ms + surplus * HOUR_MS, values.shape[1] - surplus, zone)
    found = [
        _judged(np.log1p(values[at : at + SERIES_AT_ONCE, surplus:]), local - local.min(), hours_count)
        for at in range(0, len(values), SERIES_AT_ONCE)
    ]
    if not found:
        none = np.empty((0, hours_count))
        return Judged(none, none, none, none, none.astype(bool))
    return Judged(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _judged(logs: Doubles, local: Longs, hours_count: int) -> tuple[Doubles, Doubles, Doubles, Doubles, Booleans]:
    """The fields of `Judged` for logarithms of values."""
    begin = max(0, logs.shape[1] - hours_count - 1 - ERRORS_HOURS)
    expected = _expected(logs, local, begin)
    errors = logs[:, begin:] - expected
    # The hours of the window, and the one before it.
    hours = range(max(0, errors.shape[1] - hours_count - 1), errors.shape[1])
    low, high = _ends(errors, hours)
    error, expected = errors[:, hours.start :], expected[:, hours.start :]
    outer = (error > high).astype(np.int64) - (error < low)
    is_flagged = np.zeros(outer.shape, dtype=bool)
    is_flagged[:, 1:] = (outer[:, 1:] != 0) & (outer[:, 1:] == outer[:, :-1])
    half = (high - low) / 2
    score = np.divide(error, half, out=np.where(np.isnan(error + half), np.nan, 0.0), where=half > 0)
    columns = (
        np.expm1(expected),
        np.maximum(0, np.expm1(expected + low)),
        np.expm1(expected + high),
        score,
        is_flagged,
    )
    return tuple(column[:, -hours_count:] for column in columns)  # type: ignore[return-value]


def _expected(logs: Doubles, local: Longs, begin: int) -> Doubles:
    """The expected logarithms of the hours from `begin` on."""
    by_local = np.full((len(logs), local.max() + 1), np.nan)
    by_local[:, local] = logs
    weekly, weeks = _median_before(by_local, local[begin:], WEEK_HOURS, WEEKS_MAX)
    if weeks.min(initial=WEEKS_YOUNG) >= WEEKS_YOUNG:
        return weekly
    daily, days = _median_before(by_local, local[begin:], DAY_HOURS, DAYS)
    share = np.minimum(weeks / WEEKS_YOUNG, 1.0)
    mixed = share * np.nan_to_num(weekly) + (1 - share) * np.where(np.isnan(daily), weekly, daily)
    return np.where(weeks + days < VALUES_MIN, np.nan, np.where(weeks >= WEEKS_YOUNG, weekly, mixed))


def _median_before(by_local: Doubles, local: Longs, period: int, count_max: int) -> tuple[Doubles, Longs]:
    """The median of what local hours were one period before, two and so on, and the number of values; NaN: none."""
    earlier = np.full((count_max, len(by_local), len(local)), np.nan)
    for number in range(1, count_max + 1):
        at = local - number * period
        earlier[number - 1][:, at >= 0] = by_local[:, at[at >= 0]]
    earlier.sort(axis=0)  # NaN last
    count = (~np.isnan(earlier)).sum(axis=0)
    middle = np.stack([np.maximum(count - 1, 0) // 2, np.minimum(count // 2, count_max - 1)])
    return np.take_along_axis(earlier, middle, axis=0).mean(axis=0), count


def _ends(errors: Doubles, hours: range) -> tuple[Doubles, Doubles]:
    """The least and the greatest error of each hour that is not an outer one, from the ERRORS_HOURS before it; NaN: too few."""
    low, high = np.full((2, len(errors), len(hours)), np.nan)
    for column, hour in enumerate(hours):
        before = np.sort(errors[:, max(0, hour - ERRORS_HOURS) : hour], axis=1)  # NaN last
        count = (~np.isnan(before)).sum(axis=1)
        rows = np.flatnonzero(count >= ERRORS_MIN)
        outer = (OUTER_RATIO / 2 * (count[rows] + 1)).astype(np.int64)
        low[rows, column], high[rows, column] = before[rows, outer - 1], before[rows, count[rows] - outer]
    return low, high
