"""Forecasts and flags in the summary tables, scored by what other rows say happened then."""

from typing import Any

import pytest

from console.analytics import services
from console.analytics.rows import Window as Published
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from spark_analytics.jobs.scoring import score_rows
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, MINUTE_MS, Window

pytestmark = pytest.mark.django_db

T = 20_000 * DAY_MS
"""When forecasts are made: the end of the hour before."""


def publish(table: str, step: Step, *rows: dict[str, Any]) -> None:
    columns = {column.name: None for column in TABLES[table].columns}
    run = services.start_run("test")
    whole = [{**columns, **row} for row in rows]
    services.publish(run, table, whole, step=step, window=Published(T - 3 * DAY_MS, T + 3 * DAY_MS))
    services.finish_run(run)


def drain(
    group: str, low: float | None, high: float | None, lag: int = 5, at_ms: int = T, **more: Any
) -> dict[str, Any]:
    outlook = "expected" if high is not None else "possible" if low is not None else "never"
    found = {"outlook": outlook, "method": "m", "drain_seconds_low": low, "drain_seconds_high": high, **more}
    return {"at_ms": at_ms - HOUR_MS, "subject": "s", "group": group, "lag_messages_last": lag, **found}


def lag(group: str, at_ms: int, least: int) -> dict[str, Any]:
    return {"at_ms": at_ms, "subject": "s", "group": group, "lag_messages_min": least}


def test_drain_forecasts_are_scored_when_they_come_due() -> None:
    publish(
        "drain_forecasts",
        Step.HOUR,
        drain("early", 1800.0, 3600.0),
        drain("inside", 1800.0, 3600.0),
        drain("not drained", 1800.0, 3600.0),
        drain("deleted", 1800.0, 3600.0),
        drain("due later", 1800.0, 9000.0),
        drain("no lag", 0.0, 0.0, lag=0),
        drain("nothing measured", None, None, outlook="unknown"),
        drain("never", None, None, at_ms=T - DAY_MS + HOUR_MS),
    )
    minutes = [
        lag("early", T - MINUTE_MS, 0),
        lag("early", T + 10 * MINUTE_MS, 0),
        lag("inside", T + 10 * MINUTE_MS, 3),
        lag("inside", T + 40 * MINUTE_MS, 0),
        lag("inside", T + 50 * MINUTE_MS, 0),
        lag("not drained", T - 5 * MINUTE_MS, 0),
        lag("not drained", T + 70 * MINUTE_MS, 0),
        lag("due later", T + 10 * MINUTE_MS, 0),
        lag("never", T + 10 * MINUTE_MS, 1),
    ]
    publish("lag", Step.MINUTE, *minutes)
    publish("lag", Step.HOUR, *(lag(name, T, 1) for name in ("early", "inside", "not drained", "due later", "never")))
    expected = (T, "drain_forecasts", 4, 2, 0.8)
    assert score_rows(Window(T, T + HOUR_MS), (HOUR_MS,)) == [(HOUR_MS, *expected)]
    day = T - T % DAY_MS
    assert (DAY_MS, day, *expected[1:]) in score_rows(Window(day, day + HOUR_MS), (HOUR_MS, DAY_MS))
    assert score_rows(Window(T - HOUR_MS, T), (HOUR_MS,)) == []
    assert score_rows(Window(T + HOUR_MS, T + 2 * HOUR_MS), (HOUR_MS,)) == []
    (later,) = score_rows(Window(T + 2 * HOUR_MS, T + 3 * HOUR_MS), (HOUR_MS,))
    assert later == (HOUR_MS, T + 2 * HOUR_MS, "drain_forecasts", 1, 0, 0.8)


def test_disk_forecasts_are_scored_a_day_later() -> None:
    def disk(node_id: str, at_ms: int, used: int) -> dict[str, Any]:
        speeds = {"full_seconds_low": 1_000.0, "full_seconds_high": 1_000_000.0, "growth_bytes_per_second": 500.5}
        sizes = {"disk_used_bytes_last": used, "disk_total_bytes_last": 1_000_000}
        key = {"broker_group": "g1", "node_id": node_id, "outlook": "expected", "method": "m"}
        return {"at_ms": at_ms - HOUR_MS, **key, **sizes, **speeds}

    rows = [disk("a", T, 0), disk("a", T + DAY_MS, 86_400), disk("b", T, 0), disk("b", T + DAY_MS, 5), disk("c", T, 0)]
    publish("disk_forecasts", Step.HOUR, *rows)
    window = Window(T + DAY_MS - HOUR_MS, T + DAY_MS)
    assert score_rows(window, (HOUR_MS,)) == [(HOUR_MS, window.from_ms, "disk_forecasts", 2, 1, 0.8)]


def test_flags_are_scored_by_the_next_hour() -> None:
    def anomaly(subject: str, hour: int, score: float) -> dict[str, Any]:
        key = {"at_ms": T + hour * HOUR_MS, "subject": subject, "group": "", "metric": "sent_messages_per_second"}
        return {**key, "value": 1.0, "score": score, "is_flagged": abs(score) > 4}

    rows = [("lasts", 9.0, 8.0), ("turns", 9.0, -8.0), ("ends", 9.0, 1.0), ("calm", 0.0, 0.0)]
    values = [anomaly(subject, hour, score) for subject, *scores in rows for hour, score in enumerate(scores)]
    publish("anomalies", Step.HOUR, *values, anomaly("last seen", 0, 7.0))
    assert score_rows(Window(T, T + HOUR_MS), (HOUR_MS,)) == [(HOUR_MS, T, "anomalies", 5, 1, None)]
    second = T + HOUR_MS
    assert score_rows(Window(second, second + HOUR_MS), (HOUR_MS,)) == [
        (HOUR_MS, second, "anomalies", 4, 2, None),
        (HOUR_MS, second, "anomaly_flags", 3, 1, None),
    ]
