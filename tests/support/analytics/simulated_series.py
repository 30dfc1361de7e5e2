"""Simulated series of groups, disks and traffic, from a seed: what forecasts and anomalies are judged by."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
DAY_MINUTES = 1440
LAG_KINDS = ("flat", "bursty", "daily", "weekly", "mixed")


@dataclass(frozen=True)
class LagSeries:
    """Minutes of groups: `arrived` (groups, minutes + 1) adds up, `lag` (groups, minutes + 1) is at the minutes' beginnings."""

    kinds: NDArray[np.str_]
    arrived: Doubles
    lag: Doubles


def log_ar1(random: np.random.Generator, shape: tuple[int, int], steps: float, deviation: float) -> Doubles:
    """Factors of mean 1 whose logarithm forgets itself in a number of steps."""
    keep = np.exp(-1 / steps)
    noise = random.standard_normal(shape) * deviation * np.sqrt(1 - keep**2)
    noise[:, 0] = random.standard_normal(shape[0]) * deviation
    found = np.empty(shape)
    value = np.zeros(shape[0])
    for at in range(shape[1]):
        value = value * keep + noise[:, at]
        found[:, at] = value
    return np.exp(found - deviation**2 / 2)


def lag_series(seed: int, groups: int = 48, days: int = 28) -> LagSeries:
    """Five kinds of groups, `groups` of each."""
    random = np.random.default_rng(seed)
    minutes = np.arange(days * DAY_MINUTES)
    kinds = np.repeat(np.array(LAG_KINDS), groups)
    count = len(kinds)
    rate = 10 ** random.uniform(0.3, 2.7, count)
    shape = np.ones((count, len(minutes)))
    has_day = np.isin(kinds, ("daily", "weekly", "mixed"))
    phase = random.uniform(0, DAY_MINUTES, count)
    swing = 1 + 0.6 * np.sin(2 * np.pi * (minutes[None, :] - phase[:, None]) / DAY_MINUTES)
    shape[has_day] = swing[has_day]
    has_week = np.isin(kinds, ("weekly", "mixed"))
    is_weekend = minutes // DAY_MINUTES % 7 >= 5
    shape[has_week] *= np.where(is_weekend, 0.4, 1.0)
    has_bursts = np.isin(kinds, ("bursty", "mixed"))
    shape[has_bursts] *= log_ar1(random, (int(has_bursts.sum()), len(minutes)), 20, 0.7)
    arrivals = random.poisson(rate[:, None] * shape).astype(np.float64)
    capacity = (rate * random.uniform(1.2, 2.0, count))[:, None] * np.ones(len(minutes))
    capacity *= np.exp(random.normal(0, 0.1, capacity.shape))
    for group in range(count):
        for begin in random.integers(0, len(minutes), random.poisson(0.8 * days)):
            end = begin + int(np.ceil(40 * np.exp(random.normal(0, 0.8))))
            capacity[group, begin:end] *= 0.0 if random.random() < 0.5 else random.uniform(0.2, 0.7)
        for at in random.integers(0, len(minutes), random.poisson(0.5 * days)):
            arrivals[group, at] += np.round(60 * rate[group])
    net = np.cumsum(arrivals - np.floor(capacity), axis=1)
    lag = net - np.minimum(0, np.minimum.accumulate(net, axis=1))
    zero = np.zeros((count, 1))
    return LagSeries(kinds, np.hstack([zero, np.cumsum(arrivals, axis=1)]), np.hstack([zero, lag]))


DISK_KINDS = ("noise", "daily", "weekly", "bursty", "segments", "retention", "mixed")
SAMPLES_PER_DAY = 144
NOISE, NOISE_STEPS = 0.8, 6
GB = 1e9


def disk_series(seed: int, disks: int = 24, days: int = 35) -> tuple[NDArray[np.str_], Doubles]:
    """Seven kinds of disks, `disks` of each: bytes used every 10 minutes, (series, samples).

    Each grows by 5 to 50 GB a day with noise; *segments*: the disk grows by whole files of 1 GB; *retention*: what is two days old
    is deleted in steps of 512 MB; *mixed*: all of it.
    """
    random = np.random.default_rng(seed)
    kinds = np.repeat(np.array(DISK_KINDS), disks)
    at = np.arange((days + 2) * SAMPLES_PER_DAY)
    rate = 10 ** random.uniform(np.log10(5 * GB), np.log10(50 * GB), len(kinds)) / SAMPLES_PER_DAY
    shape = log_ar1(random, (len(kinds), len(at)), NOISE_STEPS, NOISE)
    has_day = np.isin(kinds, ("daily", "mixed"))
    phase = random.uniform(0, SAMPLES_PER_DAY, len(kinds))
    shape[has_day] *= (1 + 0.6 * np.sin(2 * np.pi * (at[None, :] - phase[:, None]) / SAMPLES_PER_DAY))[has_day]
    shape[np.isin(kinds, ("weekly", "mixed"))] *= np.where(at // SAMPLES_PER_DAY % 7 >= 5, 0.4, 1.0)
    has_bursts = np.isin(kinds, ("bursty", "mixed"))
    shape[has_bursts] *= log_ar1(random, (int(has_bursts.sum()), len(at)), 18, 0.8)
    written = np.cumsum(rate[:, None] * shape, axis=1)
    used = written.copy()
    has_retention = np.isin(kinds, ("retention", "mixed"))
    old = np.zeros_like(written)
    old[:, 2 * SAMPLES_PER_DAY :] = written[:, : -2 * SAMPLES_PER_DAY]
    used[has_retention] -= (np.floor(old / 0.512e9) * 0.512e9)[has_retention]
    has_segments = np.isin(kinds, ("segments", "mixed"))
    used[has_segments] = (np.ceil(used / GB) * GB)[has_segments]
    return kinds, used[:, 2 * SAMPLES_PER_DAY :]


TRAFFIC_KINDS = ("even", "weekend", "dst", "lognormal", "bursty", "sparse")
FIRST_HOUR_MS = 1_769_990_400_000
"""2026-02-02T00:00:00Z, a Monday; in America/New_York clocks go forward on 8 March, the 34th day, and in Europe on the 55th."""
ZONE = "Europe/Berlin"


def traffic_series(seed: int, series: int = 25, days: int = 70) -> tuple[NDArray[np.str_], Doubles]:
    """Six kinds of traffic, `series` of each: messages an hour, (series, hours), from FIRST_HOUR_MS on.

    *even*: a coefficient of variation of 20 %; *weekend*: the same at 30 % on weekends; *dst*: follows ZONE's clock, nights are at
    10 %; *lognormal*: deviation 0.8; *bursty*: one hour in 200 begins 3 hours of five times as much; *sparse*: 0.4 an hour.
    """
    random = np.random.default_rng(seed)
    kinds = np.repeat(np.array(TRAFFIC_KINDS), series)
    hours = days * 24
    utc = FIRST_HOUR_MS // 3_600_000 + np.arange(hours)
    zone = ZoneInfo(ZONE)
    local = np.array([utc_hour + _offset_hours(zone, int(utc_hour)) for utc_hour in utc])
    of_day, of_week = local % 24, (local // 24 + 3) % 7
    rate = 10 ** random.uniform(2, 4, len(kinds))
    rate[kinds == "sparse"] = 0.4
    shape = np.repeat(1 + 0.5 * np.sin(2 * np.pi * (of_day - 9) / 24)[None, :], len(kinds), axis=0)
    shape[kinds == "dst"] = np.where((of_day >= 8) & (of_day < 20), 1.0, 0.1)
    shape[kinds == "sparse"] = 1.0
    shape[kinds == "weekend"] *= np.where(of_week >= 5, 0.3, 1.0)
    deviation = np.where(kinds == "lognormal", 0.8, 0.2)[:, None]
    noise = np.exp(deviation * random.standard_normal(shape.shape) - deviation**2 / 2)
    noise[kinds == "sparse"] = 1.0
    begins = (random.random(shape.shape) < 0.005) & (kinds == "bursty")[:, None]
    is_burst = begins.copy()
    is_burst[:, 1:] |= begins[:, :-1]
    is_burst[:, 2:] |= begins[:, :-2]
    noise[is_burst] *= 5
    return kinds, random.poisson(rate[:, None] * shape * noise).astype(np.float64)


def _offset_hours(zone: ZoneInfo, utc_hour: int) -> int:
    offset = datetime.fromtimestamp(utc_hour * 3600, zone).utcoffset()
    return round((offset or timedelta(0)).total_seconds() / 3600)
