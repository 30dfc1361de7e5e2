"""The values of rules about forecasts and anomalies, and when they are missing."""

from typing import Any

import pytest

from console.alerts.forecasts import of_anomalies, of_disks, of_drains
from console.alerts.readings import Reading
from console.alerts.rules import OF_ANALYTICS, Kind
from console.analytics.models import Anomaly, CaseClass, DiskForecast, DrainForecast, Outlook, Scored
from console.analytics.models.summaries import Metric
from console.analytics.newest import doubt, outdated
from console.analytics.queries import Score
from console.reports.events.kinds import BROKER_GROUP_ALERTS, GROUP_ALERTS, NODE_ALERTS
from qmq.protocol.reasons import Code
from tests.support.console.sentences import has_chinese

HOUR_MS = 3_600_000
BEGIN_MS = 500_000 * HOUR_MS
NOW_MS = BEGIN_MS + HOUR_MS


def score(cases_count: int, held_count: int) -> Score:
    return Score(Scored.DRAIN, CaseClass.ALL, cases_count, held_count)


PROVED = score(100, 80)
CLASS = CaseClass.BELOW_20_MINUTES
GIB = 1 << 30
HOURS_OLD = "the newest hour of analytics ended more than 2 hours ago"


def drain(lag: int | None = 5, seconds: float | None = 60.0, case_class: CaseClass = CLASS) -> DrainForecast:
    return DrainForecast(
        subject="orders", group="billing", at_ms=BEGIN_MS, case_class=case_class, lag_messages_last=lag,
        drain_seconds_mid=seconds,
    )  # fmt: skip


def drained(row: DrainForecast, held: Score = PROVED, now_ms: int = NOW_MS) -> Reading:
    (found,) = of_drains([row], {CLASS: held}, now_ms)
    return found


def disk(**values: Any) -> DiskForecast:
    """Half of 100 GiB are used; growth of at most 40 GiB a day."""
    known = {
        "disk_used_bytes_last": 50 * GIB, "disk_total_bytes_last": 100 * GIB,
        "outlook": Outlook.EXPECTED, "growth_bytes_per_second_high": 40 * GIB / 86_400,
    }  # fmt: skip
    return DiskForecast(node_id="g1-a", at_ms=BEGIN_MS, **(known | values))


def full(row: DiskForecast, held: Score = PROVED, now_ms: int = NOW_MS) -> Reading:
    (found,) = of_disks([row], {CaseClass.ALL: held}, now_ms)
    return found


def anomaly(
    metric: Metric = Metric.LAG, group: str = "billing", *, is_flagged: bool = True, value: float = 100.0
) -> Anomaly:
    return Anomaly(
        subject="orders", group=group, at_ms=BEGIN_MS, metric=metric, is_flagged=is_flagged, value=value,
        expected_low=1.0, expected_high=9.25,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cases_count", "held_count", "is_used"),
    [
        (30, 24, True), (29, 24, False), (0, 0, False), (100, 70, True), (100, 69, False), (100, 90, True), (100, 91, False),
    ],
)  # fmt: skip
def test_forecasts_are_used_of_classes_that_have_proved_it(cases_count: int, held_count: int, is_used: bool) -> None:
    assert (doubt(score(cases_count, held_count)) == "") == is_used


def test_an_hour_counts_for_2_hours_after_its_end() -> None:
    assert outdated(BEGIN_MS, NOW_MS + 7_200_000) == ""
    assert outdated(BEGIN_MS, NOW_MS + 7_200_001) == HOURS_OLD


@pytest.mark.parametrize(
    "reason",
    [
        doubt(score(29, 24)),
        doubt(score(1000, 651)),
        outdated(BEGIN_MS, NOW_MS + 7_200_001),
        "nothing is forecast yet",
        "not measured",
    ],
)
def test_why_a_value_is_missing_has_a_chinese_sentence(reason: str) -> None:
    assert has_chinese(reason), reason


def test_the_reason_says_which_condition_is_not_met() -> None:
    assert doubt(score(29, 24)) == "similar forecasts that came due in 30 days: 29 of at least 30"
    assert doubt(score(1000, 651)) == "of similar forecasts 65.1% held in 30 days, not between 70% and 90%"


@pytest.mark.parametrize(
    ("row", "held", "value", "reason"),
    [
        pytest.param(drain(), PROVED, 60.0, "", id="estimate"),
        pytest.param(drain(seconds=None), PROVED, 86_400.0, "", id="not within a day"),
        pytest.param(drain(lag=0, seconds=None, case_class=CaseClass.NONE), score(0, 0), 0.0, "", id="no lag"),
        pytest.param(
            drain(lag=None, seconds=None, case_class=CaseClass.NONE), PROVED, None, "not measured", id="lag unknown"
        ),
        pytest.param(
            drain(seconds=None, case_class=CaseClass.NONE), PROVED, None, "nothing is forecast yet", id="no forecast"
        ),
        pytest.param(drain(), score(29, 23), None, doubt(score(29, 23)), id="few cases"),
        pytest.param(drain(), score(100, 65), None, doubt(score(100, 65)), id="held too rarely"),
        pytest.param(drain(), score(100, 95), None, doubt(score(100, 95)), id="held too often"),
        pytest.param(
            drain(case_class=CaseClass.FROM_2_HOURS), PROVED, None, doubt(None), id="another class has proved it"
        ),
    ],
)
def test_drain_time(row: DrainForecast, held: Score, value: float | None, reason: str) -> None:
    assert drained(row, held) == Reading(Kind.DRAIN_TIME, "orders/billing", value, reason, "orders")


@pytest.mark.parametrize("row", [drain(), drain(lag=0, seconds=None, case_class=CaseClass.NONE)])
def test_an_old_drain_forecast_is_missing_whatever_else_is_known(row: DrainForecast) -> None:
    found = drained(row, now_ms=NOW_MS + 7_260_000)
    assert (found.value, found.reason) == (None, HOURS_OLD)


@pytest.mark.parametrize(
    ("row", "held", "value", "reason"),
    [
        pytest.param(disk(), PROVED, 90.0, "", id="upper end"),
        pytest.param(disk(growth_bytes_per_second_high=60 * GIB / 86_400), PROVED, 100.0, "", id="full before"),
        pytest.param(disk(growth_bytes_per_second_high=None), PROVED, 100.0, "", id="no upper end"),
        pytest.param(disk(growth_bytes_per_second_high=-60 * GIB / 86_400), PROVED, 0.0, "", id="it shrinks"),
        pytest.param(
            disk(outlook=Outlook.UNKNOWN, growth_bytes_per_second_mid=0.0, growth_bytes_per_second_high=None), PROVED, None,
            "nothing is forecast yet", id="no forecast",
        ),
        pytest.param(disk(disk_total_bytes_last=None), PROVED, None, "nothing is forecast yet", id="size unknown"),
        pytest.param(disk(), score(29, 23), None, doubt(score(29, 23)), id="few cases"),
        pytest.param(disk(growth_bytes_per_second_high=None), score(100, 95), None, doubt(score(100, 95)), id="held too often"),
    ],
)  # fmt: skip
def test_disk_in_a_day(row: DiskForecast, held: Score, value: float | None, reason: str) -> None:
    found = full(row, held)
    assert (found.kind, found.target, found.reason, found.subject) == (Kind.DISK_IN_A_DAY, "g1-a", reason, "")
    assert found.value == (value if value is None else pytest.approx(value))


def test_an_old_disk_forecast_is_missing() -> None:
    assert full(disk(), now_ms=NOW_MS + 7_260_000).reason == HOURS_OLD


def test_the_flags_of_a_target_are_one_value_with_the_metrics_as_the_cause() -> None:
    rows = [
        anomaly(Metric.SENT, "", is_flagged=False), anomaly(Metric.LAG), anomaly(Metric.ACKED, value=0.5),
        anomaly(Metric.TIME_LAG, is_flagged=False), anomaly(Metric.LAG, "audit", is_flagged=False),
    ]  # fmt: skip
    found = {reading.target: reading for reading in of_anomalies(rows, NOW_MS)}
    assert {target: reading.value for target, reading in found.items()} == {
        "orders": 0.0, "orders/billing": 1.0, "orders/audit": 0.0,
    }  # fmt: skip
    assert {reading.subject for reading in found.values()} == {"orders"}
    assert found["orders/billing"].why == (
        "1800 messages were acknowledged in an hour, expected 3600 to 33300;"
        " the lag was 100 messages, expected 1 to 9.2"
    )
    assert not found["orders"].why


def test_an_old_flag_is_missing() -> None:
    (found,) = of_anomalies([anomaly()], NOW_MS + 7_260_000)
    assert (found.value, found.reason) == (None, HOURS_OLD)


@pytest.mark.parametrize("metric", list(Metric))
def test_each_metric_has_a_sentence(metric: Metric) -> None:
    (found,) = of_anomalies([anomaly(metric)], NOW_MS)
    assert found.why.code in [code for code in Code if code.startswith("unusual_")]


def test_events_know_what_alerts_of_each_kind_are_about() -> None:
    of_nothing_in_the_cluster = {Kind.JOB_LATE, Kind.OUTBOX_AGE, Kind.OUTBOX_FAILED, Kind.OUTBOX_UNREACHABLE}
    assert set(Kind) - of_nothing_in_the_cluster == BROKER_GROUP_ALERTS | NODE_ALERTS | GROUP_ALERTS
    assert OF_ANALYTICS <= GROUP_ALERTS | NODE_ALERTS
