"""Forecasts of simulated series, hour by hour as jobs make them, and how they came out: by kind, in percent."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from spark_analytics.forecasts import anomalies, conformal, disk, drain
from tests.support.analytics.simulated_series import (
    DAY_MINUTES,
    FIRST_HOUR_MS,
    LAG_KINDS,
    SAMPLES_PER_DAY,
    ZONE,
    Doubles,
    LagSeries,
)

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
JUDGED_FROM_HOUR = 36 * 24
STOPPED_HOURS = 3


@dataclass(frozen=True)
class Outcomes:
    """Forecasts and truths; arrays of one length, in seconds or bytes."""

    days: NDArray[np.int64]
    """On which day each forecast was made."""
    kinds: NDArray[np.str_]
    classes: NDArray[np.int64]
    low: Doubles
    high: Doubles
    truth: Doubles

    def among(self, chosen: NDArray[np.bool_]) -> "Outcomes":
        """Return some of them."""
        fields = (self.days, self.kinds, self.classes, self.low, self.high, self.truth)
        return Outcomes(*(field[chosen] for field in fields))

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether there was an interval."""
        return ~np.isnan(self.low)

    def held_percent(self) -> float:
        """Of the known ones, how many held."""
        missed = conformal.missed(self.low, self.high, self.truth)[self.is_known]
        return 100 * float((missed.sum(axis=1) == 0).mean())

    def bounded_percent(self) -> float:
        """Of the known ones, how many have an upper end."""
        return 100 * float(np.isfinite(self.high[self.is_known]).mean())

    def width(self) -> float:
        """The median of upper over lower end, where there is an upper end."""
        bounded = np.isfinite(self.high)
        low, high = self.low[bounded], self.high[bounded]
        return float(np.median(np.divide(high, low, out=np.full(len(low), np.inf), where=low > 0)))


DrainsMade = dict[int, tuple[drain.Points, drain.Forecasts, Doubles]]
"""By the minute at which forecasts are made: of the groups with lag the points, the forecasts, and after how many minutes each lag
was drained."""


def drains_made(series: LagSeries) -> DrainsMade:
    """Forecasts at each hour's end, from the third day on, whose truth the series still have."""
    count, minutes = len(series.kinds), series.lag.shape[1] - 1
    history = drain.History(
        series.arrived, series.lag, np.zeros((count, minutes), dtype=bool), np.zeros(count, dtype=np.int64)
    )
    calibration = conformal.extended(conformal.empty(drain.RULE), [("subject", str(group)) for group in range(count)])
    made: DrainsMade = {}
    for at in range(3 * DAY_MINUTES, minutes - DAY_MINUTES + 1, 60):
        if at - DAY_MINUTES in made:
            points, forecasts, truth = made[at - DAY_MINUTES]
            made_ms = np.full(len(truth), (at - DAY_MINUTES) * MINUTE_MS)
            cases = drain.cases(points.groups, points.classes, forecasts, truth, made_ms)
            calibration = conformal.learned(drain.RULE, calibration, cases)
        points = drain.points(history, at)
        forecasts = drain.forecasts(calibration, points.groups, points)
        made[at] = points, forecasts, drain.drained_minutes(series.lag, points.groups, at)
    return made


def drain_outcomes(series: LagSeries) -> Outcomes:
    """How they came out."""
    made = drains_made(series)
    all_made = list(made.values())
    groups = np.concatenate([points.groups for points, _, _ in all_made])
    return Outcomes(
        np.repeat([at // DAY_MINUTES for at in made], [len(points.groups) for points, _, _ in all_made]),
        series.kinds[groups],
        np.concatenate([points.classes for points, _, _ in all_made]),
        np.concatenate([forecasts.low_seconds for _, forecasts, _ in all_made]),
        np.concatenate([forecasts.high_seconds for _, forecasts, _ in all_made]),
        np.concatenate([truth for _, _, truth in all_made]) * drain.MINUTE_SECONDS,
    )


def drain_percents(outcomes: Outcomes) -> dict[str, float]:
    """How many of each kind held."""
    return {kind: outcomes.among(outcomes.kinds == kind).held_percent() for kind in LAG_KINDS}


def disk_outcomes(kinds: NDArray[np.str_], used: Doubles) -> Outcomes:
    """Forecasts of the next day's growth at each hour whose truth the series still have."""
    hourly = used[:, :: SAMPLES_PER_DAY // 24]
    count, hours = hourly.shape
    series = np.arange(count)
    calibration = conformal.extended(conformal.empty(disk.RULE), [("broker-1", str(number)) for number in series])
    made: dict[int, disk.Forecasts] = {}
    truth = {hour: hourly[:, hour + 24] - hourly[:, hour] for hour in range(hours - 24)}
    for hour in range(24, hours - 24):
        if hour - 24 in made:
            made_ms = np.full(count, (hour - 24) * HOUR_MS)
            cases = disk.cases(series, made[hour - 24], truth[hour - 24], made_ms)
            calibration = conformal.learned(disk.RULE, calibration, cases)
        before = [hour - back_ms // HOUR_MS for back_ms in disk.LOOKBACK_MS]
        samples = np.stack([hourly[:, at] if at >= 0 else np.full(count, np.nan) for at in before], axis=1)
        made[hour] = disk.forecasts(calibration, series, disk.growth(samples))
    return Outcomes(
        np.repeat([hour // 24 for hour in made], count),
        np.tile(kinds, len(made)),
        np.zeros(len(made) * count, dtype=np.int64),
        np.concatenate([forecasts.low_bytes for forecasts in made.values()]),
        np.concatenate([forecasts.high_bytes for forecasts in made.values()]),
        np.concatenate([truth[hour] for hour in made]),
    )


def flagged_percents(kinds: NDArray[np.str_], traffic: Doubles) -> dict[str, float]:
    """How many hours of each kind are flagged, from JUDGED_FROM_HOUR on; nothing is wrong with any."""
    hours = traffic.shape[1] - JUDGED_FROM_HOUR
    found = anomalies.judged(traffic, FIRST_HOUR_MS, ZoneInfo(ZONE), hours)
    return {str(kind): 100 * float(found.is_flagged[kinds == kind].mean()) for kind in dict.fromkeys(kinds)}


def changes_found_percents(
    kinds: NDArray[np.str_], traffic: Doubles, factor: float, seed: int, repeats: int = 8
) -> dict[str, float]:
    """In how many cases of each kind traffic that falls to a part of itself for STOPPED_HOURS is flagged, at random hours."""
    random = np.random.default_rng(seed)
    found = []
    for begin in random.integers(JUDGED_FROM_HOUR, traffic.shape[1] - STOPPED_HOURS, repeats):
        changed = traffic[:, : begin + STOPPED_HOURS].copy()
        changed[:, begin:] = np.floor(factor * changed[:, begin:])
        found.append(anomalies.judged(changed, FIRST_HOUR_MS, ZoneInfo(ZONE), STOPPED_HOURS).is_flagged.any(axis=1))
    return {str(kind): 100 * float(np.mean(found, axis=0)[kinds == kind].mean()) for kind in dict.fromkeys(kinds)}
