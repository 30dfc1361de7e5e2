"""`python -m benchmarks.forecasts`: how forecasts and anomalies do on simulated series, and what they take; prints tables.

Each seed simulates lag, disks and traffic (tests/support/analytics/simulated_series.py), and the forecasts of each hour are made as
jobs make them. Then the seconds for an hour of 20,000 groups with lag, on one core: 14 days of minutes each, in parts as executors
have them; the calibration is full. Nothing here asserts: figures go to docs/performance.md by hand, with the date.
"""

import argparse
import resource
import time
from zoneinfo import ZoneInfo

import numpy as np

from spark_analytics.forecasts import anomalies, conformal, drain
from tests.support.analytics.forecast_figures import (
    Outcomes,
    changes_found_percents,
    disk_outcomes,
    drain_outcomes,
    drain_percents,
    flagged_percents,
)
from tests.support.analytics.simulated_series import (
    DISK_KINDS,
    FIRST_HOUR_MS,
    ZONE,
    disk_series,
    lag_series,
    traffic_series,
)

GROUPS = 20_000
PART = 1_000
"""Groups whose minutes are in memory at once."""


def table(title: str, rows: dict[str, dict[str, float]]) -> None:
    """Print rows by name, with a column for each key of the first."""
    columns = list(next(iter(rows.values())))
    print(f"\n| {title} | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(f'{value:.2f}'.removesuffix('.00') for value in row.values())} |", flush=True)


def drain_row(outcomes: Outcomes) -> dict[str, float]:
    """What the table says of some drain forecasts."""
    return {
        **drain_percents(outcomes),
        "all": outcomes.held_percent(),
        "width": outcomes.width(),
        "bounded %": outcomes.bounded_percent(),
        "known %": 100 * float(outcomes.is_known.mean()),
        "cases": float(len(outcomes.days)),
    }


def figures(seeds: range) -> None:
    """Print the figures of each seed."""
    drains, classes, disks, flagged, stopped, halved = {}, {}, {}, {}, {}, {}
    for seed in seeds:
        outcomes = drain_outcomes(lag_series(seed))
        for name, first, last in (("4 to 6", 4, 6), ("7 to 13", 7, 13), ("14 and later", 14, 99)):
            chosen = outcomes.among((outcomes.days >= first) & (outcomes.days <= last))
            drains[f"seed {seed}, days {name}"] = drain_row(chosen)
        classes[f"seed {seed}"] = {
            name: chosen.among(chosen.classes == number).held_percent() for number, name in enumerate(drain.CLASSES)
        }
        outcomes = disk_outcomes(*disk_series(seed))
        outcomes = outcomes.among(outcomes.days >= 21)
        disks[f"seed {seed}"] = {kind: outcomes.among(outcomes.kinds == kind).held_percent() for kind in DISK_KINDS}
        kinds, traffic = traffic_series(seed)
        flagged[f"seed {seed}"] = flagged_percents(kinds, traffic)
        stopped[f"seed {seed}"] = changes_found_percents(kinds, traffic, 0.0, seed)
        halved[f"seed {seed}"] = changes_found_percents(kinds, traffic, 0.5, seed)
    table("drain forecasts that held, %", drains)
    table("the same by class, days 14 and later", classes)
    table("growth of a day that held, %, days 21 and later", disks)
    table("hours flagged falsely, %", flagged)
    table("traffic that stops for 3 hours: found, %", stopped)
    table("traffic that falls to a half for 3 hours: found, %", halved)


def speed() -> None:
    """Print the seconds of one hour for GROUPS groups."""
    random = np.random.default_rng(1)
    minutes = drain.DAYS_MAX * drain.DAY_MINUTES
    arrivals = random.poisson(20, (PART, minutes + drain.DAY_MINUTES)).astype(np.float64)
    arrived = np.hstack([np.zeros((PART, 1)), np.cumsum(arrivals, axis=1)])
    # Lag that falls by 0 to 30 messages a minute: some drains soon, some never.
    ahead = np.arange(minutes, minutes - arrived.shape[1], -1)
    lag = np.maximum(0, random.uniform(20, 20_000, (PART, 1)) + ahead * random.uniform(0, 30, (PART, 1)))
    was_reset, known_from = np.zeros((PART, arrived.shape[1] - 1), dtype=bool), np.zeros(PART, dtype=np.int64)
    history = drain.History(arrived, lag, was_reset, known_from)
    seconds: dict[str, float] = {}

    def measured(name: str, began: float) -> None:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began

    found = []
    for _ in range(GROUPS // PART):
        began = time.perf_counter()
        found.append(drain.points(history, minutes))
        measured("points", began)
        began = time.perf_counter()
        drain.drained_minutes(lag, found[-1].groups, minutes)
        measured("truths", began)
    points = drain.Points(
        np.arange(sum(len(each.groups) for each in found)),
        np.concatenate([each.minutes for each in found]),
        np.concatenate([each.classes for each in found]),
    )
    keys = [("subject", str(number)) for number in range(GROUPS)]
    calibration = conformal.extended(conformal.empty(drain.RULE), keys)
    calibration.scores[:] = random.normal(0, 1, calibration.scores.shape)
    began = time.perf_counter()
    forecasts = drain.forecasts(calibration, points.groups, points)
    measured("intervals", began)
    began = time.perf_counter()
    truth = random.uniform(1, 300, GROUPS)
    cases = drain.cases(points.groups, points.classes, forecasts, truth, np.full(GROUPS, FIRST_HOUR_MS))
    calibration = conformal.learned(drain.RULE, calibration, cases)
    measured("learning", began)
    began = time.perf_counter()
    rows = conformal.to_table(drain.RULE, calibration)
    measured("state to rows", began)
    began = time.perf_counter()
    conformal.from_table(drain.RULE, rows)
    measured("state from rows", began)
    hours = random.poisson(100, (PART, anomalies.LOOKBACK_HOURS + 24)).astype(np.float64)
    for _ in range(GROUPS // PART):
        for name, count in (("anomalies of an hour", 1), ("anomalies of a day", 24)):
            began = time.perf_counter()
            anomalies.judged(hours, FIRST_HOUR_MS, ZoneInfo(ZONE), count)
            measured(name, began)
    table(f"{GROUPS:,} groups", {"seconds": seconds})
    print(
        f"\nstate: {rows.nbytes / 1e6:.0f} MB; greatest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.forecasts", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    figures(range(1, options.seeds + 1))
    speed()


if __name__ == "__main__":
    main()
