"""/history/ as the API answers it; what is kept: tests/served/live/test_history.py."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync
from rest_framework.test import APIClient

from console.analytics import services
from console.analytics.models import DEMO_JOB, LeftOut
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from console.jobs.summaries import store
from console.reports.timelines.reading import POINTS_MAX
from console.snapshot.history import SECTIONS, STEPS, HistoryWriter
from console.snapshot.state import empty
from tests.support.analytics.summaries import lag_row
from tests.support.console.histories import HOUR_MS, POINTS, TEN_MINUTES_MS, history, point
from tests.support.console.people import browser, person
from tests.support.servers.services import Server

pytestmark = pytest.mark.django_db
WHERE = "/api/v1/history/"


@pytest.fixture
def viewer(db: None) -> APIClient:
    return browser(person("vera"))


def write(url: str, state: Any, seconds_ago: int = 30) -> None:
    async def writing() -> None:
        writer = HistoryWriter(url)
        await writer.note(state, int((time.time() - seconds_ago) * 1000))
        await writer.close()

    async_to_sync(writing)()


def test_each_kind_has_its_columns(viewer: APIClient, redis_server: Server, settings: Any) -> None:
    settings.REDIS_URL = redis_server.url
    node = {"broker_group": "g1", "kind": "broker", "is_master": True, "disk_free_bytes": 40, "disk_total_bytes": 100}
    group = {"backlog": 3, "in_flight": 2, "time_lag_seconds": 1.5, "pull_rate": 1.0, "ack_rate": None}
    state = empty() | {"subjects": {"o": {"send_rate": 7.0}}, "groups": {"o\nb": group}, "nodes": {"g1-a": node}}

    write(redis_server.url, state)
    for query, field, value in (
        ({"subject": "o"}, "send_rate", 7), ({"subject": "o", "group": "b"}, "lag", 5), ({"node": "g1-a"}, "disk_used_bytes", 60),
        ({"broker_group": "g1"}, "disk_used_bytes", 60), ({}, "send_rate", 7),
    ):  # fmt: skip
        found = viewer.get(WHERE, query).json()
        assert (found["step_seconds"], found["reason"]) == (10, None), query
        assert {len(column) for column in (found["at"], *found["fields"].values())} == {STEPS}
        assert [number for number in found["fields"][field] if number is not None] == [value], query
    found = viewer.get(WHERE, {"subject": "o", "group": "b"}).json()
    assert set(found["fields"]["ack_rate"]) == {None}


def test_with_redis_away_it_answers_that_nothing_is_known(viewer: APIClient, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = viewer.get(WHERE)
    assert answer.status_code == 200
    assert answer.json()["reason"].startswith("Redis is not responding")
    assert set(answer.json()["fields"]["lag"]) == {None}


@pytest.mark.parametrize(
    "query", ["group=b", "subject=o&node=n", "node=n&broker_group=g", "subject=a%0Ab", "subject=a%00", "subject=" + "x" * 301]
)  # fmt: skip
def test_what_names_no_series_is_refused(viewer: APIClient, query: str) -> None:
    assert viewer.get(f"{WHERE}?{query}").json()["code"] == "request.invalid"


# --- ranges -----------------------------------------------------------------------------------------------------------

OF_GROUP = {"subject": "paid", "group": "b"}
MINUTE_MS = 60_000


def ago(**span: int) -> str:
    return (datetime.now(UTC) - timedelta(**span)).isoformat()


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def row_of(table: str, at_ms: int, **values: Any) -> dict[str, Any]:
    return {"at_ms": at_ms, **{column.name: None for column in TABLES[table].columns}, **values}


def publish(
    table: str, step: Step, rows: list[dict[str, Any]], *, job: str = "lag", missing: tuple[str, ...] = ()
) -> int:
    """Publish rows of the last 30 days; the end of what is complete: the last whole hour."""
    now = datetime.now(UTC)
    end = now.replace(minute=0, second=0, microsecond=0)
    run = services.start_run(job, from_at=now - timedelta(days=30), to_at=now)
    services.publish(run, table, rows, step=step)
    services.finish_run(run, watermark_at=end, missing=missing)
    return int(end.timestamp() * 1000)


@pytest.mark.database
def test_before_the_last_hour_are_summaries_and_the_border_is_named(
    viewer: APIClient, redis_server: Server, settings: Any
) -> None:
    settings.REDIS_URL = redis_server.url
    at = (int(time.time()) // 60 - 180) * MINUTE_MS
    row = lag_row(at, "paid", "b", lag_messages_max=9, lag_messages_mean=4.0)
    end = publish("lag", Step.MINUTE, [row], missing=("g2",))
    publish(
        "group_rates", Step.MINUTE, [row_of("group_rates", at - 60 * MINUTE_MS, subject="paid", group="x")], job="rates"
    )
    group = {"backlog": 3, "in_flight": 2, "time_lag_seconds": 1.5, "pull_rate": 1.0, "ack_rate": 2.0}
    write(redis_server.url, empty() | {"groups": {"paid\nb": group}})
    found = viewer.get(WHERE, OF_GROUP | {"from": ago(hours=6)}).json()
    border = found["at"].index(found["border_at"])
    known = {name: [(ms(at), value) for at, value in zip(found["at"], values, strict=True) if value is not None]
             for name, values in found["fields"].items()}  # fmt: skip
    assert known["lag"] == [(at, 9), (ms(found["border_at"]), 5)]
    # It existed in that minute and acknowledged nothing; of other minutes nothing is known.
    assert known["ack_rate"] == [(at, 0), (ms(found["border_at"]), 2)]
    assert {len(column) for column in found["fields"].values()} == {len(found["at"])}
    assert found["at"] == sorted(set(found["at"]))
    assert 0 <= ms(found["from_at"]) - ms(found["at"][0]) < MINUTE_MS
    assert found["summary"]["step_seconds"] == 60
    assert ms(found["at"][border - 1]) < ms(found["border_at"])
    assert (ms(found["summary"]["as_of"]), found["summary"]["missing"]) == (end, ["g2"])
    assert (found["summary"]["state"], found["summary"]["is_demo"]) == ("filled", False)
    assert "consumers_online" not in found["summary"]["fields"]
    assert found["figures"]["lag"] == {"mean": pytest.approx((4 * 60 + 5 * 10) / 70), "p99": 9, "measured_seconds": 70}


def test_a_longer_range_has_longer_steps_and_no_more_points(
    viewer: APIClient, redis_server: Server, settings: Any
) -> None:
    settings.REDIS_URL = redis_server.url
    for days, seconds in ((1, 120), (7, 1_200), (30, 3_600)):
        found = viewer.get(WHERE, OF_GROUP | {"from": ago(days=days), "to": ago(seconds=0)}).json()
        assert found["summary"]["step_seconds"] == seconds
        assert len(found["at"]) <= POINTS_MAX


def test_peaks_stay_when_points_are_put_together(viewer: APIClient, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    begin = (int(time.time()) // 60 - 600) * MINUTE_MS
    rows = [lag_row(begin + n * MINUTE_MS, "paid", "b", lag_messages_max=900 if n == 33 else 1) for n in range(100)]
    publish("lag", Step.MINUTE, rows)
    found = viewer.get(WHERE, OF_GROUP | {"from": ago(hours=24), "to": ago(minutes=90)}).json()
    values = [value for value in found["fields"]["lag"] if value is not None]
    assert (values.count(900), len(values)) == (1, pytest.approx(50, abs=1))
    # Redis was not asked: the range ends before what it keeps.
    assert (found["reason"], found["border_at"]) == (None, None)


def test_a_subject_that_sent_nothing_has_zeros_where_its_table_is_complete(viewer: APIClient, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    first = (int(time.time()) // 3_600 - 5) * 60 * MINUTE_MS
    row = row_of("subject_rates", first, subject="other", sent_messages=1)
    end = publish("subject_rates", Step.MINUTE, [row], job=DEMO_JOB)
    found = viewer.get(WHERE, {"subject": "o", "from": ago(hours=6)}).json()
    zeros = [ms(at) for at, value in zip(found["at"], found["fields"]["send_rate"], strict=True) if value == 0]
    assert (zeros[0], zeros[-1], len(zeros)) == (first, end - MINUTE_MS, (end - first) // MINUTE_MS)
    # Whether it sent nothing is not known of minutes that have the busiest subjects only.
    LeftOut.objects.create(
        table="subject_rates", step_seconds=60, at_ms=first + 2 * MINUTE_MS, rows_count=3, left_out_count=1
    )
    lacking = viewer.get(WHERE, {"subject": "o", "from": ago(hours=6)}).json()
    assert lacking["fields"]["send_rate"].count(0) == len(zeros) - 1
    assert (found["summary"]["omitted_steps_count"], lacking["summary"]["omitted_steps_count"]) == (0, 1)
    # The subject has no row that a run of demo data made.
    assert found["summary"]["is_demo"] is False
    assert viewer.get(WHERE, {"subject": "other", "from": ago(hours=6)}).json()["summary"]["is_demo"] is True


@pytest.mark.database
def test_of_a_broker_group_all_numbers_are_there_and_what_was_not_measured_is_null(
    viewer: APIClient, redis_server: Server, settings: Any
) -> None:
    settings.REDIS_URL = redis_server.url
    redis.Redis.from_url(redis_server.url).flushall()
    end = int(time.time()) // 600 * TEN_MINUTES_MS - 3 * HOUR_MS
    points = [point(send_rate=2.0, send_bytes_rate=900.0, pull_rate=4.0, connections=3, disk_used_bytes=60)] * POINTS
    store(history(end, {"g1": [*points, *[None] * POINTS, point(send_rate=0.0)]}))
    node = {"broker_group": "g1", "kind": "broker", "is_master": True, "send_rate": 7.0, "send_bytes_rate": 70.0}
    write(redis_server.url, empty() | {"nodes": {"g1-a": node}})
    found = viewer.get(WHERE, {"broker_group": "g1", "from": ago(hours=6)}).json()
    border = found["at"].index(found["border_at"])

    def older(field: str) -> list[tuple[int, float]]:
        values = zip(found["at"][:border], found["fields"][field][:border], strict=True)
        return [((end - ms(at)) // MINUTE_MS, value) for at, value in values if value is not None]

    # Ten minutes of which a part was measured are known.
    assert older("send_rate") == [(30, 2), (20, 2), (10, 0)]
    for field, value in (("send_bytes_rate", 900), ("pull_rate", 4), ("connections", 3), ("disk_used_bytes", 60)):
        assert older(field) == [(30, value), (20, value)]
    assert older("pending") == []
    assert [value for value in found["fields"]["send_bytes_rate"][border:] if value is not None] == [70]
    summary = found["summary"]
    assert (summary["job"], summary["state"], summary["step_seconds"]) == ("summaries", "filled", 600)
    assert set(summary["fields"]) == set(SECTIONS["broker_groups"])
    assert found["figures"]["send_rate"]["measured_seconds"] == 3 * 600 + 10


def test_of_a_broker_group_days_have_ten_minutes_and_30_days_have_hours(
    viewer: APIClient, redis_server: Server, settings: Any
) -> None:
    settings.REDIS_URL = redis_server.url
    redis.Redis.from_url(redis_server.url).flushall()
    hour = int(time.time()) // 3_600 * HOUR_MS - 5 * HOUR_MS
    for number in range(1, 7):
        store(history(hour + number * TEN_MINUTES_MS, {"g1": [point(connections=number)] * POINTS}))
    for days, seconds, values in ((1, 600, [1, 2, 3, 4, 5, 6]), (7, 1_200, [2, 4, 6]), (30, 3_600, [6])):
        found = viewer.get(WHERE, {"broker_group": "g1", "from": ago(days=days)}).json()
        assert found["summary"]["step_seconds"] == seconds
        assert [value for value in found["fields"]["connections"] if value is not None] == values
        assert len(found["at"]) <= POINTS_MAX
        assert found["figures"]["connections"]["mean"] == 3.5


def test_of_a_node_the_disk_of_each_hour_is_there(viewer: APIClient, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    at = (int(time.time()) // 3_600 - 4) * 60 * MINUTE_MS
    rows = [
        row_of("disk_forecasts", at, broker_group="g1", node_id=node, outlook="unknown", method="", disk_used_bytes_last=used)
        for node, used in (("g1-a", 40), ("g1-b", 60))
    ]  # fmt: skip
    publish("disk_forecasts", Step.HOUR, rows, job="forecasts")
    found = viewer.get(WHERE, {"node": "g1-a", "from": ago(hours=6)}).json()
    assert [value for value in found["fields"]["disk_used_bytes"] if value is not None] == [40]
    summary = found["summary"]
    assert (summary["fields"], summary["step_seconds"], summary["job"]) == (["disk_used_bytes"], 3_600, "analytics")


@pytest.mark.parametrize(
    ("of", "job", "field"), [(OF_GROUP, "analytics", "lag"), ({"broker_group": "g1"}, "summaries", "send_rate")]
)
def test_without_summaries_the_answer_says_so(
    viewer: APIClient, settings: Any, of: dict[str, str], job: str, field: str
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    found = viewer.get(WHERE, of | {"from": ago(days=2)}).json()
    assert found["summary"]["job"] == job
    assert (found["summary"]["state"], found["summary"]["as_of"], found["border_at"]) == ("no_run_yet", None, None)
    assert found["reason"].startswith("Redis is not responding")
    assert set(found["fields"][field]) == {None}
    assert found["figures"][field] == {"mean": None, "p99": None, "measured_seconds": 0}


@pytest.mark.parametrize(
    ("query", "field", "what"),
    [
        ({"from": {"days": 31}}, "from", "must be at most 30 days before `to`"),
        ({"from": {"hours": 2}, "to": {"hours": 3}}, "to", "must be after `from`"),
        ({"from": {"hours": 2}, "to": {"hours": 2}}, "to", "must be after `from`"),
        ({"from": {"hours": -1}}, "from", "is in the future"),
        ({"from": {"hours": 1}, "to": {"hours": -1}}, "to", "is in the future"),
        ({"to": {"hours": 1}}, "to", "needs `from`"),
        ({"from": "yesterday"}, "from", "must be a time with a time zone"),
        ({"from": {"hours": 2}, "subject": ""}, "from", "needs a subject, broker_group or node"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(
    viewer: APIClient, query: dict[str, Any], field: str, what: str
) -> None:
    asked = {
        name: ago(**value) if isinstance(value, dict) else value for name, value in ({"subject": "o"} | query).items()
    }
    answer = viewer.get(WHERE, asked)
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")
    assert answer.json()["fields"][field].startswith(what)


def test_a_clock_that_is_a_little_ahead_means_now(viewer: APIClient, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    found = viewer.get(WHERE, OF_GROUP | {"from": ago(hours=2), "to": ago(minutes=-2)}).json()
    assert ms(found["to_at"]) <= time.time() * 1000


def test_an_unknown_parameter_is_named(viewer: APIClient) -> None:
    assert "span" in viewer.get(WHERE, OF_GROUP | {"span": "6h"}).json()["fields"]
