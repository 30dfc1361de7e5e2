"""What a rule would do: values of now, of the last hour in Redis, and of summary tables."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from rest_framework.test import APIClient

from console.alerts.models import Alert, AlertChannel, AlertRule, DeadLetterCount
from console.alerts.rules import Conditions, Kind
from console.alerts.services import evaluate
from console.analytics.models import AnalyticsRun, Lag, TableState
from console.reports import rule_history
from console.reports.rule_preview import SHOWN_MAX, RulePreview, preview_rule
from console.snapshot.bus import connect_blocking
from console.snapshot.history import HistoryWriter
from console.snapshot.state import empty
from metaserver.models import AuditEntry
from tests.served.api.alerts.requests import API, RULE, made, problem
from tests.served.api.alerts.system_state import group, node, snapshot
from tests.support.servers.services import Server

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)


@pytest.fixture(autouse=True)
def redis(redis_server: Server, settings: Any) -> Iterator[Server]:
    settings.REDIS_URL = redis_server.url
    with connect_blocking(redis_server.url) as client:
        client.flushdb()
    return redis_server


def previewed(
    kind: Kind = Kind.LAG, target: str = "*", threshold: float = 100, state: Any = None, **values: Any
) -> RulePreview:
    conditions = Conditions(
        threshold,
        values.get("clear", threshold * 0.8),
        values.get("for_seconds", 0),
        values.get("clear_for_seconds", 0),
    )
    return preview_rule(
        kind, target, conditions, values.get("window", 600), rule=values.get("rule"), snapshot=state, now=NOW
    )


def remember(url: str, values: list[dict[str, float | None]]) -> None:
    """The lag of groups in so many steps up to now."""

    async def write() -> None:
        writer = HistoryWriter(url)
        for number, lags in enumerate(values):
            groups = {
                name.replace("/", "\n"): {"backlog": lag, "in_flight": 0, "time_lag_seconds": lag}
                for name, lag in lags.items()
            }
            nodes = {
                "n1": {
                    "broker_group": "g1",
                    "kind": "broker",
                    "is_master": True,
                    "disk_free_bytes": 5,
                    "disk_total_bytes": 50,
                }
            }
            at_ms = int(NOW.timestamp() * 1000) - 10_000 * (len(values) - number)
            await writer.note(empty() | {"groups": groups, "nodes": nodes}, at_ms)
        await writer.close()

    async_to_sync(write)()


def test_what_is_above_the_threshold_now() -> None:
    state = snapshot({"orders/billing": group(101), "orders/mail": group(500), "x/y": group(100), "x/z": group(None)})
    found = previewed(state=state)
    assert (found.matched, found.above, found.unmeasured) == (4, 2, 1)
    assert [(one.target, one.value) for one in found.targets] == [("orders/mail", 500), ("orders/billing", 101)]
    found = previewed(target="x", state=state)
    assert (found.matched, found.above, found.unmeasured) == (2, 0, 1)


def test_a_preview_names_a_few_and_counts_the_others() -> None:
    found = previewed(state=snapshot({f"o/{number:03}": group(1000 + number) for number in range(50)}))
    assert (found.above, len(found.targets), found.targets[0].target) == (50, SHOWN_MAX, "o/049")


def test_without_live_data_nothing_is_above_and_nothing_is_guessed() -> None:
    found = previewed()
    assert (found.matched, found.above, found.past.count, found.past.spans) == (0, 0, 0, [])


def test_the_last_hour_of_redis(redis: Server) -> None:
    # Up and down twice; a value that is not measured ends nothing; "x/y" stays below.
    lags: list[float | None] = [0, 150, 150, 0, None, 0, 150, None, 150, 90, 150, 10]
    remember(redis.url, [{"orders/billing": lag, "x/y": 99} for lag in lags])
    found = previewed(state=snapshot({"orders/billing": group(10), "x/y": group(99)}))
    assert (found.past.count, found.past.targets_count, found.past.left_out) == (2, 1, 0)
    assert [(one.target, one.count) for one in found.past.targets] == [("orders/billing", 2)]
    [span] = found.past.spans
    assert span.source == "live_history"
    assert (NOW.timestamp() - span.begin, span.end) == (125, NOW.timestamp())
    state = snapshot({"orders/billing": group(10)})
    assert previewed(state=state, for_seconds=15).past.count == 0
    assert previewed(state=state, for_seconds=10).past.count == 2
    assert previewed(state=state, threshold=200).past.count == 0
    assert previewed(state=state, clear=10).past.count == 2
    assert previewed(Kind.TIME_LAG, state=state).past.count == 2


def test_pending_retries_count(redis: Server) -> None:
    remember(redis.url, [{"o/b": 60, "%RETRY%o%b/b": 60}, {"o/b": 60}])
    assert previewed(state=snapshot({"o/b": group(60)})).past.count == 1
    assert previewed(Kind.TIME_LAG, state=snapshot({"o/b": group(60)})).past.count == 0


def test_the_disk_of_a_node(redis: Server) -> None:
    remember(redis.url, [{}, {}])
    state = snapshot(nodes={"n1": node(disk_free_bytes=5, disk_total_bytes=50)})
    assert previewed(Kind.DISK, threshold=85, state=state).past.count == 1
    found = previewed(Kind.DISK, threshold=95, state=state)
    assert (found.above, found.past.count, len(found.past.spans)) == (0, 0, 1)


def test_more_targets_than_are_looked_at_are_counted(redis: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.reports.rule_preview.TARGETS_MAX", 2)
    remember(redis.url, [{f"o/{number}": 500 for number in range(5)}])
    found = previewed(state=snapshot({f"o/{number}": group(number) for number in range(5)}))
    assert (found.past.count, found.past.left_out) == (2, 3)
    assert {one.target for one in found.past.targets} == {"o/4", "o/3"}, "the highest ones"


# --- summary tables ---------------------------------------------------------------------------------------------------


def summarized(minutes: dict[int, int | None], watermark_minutes: int = 60, job: str = "metrics") -> None:
    """The lag of orders/billing, by minutes before now; the table ends at the watermark."""
    run = AnalyticsRun.objects.create(job=job, started_at=NOW)
    minute = int(NOW.timestamp()) // 60
    for before, lag in minutes.items():
        Lag.objects.create(
            run=run, step_seconds=60, at_ms=(minute - before) * 60_000, subject="orders", group="billing",
            lag_messages_max=lag, time_lag_seconds_max=lag,
        )  # fmt: skip
    TableState.objects.create(table="lag", run=run, watermark_at=NOW - timedelta(minutes=watermark_minutes))


def test_before_the_last_hour_the_summary_tables_count(redis: Server) -> None:
    summarized({300: 500, 299: 500, 298: 0, 200: 500, 199: None, 100: 81, 61: 500, 2_000: 500, 30: 500})
    remember(redis.url, [{"orders/billing": 500}] * 2)
    state = snapshot({"orders/billing": group(500)})
    found = previewed(state=state)
    assert found.past.count == 4, "300 to 299, 200, 61, and now"
    old, live = found.past.spans
    assert (old.source, live.source) == ("analytics", "live_history")
    assert old.begin == NOW.timestamp() - 5 - 300 * 60
    assert old.end == (NOW - timedelta(minutes=60)).timestamp()
    assert previewed(state=state, for_seconds=60).past.count == 1, "only 300 to 299 lasts for so long"


def test_demo_data_is_not_the_past() -> None:
    from console.analytics.models import DEMO_JOB

    summarized({300: 500}, job=DEMO_JOB)
    assert previewed(state=snapshot({"orders/billing": group(0)})).past.spans == []


def test_rows_of_a_summary_table_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_history, "ROWS_MAX", 2)
    summarized({300: 500, 200: 500, 100: 500})
    found = previewed(state=snapshot({"orders/billing": group(0)}))
    assert found.past.count == 2
    assert found.past.spans[0].begin == NOW.timestamp() - 5 - 200 * 60, "what was not read is not said to be looked at"


# --- others -----------------------------------------------------------------------------------------------------------


def test_dead_letters_of_the_last_hour() -> None:
    seconds = NOW.timestamp()
    arrivals = [[seconds - 3_000, 3], [seconds - 1_500, 3], [seconds - 1_400, 3], [seconds - 100, 1]]
    DeadLetterCount.objects.create(key="1", target="orders/billing", count=10, arrivals=arrivals)
    found = previewed(Kind.DEAD_LETTERS, threshold=0)
    assert (found.above, found.targets[0].value, found.past.count) == (1, 1, 3)
    assert found.past.spans[0].end - found.past.spans[0].begin == 3_000
    assert previewed(Kind.DEAD_LETTERS, threshold=3).past.count == 1
    assert previewed(Kind.DEAD_LETTERS, threshold=0, window=3_600).past.spans == ()


def test_role_changes_of_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    for minutes in (1_000, 999, 998, 30):
        at = NOW - timedelta(minutes=minutes)
        AuditEntry.objects.create(at=at, actor="m", action="broker_group.promote", target="g1")
    from console.alerts.readings import Reading

    monkeypatch.setattr(
        "console.reports.rule_preview.current_readings", lambda *_: iter([Reading(Kind.ROLE_CHANGES, "g1", 1.0)])
    )
    assert previewed(Kind.ROLE_CHANGES, threshold=0).past.count == 2
    found = previewed(Kind.ROLE_CHANGES, threshold=2)
    assert (found.past.count, found.above) == (1, 0)
    assert found.past.spans[0].source == "audit_log"


def test_kinds_without_a_past_say_so() -> None:
    found = previewed(Kind.UNKNOWN, threshold=0)
    assert (found.above, found.targets[0].target, found.past.spans) == (1, "collector", ())


def test_redis_away_is_no_past(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert previewed(state=snapshot({"o/b": group(0)})).past.spans == []


# --- the API ----------------------------------------------------------------------------------------------------------


def test_the_api_previews_a_stored_rule(operator: APIClient, viewer: APIClient) -> None:
    rule = made(operator, "alert-rules", {**RULE, "name": "slow"})
    AlertRule.objects.exclude(pk=rule).update(is_enabled=False)
    evaluate(snapshot({"orders/billing": group(101)}), timezone.now())
    Alert.objects.create(
        rule_id=rule, rule_name="slow", kind="lag", target="o/old", severity="critical", threshold=1, state="resolved",
        since=timezone.now() - timedelta(days=2), fired_at=timezone.now() - timedelta(hours=25), value=5,
        last_seen_at=timezone.now(), place=1,
    )  # fmt: skip
    answer = viewer.get(f"{API}/alert-rules/preview/?kind=lag&threshold=100.5&rule={rule}")
    assert answer.status_code == 200, answer.json()
    found = answer.json()
    assert (found["matched"], found["fired"], found["past"]["spans"]) == (0, 1, [])
    assert found["reason"].startswith("The collector has not reported recently")


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("kind=lag", 400, "alert_rule.invalid"),
        ("threshold=5", 400, "alert_rule.invalid"),
        ("kind=other&threshold=5", 400, "alert_rule.invalid"),
        ("kind=lag&threshold=many", 400, "request.invalid"),
        ("kind=lag&threshold=-5", 400, "alert_rule.invalid"),
        ("kind=lag&threshold=5&clear_threshold=6", 400, "alert_rule.invalid"),
        ("kind=lag&threshold=5&for_seconds=1.5", 400, "alert_rule.invalid"),
        ("kind=lag&threshold=5&window_seconds=1", 400, "alert_rule.invalid"),
        ("kind=lag&threshold=5&rule=99999", 404, "alert_rule.unknown"),
        ("kind=lag&threshold=5&colour=red", 400, "request.unknown_parameter"),
        ("kind=lag&threshold=5&target=" + "x" * 301, 400, "alert_rule.invalid"),
    ],
)
def test_previews_that_are_refused(viewer: APIClient, query: str, status: int, code: str) -> None:
    problem(viewer.get(f"{API}/alert-rules/preview/?{query}"), status, code)


def test_a_rule_whose_channels_are_all_disabled_notifies_no_one(operator: APIClient, admin: APIClient) -> None:
    made(admin, "alert-channels", {"kind": "email", "name": "mail", "addresses": ["a@example.com"]})
    rule = made(operator, "alert-rules", {**RULE, "channels": ["mail"]})
    assert operator.get(f"{API}/alert-rules/{rule}/").json()["is_notifying"]
    AlertChannel.objects.update(is_enabled=False)
    assert not operator.get(f"{API}/alert-rules/{rule}/").json()["is_notifying"]
