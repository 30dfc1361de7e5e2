"""When a disk is full: growth of the next day from yesterday's and last week's, with an interval from earlier errors."""

from dataclasses import dataclass

import numpy as np

from spark_analytics.forecasts import conformal
from spark_analytics.forecasts.conformal import Calibration, Cases, Doubles, Longs, Rule

METHOD = "mean of yesterday's growth and last week's"
CASE_MS = 6 * 3_600_000
"""Forecasts that were made at multiples of this are cases. Those of neighbouring hours are about almost the same day: as cases they
would move the levels to and fro, by 24 steps before it is known whether the first one was enough."""
DAY_MS = 86_400_000
DAY_SECONDS = 86_400.0
LOOKBACK_MS = (0, DAY_MS, 6 * DAY_MS, 7 * DAY_MS)
"""How long before a forecast the samples were taken that it rests on."""
RULE = Rule(
    "disk", 1, scores_max=14 * DAY_MS // CASE_MS, scores_min=48, step=0.01, is_shared=False, kept_ms=60 * DAY_MS
)
"""Scores are errors in bytes, those of 14 days."""


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Arrays of one length: bytes by which a disk grows within a day. -inf or inf: no end; NaN: unknown."""

    low_bytes: Doubles
    mid_bytes: Doubles
    high_bytes: Doubles


def growth(used: Doubles) -> Doubles:
    """Return by how many bytes each disk grows within a day.

    It is the mean of the day before now and of the day that began a week ago, the same weekday as the next. While only one of the
    two was measured, that one; NaN: none.

    Args:
        used: (disks, 4), bytes that were used at LOOKBACK_MS before now; NaN: not measured.
    """
    yesterday, last_week = used[:, 0] - used[:, 1], used[:, 2] - used[:, 3]
    both = (yesterday + last_week) / 2
    return np.where(np.isnan(both), np.where(np.isnan(yesterday), last_week, yesterday), both)


def forecasts(calibration: Calibration, series: Longs, growth_bytes: Doubles) -> Forecasts:
    """Return the growth of a day with intervals from what came due.

    Args:
        series: row of the calibration of each disk.
    """
    found = conformal.intervals(RULE, calibration, series, np.zeros(len(series), dtype=np.int64))
    return Forecasts(growth_bytes + found.low, growth_bytes, growth_bytes + found.high)


def full_seconds(free_bytes: Doubles, growth_bytes: Doubles) -> Doubles:
    """Return the seconds until disks are full that grow by so much a day; inf: never; NaN: unknown; 0: full already.

    The earliest time comes from the upper end of the growth.
    """
    seconds = np.full(len(free_bytes), np.inf)
    is_growing = growth_bytes > 0
    seconds[is_growing] = free_bytes[is_growing] / growth_bytes[is_growing] * DAY_SECONDS
    seconds[np.isnan(growth_bytes)] = np.nan
    seconds[free_bytes <= 0] = 0.0
    return seconds


def cases(series: Longs, made: Forecasts, grown_bytes: Doubles, made_ms: Longs) -> Cases:
    """Return the cases of forecasts that were made a day ago; of those without a point or a truth, and of other
    hours than CASE_MS says, there are none.

    Args:
        grown_bytes: how much more was used a day after each was made; NaN: not measured.
    """
    is_case = ~np.isnan(made.mid_bytes) & ~np.isnan(grown_bytes) & (made_ms % CASE_MS == 0)
    truth = grown_bytes[is_case]
    return Cases(
        series[is_case],
        np.zeros(len(truth), dtype=np.int64),
        truth - made.mid_bytes[is_case],
        conformal.missed(made.low_bytes[is_case], made.high_bytes[is_case], truth),
        made_ms[is_case] + DAY_MS,
    )
