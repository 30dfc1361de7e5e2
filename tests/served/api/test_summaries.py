"""/analytics/tables/: what there is, narrowed, ordered, at a step that suits, with the runs that made it."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.roles import Role, Scope
from console.analytics import services
from console.analytics.models import AnalyticsRun, TableState
from console.analytics.queries import RANKED_MAX
from console.analytics.rows import Window
from console.analytics.steps import POINTS_MAX, Step
from console.analytics.tables import TABLES
from metaserver.services import subjects, teams
from tests.support.analytics.summaries import lag_row, latency_row
from tests.support.console.people import TESTER, browser, machine, person

pytestmark = pytest.mark.django_db
LIST = "/api/v1/analytics/tables/"
LAG = f"{LIST}lag/"
HOUR = timedelta(hours=1)
NOW = timezone.now().replace(minute=0, second=0, microsecond=0)
"""The last full hour: what is not asked for by its time is asked for by the real clock."""
MINUTE_MS = 60_000


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def published(table: str, rows: list[dict[str, Any]], step: Step = Step.MINUTE, *, job: str = "lag") -> AnalyticsRun:
    """A run that succeeded, of the 90 days until NOW."""
    run = services.start_run(job, from_at=NOW - timedelta(days=90), to_at=NOW)
    services.publish(run, table, rows, step=step)
    services.finish_run(run, watermark_at=NOW)
    return run


@pytest.fixture
def viewer(db: None) -> APIClient:
    return browser(person("vera", Role.VIEWER))


def asked(client: APIClient, path: str = LAG, **query: Any) -> dict[str, Any]:
    answer = client.get(path, query)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def refused(client: APIClient, path: str = LAG, **query: Any) -> dict[str, str]:
    """The fields of the problem."""
    answer = client.get(path, query)
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid"), answer.content
    fields: dict[str, str] = answer.json()["fields"]
    return fields


def test_tables_are_listed_with_what_their_columns_mean(viewer: APIClient) -> None:
    rows = {row["name"]: row for row in asked(viewer, LIST)["results"]}
    assert set(rows) == set(TABLES)
    assert all((row["state"], row["as_of"]) == ("no_run_yet", None) for row in rows.values())
    columns = {column["name"]: column for column in rows["lag"]["columns"]}
    assert columns["time_lag_seconds_max"] == {
        "name": "time_lag_seconds_max",
        "type": "number",
        "unit": "s",
        "text": "age of the oldest unacknowledged message: maximum; 0 if all are acknowledged",
        "is_nullable": True,
        "is_key": False,
        "choices": [],
    }
    assert rows["lag"]["filters"] == ["subject", "group", "team", "run"]
    assert rows["lag"]["steps"] == ["minute", "ten_minutes", "hour", "day"]
    assert rows["delayed_load"]["is_ahead"] is True
    published("lag", [])
    rows = {row["name"]: row for row in asked(viewer, LIST)["results"]}
    assert (rows["lag"]["state"], rows["lag"]["as_of"]) == ("filled", text(NOW).replace(".000", ""))


def test_no_run_yet_is_not_an_empty_answer(viewer: APIClient) -> None:
    body = asked(viewer)
    assert (body["state"], body["as_of"], body["runs"], body["results"]) == ("no_run_yet", None, [], [])
    run = published("lag", [])
    body = asked(viewer)
    assert (body["state"], body["results"]) == ("filled", [])
    assert [made["id"] for made in body["runs"]] == [str(run.pk)]


def test_an_export_has_the_columns_of_its_table(viewer: APIClient) -> None:
    published("lag", [lag_row(ms(NOW) - MINUTE_MS)])
    query = {"to": text(NOW), "step": "minute"}
    [row] = asked(viewer, **query)["results"]
    answer = viewer.get(LAG, query | {"format": "csv"})
    header, *rows = csv.reader(io.StringIO(b"".join(answer).decode("utf-8-sig")))
    assert (header, len(rows)) == (list(row), 1)


@pytest.mark.database
def test_rows_come_with_the_runs_that_made_them(viewer: APIClient) -> None:
    at = ms(NOW) - 5 * MINUTE_MS
    first = published("lag", [lag_row(at, lag_messages_max=7)])
    second = services.start_run("lag", from_at=NOW - timedelta(minutes=2), to_at=NOW)
    services.publish(second, "lag", [lag_row(ms(NOW) - MINUTE_MS)], step=Step.MINUTE)
    body = asked(viewer, to=text(NOW), step="minute")
    assert [(row["at"], row["lag_messages_max"], row["run"]) for row in body["results"]] == [
        (text(NOW - timedelta(minutes=1)), None, str(second.pk)),
        (text(NOW - timedelta(minutes=5)), 7, str(first.pk)),
    ]
    assert [(run["id"], run["job"], run["state"]) for run in body["runs"]] == [
        (str(second.pk), "lag", "running"),
        (str(first.pk), "lag", "succeeded"),
    ]
    assert body["as_of"] == text(NOW).replace(".000", "")
    assert (body["step"], body["step_seconds"], body["to_at"]) == ("minute", 60, text(NOW))
    assert body["from_at"] == text(NOW - timedelta(days=1))


def test_rows_say_what_is_missing_in_them(viewer: APIClient) -> None:
    run = services.start_run("lag", from_at=NOW - HOUR, to_at=NOW)
    services.publish(run, "lag", [lag_row(ms(NOW) - 60_000)], step=Step.MINUTE)
    services.finish_run(run, watermark_at=NOW, missing=["g2"])
    read = services.start_run("ingest")
    services.finish_run(read, late_rows=70, holes=3)
    found = asked(viewer, to=text(NOW + 2 * HOUR), **{"from": text(NOW - HOUR)})
    assert found["missing"] == found["runs"][0]["missing"] == ["g2"]
    late = AnalyticsRun.objects.filter(pk=read.pk)
    late.update(finished_at=NOW)
    found = asked(viewer, to=text(NOW + HOUR), **{"from": text(NOW - HOUR)})
    assert (found["holes"], found["late_rows"], found["scores"]) == (3, 70, [])
    late.update(finished_at=NOW - 2 * HOUR)
    found = asked(viewer, to=text(NOW + HOUR), **{"from": text(NOW - HOUR)})
    assert (found["holes"], found["late_rows"]) == (0, 0)
    (row,) = asked(viewer, "/api/v1/analytics/runs/?job=ingest")["results"]
    assert (row["late_rows"], row["holes"], row["missing"]) == ("70", "3", [])


def test_rows_that_are_left_out_of_minutes_are_counted(viewer: APIClient) -> None:
    run = services.start_run("lag", from_at=NOW - HOUR, to_at=NOW)
    minutes = [lag_row(ms(NOW) - number * MINUTE_MS) for number in (1, 2, 3)]
    totals = {ms(NOW) - MINUTE_MS: 31, ms(NOW) - 2 * MINUTE_MS: 41}
    services.publish(run, "lag", minutes, step=Step.MINUTE, totals=totals)
    services.publish(run, "lag", [lag_row(ms(NOW - HOUR))], step=Step.HOUR)
    expected = {"ranked_by": "lag_messages_max", "left_out_count": 40, "rows_count": 41, "moments_count": 2}
    query = {"from": text(NOW - HOUR), "to": text(NOW)}
    assert asked(viewer, **query)["omission"] == expected
    assert asked(viewer, f"{LAG}ranking/", **query, by="-lag_messages_max")["omission"] == expected
    assert asked(viewer, **query, step="hour")["omission"] is None
    assert asked(viewer, f"{LIST}latencies/", **query)["omission"] is None


def test_a_table_is_complete_up_to_what_is_being_published(viewer: APIClient) -> None:
    run = published("lag", [lag_row(ms(NOW) - number * MINUTE_MS) for number in range(1, 10)])
    half = [60, ms(NOW) - 3 * MINUTE_MS, ms(NOW) - MINUTE_MS]
    TableState.objects.filter(table="lag").update(unfinished=[half])
    found = asked(viewer, **{"from": text(NOW - HOUR), "to": text(NOW)})
    assert [ms(datetime.fromisoformat(row["at"])) for row in found["results"]] == [
        ms(NOW) - number * MINUTE_MS for number in range(1, 10) if number not in (2, 3)
    ]
    assert datetime.fromisoformat(found["as_of"]) == NOW - timedelta(minutes=3)
    assert run.watermark_at == NOW


def test_forecasts_say_how_often_they_held(viewer: APIClient) -> None:
    path = "/api/v1/analytics/tables/drain_forecasts/"
    today_ms = ms(timezone.now()) // Step.DAY.ms * Step.DAY.ms

    def score(
        days_ago: int, cases: int, held: int, of: str = "from_2_hours", width: float | None = None
    ) -> dict[str, Any]:
        counts = {"cases_count": cases, "held_count": held, "below_count": min(1, cases - held), "above_count": 0}
        counts["above_count"] = cases - held - counts["below_count"]
        scored = "disk_forecasts" if of == "all" else "drain_forecasts"
        key = {"at_ms": today_ms - days_ago * Step.DAY.ms, "scored": scored, "case_class": of}
        return {**key, **counts, "width_ratio_median": width, "target_ratio": 0.8}

    def publish(*rows: dict[str, Any]) -> None:
        run = services.start_run("scores")
        window = Window(today_ms - 100 * Step.DAY.ms, today_ms + Step.DAY.ms)
        services.publish(run, "forecast_scores", rows, step=Step.HOUR, window=window)
        services.finish_run(run)

    (found,) = asked(viewer, path)["scores"]
    assert (found["case_class"], found["cases_count"], found["held_ratio"]) == ("all", 0, None)
    publish(score(1, 20, 10), score(40, 500, 0))
    (found,) = asked(viewer, path)["scores"]
    assert (found["cases_count"], found["held_ratio"], found["is_trusted"]) == (20, None, False), "too few cases"
    publish(
        score(1, 20, 10, width=4.0), score(2, 60, 40, width=8.0), score(3, 20, 11), score(40, 500, 0), score(1, 9, 9, "all"),
        score(1, 40, 32, "below_2_minutes"), score(1, 40, 28, "falling_from_2_hours"), score(1, 0, 0, "below_2_hours"),
    )  # fmt: skip
    found = asked(viewer, path)["scores"]
    assert [(one["case_class"], one["held_ratio"], one["is_trusted"]) for one in found] == [
        ("below_2_minutes", 0.8, True),
        ("from_2_hours", 0.61, False),
        ("falling_from_2_hours", 0.7, True),
    ]
    assert found[1] == {
        "scored": "drain_forecasts",
        "case_class": "from_2_hours",
        "days": 30,
        "cases_count": 100,
        "held_count": 61,
        "below_count": 3,
        "above_count": 36,
        "width_ratio_mean": 7.0,
        "held_ratio": 0.61,
        "is_trusted": False,
        "target_ratio": 0.8,
    }
    found = asked(viewer, "/api/v1/analytics/tables/anomalies/")["scores"]
    assert [(one["scored"], one["is_trusted"]) for one in found] == [("anomalies", None), ("anomaly_flags", None)]


def test_made_up_rows_say_so(viewer: APIClient) -> None:
    published("lag", [lag_row(ms(NOW) - MINUTE_MS)], job="demo")
    assert [run["job"] for run in asked(viewer, to=text(NOW), step="minute")["runs"]] == ["demo"]


@pytest.mark.database
def test_a_chart_of_any_length_has_few_points(viewer: APIClient) -> None:
    for step, count in ((Step.MINUTE, 180), (Step.TEN_MINUTES, 600), (Step.HOUR, 90 * 24), (Step.DAY, 90)):
        end = ms(NOW) - ms(NOW) % step.ms
        published("lag", [lag_row(end - number * step.ms) for number in range(1, count + 1)], step)
    for days, step in ((0.1, "minute"), (1, "ten_minutes"), (30, "hour"), (90, "day")):
        query = {"from": text(NOW - timedelta(days=days)), "to": text(NOW), "subject": "orders", "group": "billing"}
        body = asked(viewer, **query, limit=500)
        assert body["step"] == step
        found = len(body["results"])
        while body["next"]:
            body = asked(viewer, **query, limit=500, cursor=body["next"])
            found += len(body["results"])
        assert timedelta(days=days).total_seconds() / body["step_seconds"] - 2 <= found <= POINTS_MAX
    assert asked(viewer, **{"from": text(NOW - timedelta(days=90)), "to": text(NOW)}, step="hour")["step"] == "hour"


def test_a_range_that_is_too_long_or_no_range(viewer: APIClient) -> None:
    assert "more than 1000 points" in refused(viewer, **{"from": "2000-01-01T00:00:00Z"})["to"]
    assert asked(viewer, **{"from": "2000-01-01T00:00:00Z"}, step="day")["results"] == []
    now, later = text(NOW), text(NOW + HOUR)
    for begin, end in ((later, now), (now, now), ("1969-12-31T23:59:59Z", now), ("0001-01-01T00:00:00+14:00", now)):
        assert "before `to`" in refused(viewer, **{"from": begin, "to": end})["from"]
    assert refused(viewer, to="9999-12-31T23:59:59-14:00").keys() == {"from"}
    assert refused(viewer, **{"from": "2026-01-01"}).keys() == {"from"}
    assert "one of auto, minute" in refused(viewer, step="second")["step"]
    assert "one of auto, hour, day" in refused(viewer, f"{LIST}failures/", step="minute")["step"]


def test_a_table_that_looks_ahead_begins_now(viewer: APIClient) -> None:
    run = services.start_run("delayed")
    load = {"subject": "orders", "pending_messages": 5, "pending_bytes": 500}
    day_ms = ms(NOW) - ms(NOW) % Step.DAY.ms
    ahead = [{"at_ms": day_ms + number * Step.DAY.ms, **load} for number in range(-1, 120)]
    services.publish(run, "delayed_load", ahead, step=Step.DAY)
    body = asked(viewer, f"{LIST}delayed_load/", ordering="at", limit=500)
    assert body["step"] == "day"
    assert len(body["results"]) == 90
    assert body["results"][0]["at"] > text(NOW - HOUR)


@pytest.mark.database
def test_filters_are_the_tables_own(viewer: APIClient) -> None:
    teams.create_team("shop", actor=TESTER)
    subjects.create_subject("orders", {"owner": "shop"}, actor=TESTER)
    at = ms(NOW) - MINUTE_MS
    pairs = [(subject, group) for subject in ("orders", "Orders") for group in ("a", "b")]
    first = published("lag", [lag_row(at, subject, group) for subject, group in pairs])
    second = services.start_run("lag", from_at=NOW - timedelta(minutes=5), to_at=NOW - timedelta(minutes=4))
    services.publish(second, "lag", [lag_row(at - 4 * MINUTE_MS)], step=Step.MINUTE)

    def found(**query: Any) -> list[tuple[str, str]]:
        rows = asked(viewer, to=text(NOW), step="minute", ordering="subject,-group", **query)["results"]
        return [(row["subject"], row["group"]) for row in rows]

    assert found(subject="orders") == [("orders", "billing"), ("orders", "b"), ("orders", "a")]
    assert found(subject="Orders", group="a") == [("Orders", "a")]
    assert found(group="") == []
    assert found(team="shop", group="b") == [("orders", "b")]
    assert found(team="nobody") == []
    assert found(run=second.pk) == [("orders", "billing")]
    assert len(found(run=first.pk)) == 4
    assert refused(viewer, kind="x") == {"kind": "is not a filter of lag; available: subject, group, team, run"}
    assert refused(viewer, run="x").keys() == {"run"}
    assert refused(viewer, subject="a\x00").keys() == {"subject"}
    assert "one of end_to_end, handling" in refused(viewer, f"{LIST}latencies/", kind="x")["kind"]
    assert refused(viewer, f"{LIST}anomalies/", is_flagged="maybe").keys() == {"is_flagged"}


@pytest.mark.database
def test_flags_and_teams(viewer: APIClient) -> None:
    at = ms(NOW) - Step.HOUR.ms
    numbers: dict[str, Any] = dict.fromkeys(("value", "expected", "expected_low", "expected_high", "score"), 1.0)
    numbers["about_messages"] = 5
    flags = [
        {"at_ms": at, "subject": "orders", "group": "", "metric": metric, **numbers, "is_flagged": flag}
        for metric, flag in (("lag_messages", True), ("time_lag_seconds", False))
    ]  # fmt: skip
    published("anomalies", flags, Step.HOUR, job="anomalies")
    for query, metrics in (({"is_flagged": "true"}, {"lag_messages"}), ({"is_flagged": "0"}, {"time_lag_seconds"})):
        body = asked(viewer, f"{LIST}anomalies/", to=text(NOW), step="hour", group="", **query)
        assert {row["metric"] for row in body["results"]} == metrics
    columns = {column.name: None for column in TABLES["team_capacity"].columns}
    published("team_capacity", [{"at_ms": at, **columns, "team": team} for team in ("", "shop")], Step.HOUR, job="c")
    body = asked(viewer, f"{LIST}team_capacity/", to=text(NOW), step="hour", team="shop")
    assert [row["team"] for row in body["results"]] == ["shop"]


@pytest.mark.database
def test_pages_in_any_order_show_every_row_once(viewer: APIClient) -> None:
    at = ms(NOW) - 10 * MINUTE_MS
    lags = [None if number % 5 == 0 else number % 7 for number in range(60)]
    published(
        "lag",
        [
            lag_row(at + number % 3 * MINUTE_MS, f"s{number:02}", lag_messages_max=lag)
            for number, lag in enumerate(lags)
        ],
    )
    for ordering in ("at", "-at", "lag_messages_max,-at", "-lag_messages_max", "group"):
        seen: list[str] = []
        cursor = ""
        while True:
            body = asked(viewer, to=text(NOW), step="minute", ordering=ordering, limit=7, cursor=cursor)
            seen += [row["subject"] for row in body["results"]]
            cursor = body["next"]
            if not cursor:
                break
        assert sorted(seen) == [f"s{number:02}" for number in range(60)]
    assert "one of at, subject" in refused(viewer, ordering="-at_ms")["ordering"]


def test_fifty_rows_take_as_few_queries_as_one(viewer: APIClient, django_assert_max_num_queries: Any) -> None:
    published("latencies", [latency_row(ms(NOW) - number * MINUTE_MS) for number in range(1, 51)])
    with django_assert_max_num_queries(10):
        body = asked(viewer, f"{LIST}latencies/", to=text(NOW), step="minute")
    assert len(body["results"]) == 50
    assert set(body["results"][0]) == {
        "at", "subject", "group", "kind", "messages", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "run"
    }  # fmt: skip


def test_who_may_read_and_what_is_not_there(viewer: APIClient) -> None:
    assert APIClient().get(LAG).status_code == 401
    assert machine(person("root", Role.ADMIN), Scope.READ).get(LAG).status_code == 200
    answer = viewer.get(f"{LIST}nothing/")
    assert (answer.status_code, answer.json()["code"]) == (404, "analytics_table.unknown")


RANKING = f"{LAG}ranking/"


def _ranked(client: APIClient, **query: Any) -> list[tuple[str, float]]:
    body = asked(client, RANKING, **query)
    return [(one["row"]["group"], one["extreme"]) for one in body["results"]]


def test_a_ranking_has_one_row_for_each_group_with_its_history(viewer: APIClient) -> None:
    def row(group: str, minutes_ago: int, lag: int | None) -> dict[str, Any]:
        return lag_row(ms(NOW - timedelta(minutes=minutes_ago)), group=group, lag_messages_max=lag)

    published(
        "lag",
        [
            row("billing", 30, 5), row("billing", 20, 90), row("billing", 10, 7),
            row("audit", 30, 40), row("audit", 10, None),
            row("mail", 10, None),
        ],
    )  # fmt: skip
    since = {"from": text(NOW - HOUR), "to": text(NOW)}
    assert _ranked(viewer, by="-lag_messages_max", **since) == [("billing", 90), ("audit", 40)]
    assert _ranked(viewer, by="lag_messages_max", **since) == [("billing", 5), ("audit", 40)]
    assert _ranked(viewer, by="-lag_messages_max", group="audit", **since) == [("audit", 40)]
    body = asked(viewer, RANKING, by="-lag_messages_max", **since)
    assert (body["total"], body["step"]) == (2, "minute")
    billing, audit = body["results"]
    assert [one["value"] for one in billing["history"]] == [5, 90, 7]
    assert billing["row"]["lag_messages_max"] == 7
    assert billing["row"]["at"] == text(NOW - timedelta(minutes=10))
    assert [one["value"] for one in audit["history"]] == [40, None]


def test_a_disk_that_never_fills_is_ranked_behind_those_that_do(viewer: APIClient) -> None:
    def row(node: str, hours_ago: int, growth: float | None, seconds: float | None) -> dict[str, Any]:
        key = {"at_ms": ms(NOW - hours_ago * HOUR), "broker_group": "g1", "node_id": node}
        said = {
            "outlook": "unknown",
            "method": "by weekday",
            "growth_bytes_per_second_mid": growth,
            "full_seconds_mid": seconds,
        }
        return {**dict.fromkeys(column.name for column in TABLES["disk_forecasts"].columns), **key, **said}

    published(
        "disk_forecasts",
        [
            row("b-never", 1, -5.0, None), row("a-never", 1, 0.0, None), row("a-never", 2, 0.0, None),
            row("full-late", 1, 1.0, 9000.0), row("full-soon", 1, 9.0, 60.0), row("full-soon", 2, 0.0, None),
            row("not-measured", 1, None, None),
        ],
        Step.HOUR,
    )  # fmt: skip

    def nodes(by: str) -> list[tuple[str, float | None]]:
        body = asked(
            viewer,
            f"{LIST}disk_forecasts/ranking/",
            by=by,
            step="hour",
            **{"from": text(NOW - 3 * HOUR), "to": text(NOW)},
        )
        assert body["total"] == len(body["results"])
        return [(one["row"]["node_id"], one["extreme"]) for one in body["results"]]

    never, full = [("a-never", None), ("b-never", None)], [("full-soon", 60.0), ("full-late", 9000.0)]
    assert nodes("full_seconds_mid") == [*full, *never]
    assert nodes("-full_seconds_mid") == [*never, *reversed(full)]
    assert nodes("growth_bytes_per_second_mid")[0] == ("b-never", -5.0)


def test_a_ranking_is_bounded(viewer: APIClient) -> None:
    at_ms = ms(NOW - timedelta(minutes=10))
    published("lag", [lag_row(at_ms, group=f"g{i:02}", lag_messages_max=i) for i in range(RANKED_MAX + 2)])
    body = asked(viewer, RANKING, by="-lag_messages_max", **{"from": text(NOW - HOUR), "to": text(NOW)})
    assert (len(body["results"]), body["total"]) == (RANKED_MAX, RANKED_MAX + 2)
    assert body["results"][0]["row"]["group"] == f"g{RANKED_MAX + 1:02}"
    week = asked(viewer, RANKING, by="-lag_messages_max", **{"from": text(NOW - timedelta(days=7)), "to": text(NOW)})
    assert week["step"] == "hour", "a minute would be 10,080 points"


def test_a_ranking_is_by_a_column_of_numbers(viewer: APIClient) -> None:
    for by in ("", "group", "-nothing", "at"):
        assert "lag_messages_max" in refused(viewer, RANKING, by=by)["by"]
    assert viewer.get(f"{LIST}nothing/ranking/", {"by": "x"}).status_code == 404
