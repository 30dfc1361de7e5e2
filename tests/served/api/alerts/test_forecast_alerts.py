"""Alerts from rows that analytics published: forecasts that have proved that they hold, and anomalies."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from console.alerts.models import Alert, AlertChannel, AlertRule, Notification
from console.alerts.rules import Conditions, Kind
from console.alerts.services import evaluate
from console.alerts.services.forecasts import Needed, forecast_readings
from console.alerts.services.rules import create_rule
from console.analytics import services
from console.analytics.models import DEMO_JOB, CaseClass, Outlook, TableState
from console.analytics.models.summaries import Metric
from console.analytics.rows import Window
from console.analytics.steps import Step
from console.reports.rule_preview import preview_rule
from metaserver.services.subjects import create_subject
from metaserver.services.teams import create_team
from tests.served.api.alerts.receiver import ACTOR
from tests.served.api.alerts.requests import API
from tests.served.api.alerts.system_state import BEGIN, at, group, node, snapshot
from tests.support.analytics.summaries import summary_row

pytestmark = pytest.mark.django_db
HOUR_MS = Step.HOUR.ms
NEWEST_MS = int(BEGIN.timestamp() * 1000) - HOUR_MS
"""The hour that ends when the tests begin."""
CLASS = CaseClass.BELOW_20_MINUTES
GIB = 1 << 30
LIVE = snapshot({"orders/billing": group(5)})
STALE = "the newest hour of analytics ended more than 2 hours ago"


@pytest.fixture(autouse=True)
def only_ours() -> None:
    """The built-in rules rest, except where they are the subject."""
    AlertRule.objects.update(is_enabled=False)


def rule(kind: Kind, threshold: float = 0, **values: Any) -> str:
    """A rule with a channel, and its id."""
    AlertChannel.objects.get_or_create(name="mail", kind="email", addresses=["ops@example.com"])
    given = {"name": kind.value, "threshold": threshold, "severity": "warning", "channels": ["mail"], **values}
    return create_rule(kind, given, actor=ACTOR).target


def publish(table: str, *rows: dict[str, Any], at_ms: int = NEWEST_MS, job: str = "forecasts") -> None:
    """All rows of an hour."""
    run = services.start_run(job)
    known = [summary_row(table, at_ms, **row) for row in rows]
    services.publish(run, table, known, step=Step.HOUR, window=Window(at_ms, at_ms + HOUR_MS))
    services.finish_run(run)


def scored(
    cases_count: int = 30, held_count: int = 24, table: str = "drain_forecasts", case_class: str = CLASS
) -> None:
    """Forecasts of a class that came due yesterday, and of an hour of which none did."""
    row = {"scored": table, "case_class": case_class}
    publish("forecast_scores", {**row, "cases_count": 0, "held_count": 0}, job="scores")
    due = {**row, "cases_count": cases_count, "held_count": held_count}
    publish("forecast_scores", due, at_ms=NEWEST_MS - 24 * HOUR_MS, job="scores")
    too_old = {**row, "cases_count": 1_000, "held_count": 1_000}
    publish("forecast_scores", too_old, at_ms=NEWEST_MS - 31 * 24 * HOUR_MS, job="scores")


def drain(seconds: float | None = 7_200.0, lag: int = 5, of: str = "orders/billing", **values: Any) -> dict[str, Any]:
    """A row of a drain forecast."""
    subject, _, name = of.partition("/")
    return {
        "subject": subject, "group": name, "outlook": Outlook.EXPECTED, "method": "replay", "case_class": CLASS,
        "lag_messages_last": lag, "drain_seconds_mid": seconds, **values,
    }  # fmt: skip


DRAINED = drain(None, 0, case_class=CaseClass.NONE)


def anomaly(metric: Metric, *, is_flagged: bool, of: str = "orders/billing") -> dict[str, Any]:
    """A row about 100, where 1 to 10 is expected."""
    subject, _, name = of.partition("/")
    return {
        "subject": subject, "group": name, "metric": metric, "is_flagged": is_flagged, "value": 100.0,
        "expected_low": 1.0, "expected_high": 10.0,
    }  # fmt: skip


def states() -> list[tuple[str, str]]:
    return list(Alert.objects.order_by("id").values_list("target", "state"))


def told() -> list[tuple[str, str]]:
    return list(Notification.objects.order_by("id").values_list("alert__target", "event"))


@pytest.mark.database
def test_a_forecast_fires_notifies_and_is_resolved_with_the_next_hour() -> None:
    create_team("shop", actor=ACTOR)
    create_subject("orders", {"owner": "shop"}, actor=ACTOR)
    rule(Kind.DRAIN_TIME, 3_600)
    scored()
    publish("drain_forecasts", drain(7_200.0), drain(3_600.0, of="orders/audit"), drain(None, 0, of="orders/mail"))
    assert evaluate(LIVE, at(0)).fired == 1
    assert (states(), told()) == ([("orders/billing", "firing")], [("orders/billing", "firing")])
    alert = Alert.objects.get()
    assert (alert.value, alert.owner) == (7_200, "shop")
    assert Notification.objects.get().body["alert"]["value"] == 7_200
    publish("drain_forecasts", drain(60.0), at_ms=NEWEST_MS + HOUR_MS)
    assert evaluate(LIVE, at(3_600)).resolved == 1
    alert.refresh_from_db()
    assert (alert.resolution, alert.last_value) == ("cleared", 60)
    assert told() == [("orders/billing", "firing"), ("orders/billing", "resolved")]


@pytest.mark.parametrize(
    ("kind", "index"),
    [(Kind.DRAIN_TIME, "analytics_drain_alerts"), (Kind.ANOMALY, "analytics_anomalies_alerts")],
)
def test_of_the_newest_hour_alone_the_rows_of_the_rules_are_read(kind: Kind, index: str) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("plans of other databases depend on the rows that are there")
    with CaptureQueriesContext(connection) as asked:
        assert list(forecast_readings({kind: Needed(0.5)}, BEGIN)) == []
    (sql,) = [query["sql"] for query in asked if "subject" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        first = cursor.fetchone()[-1]
    assert first.endswith(f" USING INDEX {index} (step_seconds=? AND at_ms=?)")


@pytest.mark.parametrize("row", [drain(None), drain(86_399.0)])
def test_a_lag_that_is_not_drained_within_a_day_counts_as_a_day(row: dict[str, Any]) -> None:
    rule(Kind.DRAIN_TIME, 86_399)
    scored()
    publish("drain_forecasts", row)
    evaluate(LIVE, at(0))
    assert list(Alert.objects.values_list("value", flat=True)) == ([86_400] if row["drain_seconds_mid"] is None else [])


def test_a_group_without_lag_is_drained_whatever_is_known_of_forecasts() -> None:
    rule(Kind.DRAIN_TIME, 3_600)
    scored()
    publish("drain_forecasts", drain())
    evaluate(LIVE, at(0))
    scored(0, 0)
    publish("drain_forecasts", DRAINED, at_ms=NEWEST_MS + HOUR_MS)
    evaluate(LIVE, at(3_600))
    assert states() == [("orders/billing", "resolved")]


@pytest.mark.parametrize(
    ("cases_count", "held_count", "seconds", "reason"),
    [
        pytest.param(29, 24, 0, "similar forecasts that came due in 30 days: 29 of at least 30", id="few cases"),
        pytest.param(100, 65, 0, "of similar forecasts 65.0% held in 30 days, not between 70% and 90%", id="65 %"),
        pytest.param(100, 95, 0, "of similar forecasts 95.0% held in 30 days, not between 70% and 90%", id="95 %"),
        pytest.param(100, 80, 7_260, STALE, id="2 h 1 min old"),
    ],
)
def test_a_missing_value_neither_fires_nor_resolves(
    cases_count: int, held_count: int, seconds: int, reason: str
) -> None:
    rule(Kind.DRAIN_TIME, 3_600)
    rule(Kind.DISK_IN_A_DAY, 80)
    rule(Kind.UNKNOWN)
    high, low = {"growth_bytes_per_second_high": None}, {"growth_bytes_per_second_high": 0.0}
    of_node = {
        "broker_group": "g1", "node_id": "node-1", "outlook": Outlook.POSSIBLE, "method": "mean",
        "disk_used_bytes_last": 50 * GIB, "disk_total_bytes_last": 100 * GIB,
    }  # fmt: skip

    def all_scored(cases_count: int, held_count: int) -> None:
        row = {"cases_count": cases_count, "held_count": held_count}
        drains = {"scored": "drain_forecasts", "case_class": CLASS, **row}
        publish(
            "forecast_scores", drains, {"scored": "disk_forecasts", "case_class": CaseClass.ALL, **row}, job="scores"
        )

    all_scored(cases_count, held_count)
    publish("drain_forecasts", drain())
    publish("disk_forecasts", {**of_node, **high})
    evaluate(LIVE, at(seconds))
    assert states() == []

    all_scored(30, 24)
    evaluate(LIVE, at(0))
    assert states() == [("orders/billing", "firing"), ("node-1", "firing")]
    all_scored(cases_count, held_count)
    publish("drain_forecasts", drain(0.0))
    publish("disk_forecasts", {**of_node, **low})
    evaluate(LIVE, at(seconds + 30))
    values = set(Alert.objects.values_list("target", "state", "last_value", "reason"))
    assert values == {(target, "firing", None, reason) for target in ("orders/billing", "node-1")}


def test_the_built_in_rule_fires_for_a_disk_that_may_be_full_within_a_day() -> None:
    AlertRule.objects.filter(builtin="disk_in_a_day").update(is_enabled=True)
    scored(table="disk_forecasts", case_class=CaseClass.ALL)

    def grows(bytes_per_second: float) -> dict[str, Any]:
        return {
            "broker_group": "g1", "node_id": "node-1", "outlook": Outlook.EXPECTED, "method": "mean",
            "disk_used_bytes_last": 50 * GIB, "disk_total_bytes_last": 100 * GIB,
            "growth_bytes_per_second_high": bytes_per_second,
        }  # fmt: skip

    publish("disk_forecasts", grows(49 * GIB / 86_400))
    evaluate(snapshot(), at(0))
    assert states() == []
    publish("disk_forecasts", grows(51 * GIB / 86_400))
    evaluate(snapshot(), at(0))
    publish("disk_forecasts", grows(46 * GIB / 86_400), at_ms=NEWEST_MS + HOUR_MS)
    evaluate(snapshot(), at(3_600))
    assert states() == [("node-1", "firing")]
    publish("disk_forecasts", grows(44 * GIB / 86_400), at_ms=NEWEST_MS + HOUR_MS)
    evaluate(snapshot(), at(3_600))
    assert states() == [("node-1", "resolved")]


def test_flags_of_one_target_are_one_alert_that_names_the_metrics(viewer: APIClient) -> None:
    create_team("shop", actor=ACTOR)
    create_subject("orders", {"owner": "shop"}, actor=ACTOR)
    rule(Kind.ANOMALY)
    publish(
        "anomalies",
        anomaly(Metric.LAG, is_flagged=True),
        anomaly(Metric.TIME_LAG, is_flagged=True),
        anomaly(Metric.SENT, is_flagged=True, of="orders"),
        anomaly(Metric.LAG, is_flagged=False, of="orders/audit"),
        anomaly(Metric.LAG, is_flagged=True, of="orders2/billing"),
    )
    evaluate(LIVE, at(0))
    assert sorted(states()) == [("orders", "firing"), ("orders/billing", "firing"), ("orders2/billing", "firing")]
    of_group, of_subject = Alert.objects.get(target="orders/billing"), Alert.objects.get(target="orders")
    assert (of_group.owner, of_subject.owner) == ("shop", "shop")
    assert of_group.why is not None
    assert of_group.why["text"] == (
        "the lag was 100 messages, expected 1 to 10; the time lag was 100 s, expected 1 to 10"
    )
    of_orders = viewer.get(f"{API}/alerts/", {"subject": "orders"}).json()["results"]
    assert {row["target"] for row in of_orders} == {"orders", "orders/billing"}
    publish(
        "anomalies",
        anomaly(Metric.LAG, is_flagged=False),
        anomaly(Metric.TIME_LAG, is_flagged=True),
        anomaly(Metric.SENT, is_flagged=False, of="orders"),
        anomaly(Metric.LAG, is_flagged=True, of="orders2/billing"),
        at_ms=NEWEST_MS + HOUR_MS,
    )
    evaluate(LIVE, at(3_600))
    assert {of for of in states() if of[1] == "resolved"} == {("orders", "resolved")}
    evaluate(LIVE, at(3_600 + 7_260))
    of_group.refresh_from_db()
    assert (of_group.state, of_group.last_value, of_group.reason) == ("firing", None, STALE)


@pytest.mark.parametrize(("is_away", "state"), [(False, "resolved"), (True, "firing")])
def test_a_target_without_a_row_for_an_hour_is_gone_unless_a_node_is_away(is_away: bool, state: str) -> None:
    rule(Kind.DRAIN_TIME, 3_600)
    scored()
    publish("drain_forecasts", drain())
    evaluate(LIVE, at(0))
    publish("drain_forecasts", drain(0.0, of="orders/audit"), at_ms=NEWEST_MS + HOUR_MS)
    live = snapshot(nodes={"node-1": node("no answer" if is_away else None)})
    evaluate(live, at(3_599))
    assert states() == [("orders/billing", "firing")]
    evaluate(live, at(3_600))
    alert = Alert.objects.get()
    assert (alert.state, alert.resolution) == (state, "" if is_away else "target_gone")


@pytest.mark.parametrize("table", ["drain_forecasts", "forecast_scores"])
def test_demo_data_raises_no_alert(table: str) -> None:
    rule(Kind.DRAIN_TIME, 3_600)
    scored()
    publish("drain_forecasts", drain())
    run = services.start_run(DEMO_JOB)
    TableState.objects.filter(table=table).update(run=run)
    evaluate(LIVE, at(0))
    assert states() == []


def test_an_hour_that_is_being_published_does_not_count_yet() -> None:
    rule(Kind.DRAIN_TIME, 3_600)
    scored()
    publish("drain_forecasts", drain(0.0))
    publish("drain_forecasts", drain(), at_ms=NEWEST_MS + HOUR_MS)
    unfinished = TableState.objects.filter(table="drain_forecasts")
    unfinished.update(unfinished=[[3_600, NEWEST_MS + HOUR_MS, NEWEST_MS + 2 * HOUR_MS]])
    evaluate(LIVE, at(3_600))
    assert states() == []
    unfinished.update(unfinished=None)
    evaluate(LIVE, at(3_600))
    assert states() == [("orders/billing", "firing")]


def test_only_rows_that_can_change_something_are_read() -> None:
    """Of each evaluation: groups above the lowest threshold, and those with open alerts."""
    publish("drain_forecasts", *(drain(float(seconds), of=f"orders/g{seconds}") for seconds in range(60)), DRAINED)
    publish("anomalies", *(anomaly(Metric.LAG, is_flagged=number < 2, of=f"orders/g{number}") for number in range(60)))
    scored()
    with CaptureQueriesContext(
        connection,
    ) as without_rules:
        before = evaluate(LIVE, at(0)).looked_at
    assert not [query for query in without_rules.captured_queries if "analytics_" in query["sql"]]
    rule(Kind.DRAIN_TIME, 58)
    rule(Kind.DRAIN_TIME, 49, name="second", target="orders/g5[0-8]", clear_threshold=0)
    rule(Kind.ANOMALY)
    assert evaluate(LIVE, at(0)).looked_at == before + 10 + 2
    publish("drain_forecasts", *(drain(0.0, of=f"orders/g{seconds}") for seconds in range(60)))
    assert evaluate(LIVE, at(30)).looked_at == before + 10 + 2
    assert not Alert.objects.filter(kind=Kind.DRAIN_TIME).exclude(state="resolved").exists()
    assert evaluate(LIVE, at(60)).looked_at == before + 2


def test_a_preview_counts_all_targets() -> None:
    scored()
    publish(
        "drain_forecasts", drain(7_200.0), drain(60.0, of="orders/audit"), drain(of="orders/mail", case_class="none")
    )
    publish("anomalies", anomaly(Metric.LAG, is_flagged=True), anomaly(Metric.SENT, is_flagged=False, of="orders"))

    def previewed(kind: Kind, threshold: float) -> tuple[int, int, int]:
        found = preview_rule(kind, "orders", Conditions(threshold, 0), 600, rule=None, snapshot=LIVE, now=at(0))
        return found.matched, found.above, found.unmeasured

    assert previewed(Kind.DRAIN_TIME, 3_600) == (3, 1, 1)
    assert previewed(Kind.ANOMALY, 0) == (2, 1, 0)
    assert previewed(Kind.DISK_IN_A_DAY, 0) == (0, 0, 0)
