"""Jobs on a lake: what they publish, in whatever pieces they run, and what a run says of itself."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from pyspark.sql import SparkSession

from console.analytics import queries, services
from console.analytics import rows as publication_rows
from console.analytics.models import DEMO_DATA, DEMO_JOB, AnalyticsRun, RunState, TableState
from console.analytics.rows import Window
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from console.jobs.summaries import TABLE as FILLED_BY_CONSOLE
from metaserver.services.changes import Actor
from metaserver.services.subjects import create_subject
from metaserver.services.teams import create_team
from qmq.protocol.names import split_subject
from spark_analytics.jobs import publishing
from spark_analytics.jobs.catalog import JOBS, ORDER
from spark_analytics.jobs.runner import Report, Request, Runner
from spark_analytics.jobs.states import CLOCKS_APART_MS, States
from spark_analytics.lake import Lake, LakeBusy
from spark_analytics.lake.delta import Change
from spark_analytics.lake.lake import WATERMARK_SECONDS
from spark_analytics.lake.tables import STREAMED, WITH_MINUTES
from spark_analytics.lake.tables import TABLES as TABLES_OF_LAKE
from spark_analytics.local_rows import local_table
from spark_analytics.transforms import outputs
from spark_analytics.transforms.windows import SHORT_STEPS
from tests.served.spark.index_rows import NINE, index_rows
from tests.served.spark.lake_of_day import add_late, fill, know
from tests.served.spark.published import assert_same, gold, published
from tests.support.analytics import frames as analytics_frames
from tests.support.analytics import naive
from tests.support.analytics.simulated_day import DAY_MS, HOUR_MS, Day, rows_of, simulate
from tests.support.whole import in_whole_spark_runs

pytestmark = pytest.mark.django_db(transaction=True)

ACTOR = Actor("tests")
OFFLINE = [name for name in JOBS if name != "delayed"]
"""Jobs that need no node."""


@pytest.fixture(scope="module")
def day() -> Day:
    return simulate(seed=3, scale=0.1)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, day: Day, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """With the whole day in it; tests take states and watermarks back."""
    found = Lake(spark, str(tmp_path_factory.mktemp("running") / "lake"))
    fill(found, day)
    return found


@pytest.fixture
def empty_lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, str(tmp_path / "lake"))


def run(lake: Lake, names: list[str], **asked: Any) -> Report:
    report = Runner(lake, Request({}, **asked), say=print).run(names)
    assert not report.failed, report.failed
    return report


def kept_at_the_end(day: Day) -> list[tuple[int, int, int]]:
    """What each subject keeps by the day's last sample: begin, end, bytes."""
    ranges = rows_of(day)["ranges"]
    last: dict[tuple[str, str], tuple[int, int, int, int]] = {}
    names = ("broker_group", "subject", "at_ms", "begin", "end", "stored_bytes")
    for group, subject, *sample in zip(*(ranges[name] for name in names), strict=True):
        last[group, subject] = max(tuple(sample), last.get((group, subject), (0, 0, 0, 0)))
    return [(begin, end, size) for _, begin, end, size in last.values()]


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


@in_whole_spark_runs
def test_a_day_at_once_fills_every_table_and_again_the_same(lake: Lake, day: Day) -> None:
    begin, end = day.first_ms, day.first_ms + DAY_MS
    create_team("shop", actor=ACTOR)
    for subject in sorted({split_subject(message.subject).subject for message in day.record.messages}):
        create_subject(subject, {"owner": "shop"}, actor=ACTOR)
    report = run(lake, OFFLINE)
    assert report.watermark_ms == end
    at_once = published()
    for table in TABLES:
        # Of a day's forecasts and values none is compared with a later one, or with earlier days, yet. Another job fills
        # `broker_group_numbers`.
        if table not in ("delayed_load", "anomalies", "forecast_scores", "broker_group_numbers"):
            assert {row["step_seconds"] for row in at_once[table]} == {
                step.seconds for step in TABLES[table].model.steps
            }
    (capacity,) = [row for row in at_once["team_capacity"] if row["step_seconds"] == 86400]
    assert capacity["team"] == "shop"
    kept = kept_at_the_end(day)
    assert capacity["stored_messages_last"] == sum(end - begin for begin, end, _ in kept)
    # The hour that retention is in is counted by its part.
    assert capacity["stored_bytes_last"] == pytest.approx(sum(size for _, _, size in kept), rel=0.05)
    runs = list(AnalyticsRun.objects.order_by("pk"))
    assert [found.job for found in runs] == OFFLINE
    for found in runs:
        assert found.state == RunState.SUCCEEDED
        assert found.tables == sorted(JOBS[found.job].tables)
        assert (found.rows_read or 0) > 0 or found.job in ("anomalies", "scores")
        assert found.watermark_at == datetime.fromtimestamp(end / 1000, UTC)
        assert found.finished_at is not None
    assert sum(found.rows_written or 0 for found in runs) == report.rows_written == sum(map(len, at_once.values()))

    for table, rows in at_once.items():
        if table not in ("delayed_load", FILLED_BY_CONSOLE):
            assert_same({table: gold(lake, table, Window(begin, end))}, {table: rows})
    assert run(lake, OFFLINE).jobs == 0, "nothing is due any more"
    run(lake, ["lag", "rates"], from_ms=begin + 5 * HOUR_MS, to_ms=begin + 7 * HOUR_MS)
    # From a state that is made from the one before, rather than from the day's begin.
    run(lake, ["lag"], from_ms=begin + 9 * HOUR_MS, to_ms=begin + 10 * HOUR_MS)
    assert_same(published(), at_once)


@in_whole_spark_runs
def test_published_lag_is_that_of_the_naive_computation(lake: Lake, day: Day) -> None:
    """What the job publishes, not only what the transform returns: it includes what the job passes to the transform."""
    run(lake, ["lag"])
    columns = [column.name for column in TABLES["lag"].columns if not column.is_key]
    found = {
        (row["step_seconds"] * 1000, row["at_ms"], row["subject"], row["group"]): {name: row[name] for name in columns}
        for row in published("lag")["lag"]
    }
    different = analytics_frames.differences(naive.lag(day, SHORT_STEPS), found, 1e-9)
    assert not different, f"{len(different)} differences: " + "; ".join(different[:10])


@in_whole_spark_runs
def test_a_day_in_pieces_gives_the_tables_of_a_day_at_once(lake: Lake, day: Day) -> None:
    begin, end = day.first_ms, day.first_ms + DAY_MS
    run(lake, OFFLINE)
    at_once = published()
    AnalyticsRun.objects.all().delete()
    for known in (begin + 2 * HOUR_MS + 61_000, begin + 15 * HOUR_MS + 1_000_000, end):
        know(lake, day, known)
        run(lake, ["state", *OFFLINE])
        last = TABLES["lag"].model._default_manager.filter(step_seconds=60).latest("at_ms")
        assert last.at_ms + Step.MINUTE.ms == known - known % Step.MINUTE.ms, "up to the watermark, and not beyond"
    assert_same(published(), at_once)


@in_whole_spark_runs
def test_late_rows_are_computed_again_with_the_hours_behind_them_that_they_change(
    spark: SparkSession, day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = ["lag", "rates", "latency", "skew", "failures", "capacity"]
    end = day.first_ms + 22 * HOUR_MS
    create_team("shop", actor=ACTOR)
    create_subject("orders", {"owner": "shop"}, actor=ACTOR)
    rows = rows_of(day)

    def is_late(at_ms: int | None, from_hour: float, to_hour: float) -> bool:
        return from_hour <= ((at_ms or 0) - day.first_ms) / HOUR_MS < to_hour

    # In the tenth hour a group of this subject is set back to what was stored in the eighth.
    stored = zip(rows["index"]["broker_group"], rows["index"]["subject"], rows["index"]["stored_at"], strict=True)
    late = {
        "index": {
            number
            for number, (group, subject, at_ms) in enumerate(stored)
            if (group, subject) == ("broker-2", "orders")
            and (is_late(at_ms, 5.25, 5.5) or is_late(at_ms, 5.95, 6) or is_late(at_ms, 8, 8.5))
        },
        "progress": {
            number
            for number, (subject, at_ms) in enumerate(
                zip(rows["progress"]["subject"], rows["progress"]["at"], strict=True)
            )
            if subject == "stock" and is_late(at_ms, 18, 18.1)
        },
        "retries": {number for number, at_ms in enumerate(rows["retries"]["stored_at"]) if is_late(at_ms, 7, 7.5)},
    }
    assert all(late.values())

    whole = Lake(spark, str(tmp_path / "whole"))
    fill(whole, day, end)
    run(whole, jobs)
    expected = published()
    AnalyticsRun.objects.all().delete()

    lake = Lake(spark, str(tmp_path / "late"))
    fill(lake, day, end, late)
    for hour in range(1, 23):
        States(lake).advance(day.first_ms + hour * HOUR_MS)
    run(lake, jobs)

    def read_late(runner: Runner) -> str:
        known = frozenset(lake.snapshot("stored_seconds").files)
        add_late(lake, day, late)
        runner.report.late_rows = runner._make_late_due(known)
        assert lake.snapshot("index").late, "a run that is killed leaves it"
        return ""

    monkeypatch.setattr(Runner, "_read_nodes", read_late)
    before = AnalyticsRun.objects.latest("pk").pk
    assert run(lake, ["ingest", *jobs]).late_rows == sum(map(len, late.values()))
    assert not lake.snapshot("index").late
    assert_same(published(), expected)
    spans: dict[str, list[tuple[float, ...]]] = {name: [] for name in jobs}
    for one in AnalyticsRun.objects.filter(pk__gt=before, job__in=jobs).order_by("pk"):
        assert one.from_at is not None
        assert one.to_at is not None
        hours = tuple((at.timestamp() * 1000 - day.first_ms) / HOUR_MS for at in (one.from_at, one.to_at))
        spans[one.job].append(hours)
    # Of hour 5 a group acknowledged the last messages in the next one; behind hour 18 it holds messages for ever without the rows.
    of_states = [(5, 7), (8, 10), (18, 22)]
    assert spans == dict.fromkeys(jobs, of_states) | {"failures": [(7, 8)], "capacity": [(5, 22)]}


IDLE_DAYS = 3


@in_whole_spark_runs
def test_days_without_rows_are_one_run_and_have_the_rows_of_days_computed_one_by_one(
    spark: SparkSession, day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = day.first_ms + DAY_MS
    end = begin + IDLE_DAYS * DAY_MS
    create_team("shop", actor=ACTOR)
    create_subject(split_subject(day.record.messages[0].subject).subject, {"owner": "shop"}, actor=ACTOR)

    def computed(folder: str) -> dict[str, list[dict[str, Any]]]:
        """What the tables say of a lake in which nothing happens for days behind the day, and then up to 02:10."""
        lake = Lake(spark, str(tmp_path / folder))
        fill(lake, day, end + 130 * Step.MINUTE.ms)
        report = Runner(lake, Request({}), say=print, now_ms=lambda: end + 3 * HOUR_MS).run(["state", *OFFLINE])
        assert not report.failed, report.failed
        found = published()
        for name in OFFLINE:
            runs = AnalyticsRun.objects.filter(job=name)
            assert {run.state for run in runs} == {RunState.SUCCEEDED}
        return found

    together = computed("together")
    spans = AnalyticsRun.objects.filter(job="lag").order_by("pk").values_list("from_at", "to_at")
    assert [span[1] for span in spans] == [moment(begin), moment(end), moment(end + 130 * Step.MINUTE.ms)]
    AnalyticsRun.objects.all().delete()
    monkeypatch.setattr(States, "idle_days", lambda self, to_ms: set())
    one_by_one = computed("one_by_one")
    assert AnalyticsRun.objects.filter(job="lag").count() == IDLE_DAYS + 2
    assert_same(together, one_by_one)
    for table in ("lag", "drain_forecasts", "team_capacity"):
        assert any(begin < row["at_ms"] < end for row in together[table]), table
    # And they are the truth, of which this is the third day without rows.
    third = replace(day, first_ms=begin + 2 * DAY_MS)
    columns = [column.name for column in TABLES["lag"].columns if not column.is_key]
    found = {
        (row["step_seconds"] * 1000, row["at_ms"], row["subject"], row["group"]): {name: row[name] for name in columns}
        for row in together["lag"]
        if third.first_ms <= row["at_ms"] < third.first_ms + DAY_MS
    }
    different = analytics_frames.differences(naive.lag(third, SHORT_STEPS), found, 1e-9)
    assert not different, f"{len(different)} differences: " + "; ".join(different[:10])


def test_anomalies_come_from_the_hours_of_gold_and_days_without_rows_are_as_if_computed_one_by_one(
    spark: SparkSession, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traffic of three weeks, of which the database has nothing, stops with the first of the days without rows."""
    settings.ANALYTICS_ZONE = ZoneInfo("Europe/Berlin")
    begin = NINE - NINE % DAY_MS
    end, idle = begin + 3 * DAY_MS, begin + DAY_MS
    lake = Lake(spark, str(tmp_path / "lake"))
    lake.append("index", index_rows(spark, 0, 1, from_ms=begin))
    for table in STREAMED:
        lake.commit(table, lake.snapshot(table), Change(watermarks={"g1": end + WATERMARK_SECONDS * 1000}))
    hours = range(idle - 21 * DAY_MS, idle, HOUR_MS)
    sent = np.random.default_rng(1).poisson(1000, len(hours)) / 3600
    schema = TABLES_OF_LAKE["gold_subject_rates"].schema
    mean = schema.names.index("sent_messages_per_second_mean")

    def rate(at_ms: int, step: Step, value: float) -> list[Any]:
        row: list[Any] = [moment(at_ms), step.ms, "orders", *[None] * (len(schema) - 3)]
        row[mean] = value
        return row

    rows = [rate(at_ms, Step.HOUR, value) for at_ms, value in zip(hours, sent.tolist(), strict=True)]
    rows += [rate(at_ms, Step.DAY, 1e6) for at_ms in hours[::24]]
    lake.append("gold_subject_rates", local_table(rows, schema))

    run(lake, ["anomalies"])
    together = published("anomalies")
    assert AnalyticsRun.objects.count() == 2
    assert gold(lake, "anomalies", Window(begin, end)) == together["anomalies"]
    assert len(together["anomalies"]) == 3 * 25
    of_hours = {row["at_ms"]: row for row in together["anomalies"] if row["step_seconds"] == Step.HOUR.seconds}
    assert [of_hours[at_ms]["value"] for at_ms in range(begin, idle, HOUR_MS)] == pytest.approx(sent[-24:].tolist())
    flagged = [at_ms for at_ms, row in of_hours.items() if row["is_flagged"]]
    assert flagged[0] == idle + HOUR_MS, "the second hour without traffic"
    assert (of_hours[flagged[0]]["value"], of_hours[flagged[0]]["metric"]) == (0.0, "sent_messages_per_second")
    TableState.objects.all().delete()
    AnalyticsRun.objects.all().delete()
    monkeypatch.setattr(States, "idle_days", lambda self, to_ms: set())
    run(lake, ["anomalies"])
    assert AnalyticsRun.objects.count() == 3
    assert published("anomalies") == together


def test_a_job_that_fails_says_why_and_the_others_run(lake: Lake, day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(given: Any) -> Any:
        raise ValueError("no luck")

    monkeypatch.setitem(JOBS, "rates", type(JOBS["rates"])(**{**_fields(JOBS["rates"]), "compute": broken}))
    hour = Request({}, from_ms=day.first_ms, to_ms=day.first_ms + HOUR_MS)
    report = Runner(lake, hour).run(["rates", "skew", "anomalies"])
    assert report.failed == {"rates": "ValueError: no luck"}
    assert report.left_out == {"anomalies": "not run: rates failed"}, "it reads what the rates publish"
    assert (report.jobs, "1 failed" in report.result().text) == (1, True)
    failed, succeeded = AnalyticsRun.objects.order_by("pk")
    assert (failed.state, failed.error) == (RunState.FAILED, "ValueError: no luck")
    assert [(found.part, found.parts) for found in (failed, succeeded)] == [(1, 3), (2, 3)]
    assert succeeded.state == RunState.SUCCEEDED


def test_a_range_apart_from_what_is_known_does_not_say_that_all_before_it_is(lake: Lake, day: Day) -> None:
    run(lake, ["skew"], from_ms=day.first_ms + 5 * HOUR_MS, to_ms=day.first_ms + 6 * HOUR_MS)
    assert TableState.objects.get(table="group_skew").watermark_at is None
    run(lake, ["skew"])
    state = TableState.objects.get(table="group_skew")
    assert state.watermark_at == datetime.fromtimestamp((day.first_ms + DAY_MS) / 1000, UTC)
    hours = {row["at_ms"] for row in published("group_skew")["group_skew"] if row["step_seconds"] == 3600}
    assert min(hours) < day.first_ms + 5 * HOUR_MS < max(hours)


@in_whole_spark_runs
def test_a_range_that_follows_what_is_known_moves_on_what_is(lake: Lake, day: Day) -> None:
    def known_hours(**asked: int) -> float:
        run(lake, ["skew"], **{name: day.first_ms + hours * HOUR_MS for name, hours in asked.items()})
        known = TableState.objects.get(table="group_skew").watermark_at
        assert known is not None
        return (known.timestamp() * 1000 - day.first_ms) / HOUR_MS

    assert known_hours(to_ms=3) == 3
    assert known_hours(from_ms=3, to_ms=5) == 5
    assert known_hours(from_ms=2, to_ms=4) == 5
    assert known_hours(from_ms=6, to_ms=7) == 5, "between them an hour is missing"


def test_a_day_that_retention_has_begun_to_take_is_left_as_it_was_published(
    lake: Lake, day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(lake, ["skew"], to_ms=day.first_ms + 3 * HOUR_MS)
    before = published("group_skew")
    monkeypatch.setattr(States, "begin_ms", lambda _: day.first_ms + 5 * HOUR_MS)
    said: list[str] = []
    assert "nothing is due" in Runner(lake, Request({}), say=said.append).run(["skew"]).left_out["skew"]
    assert "no longer has all earlier data" in said[0]
    assert published("group_skew") == before


@pytest.mark.parametrize("most", [5, 1], ids=["moments together", "a moment in several transactions"])
def test_more_rows_than_are_published_at_once_are_there_in_the_end_and_no_rows_take_them_out(
    most: int, empty_lake: Lake, day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = [day.first_ms + hour * HOUR_MS for hour in range(5)]
    text = "step_ms at_ms subject group consumers_count acked_messages\n"
    text += "\n".join(f"{HOUR_MS} {at} s {group} 1 {number}" for number, at in enumerate(hours) for group in "gh")
    for module in (publishing, publication_rows, services):
        monkeypatch.setattr(module, "PUBLISH_ROWS_MAX", most)
    made = services.start_run("skew", from_at=moment(hours[0]), to_at=moment(hours[4] + HOUR_MS))
    window = Window(hours[0], hours[4] + HOUR_MS)
    rows = analytics_frames.table(empty_lake.spark, text, outputs.GROUP_SKEW)
    assert publishing.publish(empty_lake, made, "group_skew", rows, ((Step.HOUR, window),)) == 10
    there = published("group_skew")["group_skew"]
    assert [(row["at_ms"], row["acked_messages"]) for row in there] == [
        (at, number) for number, at in enumerate(hours) for _ in "gh"
    ]
    assert gold(empty_lake, "group_skew", window) == there
    assert publishing.publish(empty_lake, made, "group_skew", rows.where("false"), ((Step.HOUR, window),)) == 0
    assert published("group_skew") == {"group_skew": []}, "what is not so any more is taken out"
    assert gold(empty_lake, "group_skew", window) == []


def test_of_minutes_the_rows_that_rank_highest_are_published_and_how_many_are_not(
    empty_lake: Lake, day: Day, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of equal values the first names; what is not known ranks last. Hours are complete."""
    settings.ANALYTICS_MINUTE_ROWS_MAX = 2
    minutes, hour = [day.first_ms + number * Step.MINUTE.ms for number in range(3)], day.first_ms
    sent = {
        minutes[0]: {"d": 4, "c": 7, "b": 7, "a": 7},
        minutes[1]: {"a": 1, "b": 0},
        minutes[2]: {"a": None, "b": 0, "c": 3},
    }
    text = "step_ms at_ms subject sent_messages\n"
    text += "\n".join(
        f"{step.ms} {at} {subject} {'-' if count is None else count}"
        for step in (Step.MINUTE, Step.HOUR)
        for at, counts in sent.items()
        for subject, count in counts.items()
        if step == Step.MINUTE or at == hour
    )
    rows = analytics_frames.table(empty_lake.spark, text, outputs.SUBJECT_RATES)
    made = services.start_run("rates", from_at=moment(hour), to_at=moment(hour + HOUR_MS))
    window = Window(hour, hour + HOUR_MS)
    publications = ((Step.MINUTE, window), (Step.HOUR, window))
    assert publishing.publish(empty_lake, made, "subject_rates", rows, publications) == 6 + 4
    found = published("subject_rates")["subject_rates"]
    assert [(row["at_ms"], row["subject"]) for row in found if row["step_seconds"] == 60] == [
        (minutes[0], "a"), (minutes[0], "b"), (minutes[1], "a"), (minutes[1], "b"), (minutes[2], "b"), (minutes[2], "c"),
    ]  # fmt: skip
    assert [row["subject"] for row in found if row["step_seconds"] == 3600] == ["a", "b", "c", "d"]
    table = TABLES["subject_rates"]
    assert queries.omission(table, Step.MINUTE, window) == queries.Omission("sent_messages", 2, 4, 2)
    assert queries.omission(table, Step.HOUR, window) is None
    kept = [
        (row["step_seconds"], row["at_ms"], row["subject"], row["sent_messages"])
        for row in gold(empty_lake, "subject_rates", window)
    ]
    every = [(60, at, subject, count) for at, counts in sent.items() for subject, count in sorted(counts.items())]
    every += [(3600, hour, subject, count) for subject, count in sorted(sent[hour].items())]
    assert kept == every, "gold has all"

    # One moment of the hour is published again, and another hour of the day; gold keeps the rows of the other moments.
    text = f"step_ms at_ms subject sent_messages\n60000 {minutes[1]} z 9\n{HOUR_MS} {hour + HOUR_MS} z 9"
    again = analytics_frames.table(empty_lake.spark, text, outputs.SUBJECT_RATES)
    parts = (Step.MINUTE, Window(minutes[1], minutes[2])), (Step.HOUR, Window(hour + HOUR_MS, hour + 2 * HOUR_MS))
    for rows_max in (publishing.PUBLISH_ROWS_MAX, 0):
        monkeypatch.setattr(publishing, "PUBLISH_ROWS_MAX", rows_max)
        publishing.publish(empty_lake, made, "subject_rates", again, parts)
        kept = [
            (row["step_seconds"], row["at_ms"], row["subject"])
            for row in gold(empty_lake, "subject_rates", Window(hour, hour + DAY_MS))
        ]
        unchanged = [row[:3] for row in every if row[:2] != (60, minutes[1])]
        assert kept == sorted([*unchanged, (60, minutes[1], "z"), (3600, hour + HOUR_MS, "z")])


def test_gold_has_minutes_of_the_tables_that_have_them() -> None:
    minutes = {name for name in outputs.SCHEMAS if Step.MINUTE in TABLES[name].model.steps}
    assert minutes == set(WITH_MINUTES)


class Killed(BaseException):
    """The process ends here."""


def test_hours_are_added_to_the_file_of_their_day_and_a_run_killed_between_the_commits_of_gold_is_due_again(
    spark: SparkSession, empty_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = empty_lake
    lake.append("index", index_rows(spark, 0, 130))

    def know_to(at_ms: int) -> None:
        for table in STREAMED:
            lake.commit(table, lake.snapshot(table), Change(watermarks={"g1": at_ms + WATERMARK_SECONDS * 1000}))

    def kept() -> dict[int, set[int]]:
        """Step in seconds -> the hours that gold has of it."""
        rows = gold(lake, "subject_rates", window)
        of_step = {
            row["step_seconds"]: {other["at_ms"] for other in rows if other["step_seconds"] == row["step_seconds"]}
            for row in rows
        }
        return {step: {at_ms - at_ms % HOUR_MS for at_ms in found} for step, found in of_step.items()}

    nine, ten = NINE, NINE + HOUR_MS
    window = Window(nine, nine + 2 * HOUR_MS)
    know_to(ten)
    run(lake, ["rates"])
    assert kept() == {60: {nine}, 600: {nine}, 3600: {nine}}

    know_to(ten + HOUR_MS)
    before, commit = published("subject_rates"), lake.commit
    for cuts, minutes in ((0, {nine}), (1, {nine, ten})):
        left = [cuts]

        def cut_off(table: str, base: Any, change: Change, left: list[int] = left) -> Any:
            if table.startswith("gold_"):
                if not left[0]:
                    raise Killed
                left[0] -= 1
            return commit(table, base, change)

        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(lake, "commit", cut_off)
            run(lake, ["rates"])
        assert kept() == {60: minutes, 600: minutes, 3600: {nine}}
        assert published("subject_rates") == before

    assert run(lake, ["rates"]).jobs == 1
    assert kept() == {60: {nine, ten}, 600: {nine, ten}, 3600: {nine, ten}}
    assert gold(lake, "subject_rates", window) == published("subject_rates")["subject_rates"]
    assert len(lake.snapshot("gold_subject_rates").files) == 1
    assert len(lake.snapshot("gold_subject_rates_minutes").files) == 2


@pytest.mark.parametrize(
    ("begins", "hour"),
    [
        ({"a": 20, "b": 5}, 1),
        ({"a": 19, "b": 5}, 0),
        ({"a": 10, "b": 5, "new": 0}, 0),
        ({"a": 9, "b": 5}, None),
        ({"a": 40, "b": 5}, 3),
        ({}, 3),
    ],
    ids=["nothing of hour 1", "a message of hour 1", "a new subject", "a message of hour 0", "nothing at all", "empty"],
)
def test_samples_say_since_when_all_was_stored_that_is_kept(
    begins: dict[str, int], hour: int | None, spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    samples = {0: {"a": 10, "b": 5}, 1: {"a": 20, "b": 5}, 2: {"a": 30, "b": 5}, 3: {"a": 40, "b": 5, "new": 7}}
    for number, ends in samples.items():
        text = "sampled_at broker_group subject begin end\n"
        text += "\n".join(f"{number * HOUR_MS} g1 {subject} 0 {end}" for subject, end in ends.items())
        lake.append("ranges", analytics_frames.table(spark, text, TABLES_OF_LAKE["ranges"].schema))
    expected = 0 if hour is None else hour * HOUR_MS - CLOCKS_APART_MS
    assert States(lake).kept_from({("g1", subject): begin for subject, begin in begins.items()}) == expected
    assert States(lake).kept_from({("g2", "a"): 1_000}) == 0, "it was never sampled"


def test_tails_are_kept_at_the_ends_of_days_and_those_of_hours_have_what_a_group_was_set_back_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    stored = (2 * HOUR_MS, 3 * HOUR_MS, 4 * HOUR_MS)
    text = "stored_at broker_group subject sequence size\n"
    text += "\n".join(f"{at_ms} g1 orders {sequence} 10" for sequence, at_ms in enumerate(stored))
    lake.append("index", analytics_frames.table(spark, text, TABLES_OF_LAKE["index"].schema))
    moves = ((HOUR_MS, 0), (5 * HOUR_MS, 3), (DAY_MS + 2 * HOUR_MS, 0))
    text = "at broker_group subject group position kind next_sequence\n"
    text += "\n".join(f"{at} g1 orders billing {number} start {to}" for number, (at, to) in enumerate(moves))
    lake.append("progress", analytics_frames.table(spark, text, TABLES_OF_LAKE["progress"].schema))

    states = States(lake)
    needed = {}
    for hour in (3, 24, 26, 27, 29):
        states.advance(hour * HOUR_MS)
        needed[hour] = sorted(row["second"] * 1000 for row in states.tail_at(hour * HOUR_MS).collect())
    everything = list(stored)
    assert needed == {3: everything[:1], 24: everything[-1:], 26: everything[-1:], 27: everything, 29: everything}
    assert {item.begin_ms for item in lake.snapshot("stored_tail").files.values()} == {DAY_MS}


def test_states_that_are_taken_out_leave_no_moment_that_had_none(spark: SparkSession, tmp_path: Path) -> None:
    """Of days that were read at once there is a state at their end only: late rows of an hour go back to the day's beginning."""
    lake = Lake(spark, str(tmp_path / "lake"))
    text = f"at broker_group subject group position kind next_sequence\n{HOUR_MS} g1 orders billing 0 start 0"
    lake.append("progress", analytics_frames.table(spark, text, TABLES_OF_LAKE["progress"].schema))
    states = States(lake)
    states.advance(DAY_MS + 9 * HOUR_MS)
    assert states.moments() == [DAY_MS, DAY_MS + 9 * HOUR_MS]
    for late_ms, left in ((DAY_MS + 5 * HOUR_MS, [DAY_MS]), (DAY_MS, [DAY_MS]), (5 * HOUR_MS, [])):
        states.forget_after(late_ms)
        assert states.moments() == left
        states.advance(late_ms)
        assert [row["group"] for row in states.state_at(late_ms).collect()] == ["billing"]


def test_nobody_runs_beside_another(lake: Lake) -> None:
    other = Lake(lake.spark, lake.root)
    other.files.lock()
    try:
        with pytest.raises(LakeBusy, match="another analytics run"):
            Runner(lake, Request({})).run(["lag"])
    finally:
        other.files.unlock()
    assert not AnalyticsRun.objects.exists()


def test_scheduled_jobs_leave_made_up_rows_alone_and_asked_ones_replace_them(lake: Lake, day: Day) -> None:
    at = datetime.fromtimestamp(day.first_ms / 1000, UTC)
    demo = services.start_run(DEMO_JOB, from_at=at, to_at=datetime.fromtimestamp(day.first_ms / 1000 + 3600, UTC))
    for name in JOBS["skew"].tables:
        services.publish(demo, name, [], step=Step.HOUR)
    services.finish_run(demo, watermark_at=datetime.now(UTC))
    report = Runner(lake, Request({}, is_scheduled=True)).run(["skew"])
    assert "contains demo data" in report.left_out["skew"]
    assert report.skipped == dict.fromkeys(JOBS["skew"].tables, DEMO_DATA)
    assert "skipped because they contain demo data: consumer_shares, group_skew" in report.result().text
    assert run(lake, ["skew"]).jobs == 1
    assert TableState.objects.get(table="group_skew").run.job == "skew"


def test_scheduled_jobs_replace_demo_data_that_an_operator_asked_to_replace(lake: Lake, day: Day) -> None:
    at = datetime.fromtimestamp(day.first_ms / 1000, UTC)
    demo = services.start_run(DEMO_JOB, from_at=at, to_at=datetime.fromtimestamp(day.first_ms / 1000 + 3600, UTC))
    for name in JOBS["skew"].tables:
        services.publish(demo, name, [], step=Step.HOUR)
    services.finish_run(demo, watermark_at=datetime.now(UTC))
    services.replace_demo(actor=ACTOR)
    report = run(lake, ["skew"], is_scheduled=True)
    assert (report.jobs, report.skipped) == (1, {})
    assert TableState.objects.get(table="group_skew").run.job == "skew"


def test_a_lake_that_nothing_was_read_into_is_said_to_be_empty(spark: SparkSession, tmp_path: Path) -> None:
    report = Runner(Lake(spark, str(tmp_path / "empty")), Request({})).run(["state", "lag", "compact", "retain"])
    assert not report.failed
    assert set(report.left_out) == {"state", "lag"}
    assert "manage.py analytics ingest" in report.left_out["lag"]


def test_every_summary_table_has_its_job_and_no_table_has_two() -> None:
    filled = [table for job in JOBS.values() for table in job.tables]
    assert sorted(filled) == sorted(TABLES.keys() - {FILLED_BY_CONSOLE})
    assert set(ORDER) >= set(JOBS)
    for job in JOBS.values():
        for table in job.tables:
            assert TABLES[table].model.steps == job.steps, table
            assert TABLES[table].model.is_ahead == job.is_ahead, table


def _fields(job: Any) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__dataclass_fields__}
