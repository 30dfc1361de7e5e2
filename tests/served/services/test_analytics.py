"""Summary tables: runs publish whole windows or nothing, the same again gives the same, and what is old goes."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from console.analytics import queries, retention, rows, services
from console.analytics.models import Lag, Latency, LeftOut, RunState, TableState
from console.analytics.rows import RowsRefused, Window
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from console.jobs import summaries
from examples.shop.analytics import Traffic, publish_demo
from metaserver.errors import ChangeRefused, Conflict, NotFound
from tests.support.analytics.summaries import lag_row, latency_row
from tests.support.console.histories import POINTS, history, point
from tests.support.servers.processes import PROJECT

pytestmark = pytest.mark.django_db
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
BEGIN_MS = int(BEGIN.timestamp() * 1000)
HOUR = timedelta(hours=1)
MINUTE_MS = 60_000
HOUR_MS = 3_600_000


def started(job: str = "lag", hours: int = 1) -> Any:
    return services.start_run(job, from_at=BEGIN, to_at=BEGIN + hours * HOUR)


def stored(model: Any = Lag) -> list[dict[str, Any]]:
    """All rows but for their ids and runs, in the order of their keys."""
    found = model.objects.order_by("step_seconds", "at_ms", *model.key).values()
    return [{name: value for name, value in row.items() if name not in ("id", "run_id")} for row in found]


# --- the registry ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_column_says_what_it_is(table: Any) -> None:
    assert tuple(column.name for column in table.columns[: len(table.model.key)]) == table.model.key
    assert all(column.is_key == (column.name in table.model.key) for column in table.columns)
    assert all(column.text for column in table.columns)
    assert table.text
    assert not any(column.is_nullable for column in table.columns if column.is_key)
    unitless = {"value", "expected", "expected_low", "expected_high", "score"}
    assert {column.name for column in table.columns if column.type in ("integer", "number") and not column.unit} == (
        unitless if table.name == "anomalies" else set()
    )


# --- publishing ------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_the_same_published_again_gives_the_same_table() -> None:
    minutes = [lag_row(BEGIN_MS + number * MINUTE_MS, lag_messages_max=number) for number in range(60)]
    first = started()
    assert services.publish(first, "lag", minutes, step=Step.MINUTE) == 60
    services.finish_run(first, watermark_at=BEGIN + HOUR, rows_read=1000)
    before = stored()
    assert len(before) == 60
    second = started()
    services.publish(second, "lag", iter(minutes), step=Step.MINUTE)
    services.publish(second, "lag", iter(minutes), step=Step.MINUTE)
    assert stored() == before
    assert set(Lag.objects.values_list("run_id", flat=True)) == {second.pk}
    assert (first.state, first.tables, first.rows_written, first.rows_read) == (RunState.SUCCEEDED, ["lag"], 60, 1000)


@pytest.mark.database
def test_a_window_says_afterwards_what_was_published_and_no_more() -> None:
    """Rows that a re-run does not have any more go; other steps and other times stay."""
    run = started(hours=3)
    every = [lag_row(BEGIN_MS + number * MINUTE_MS, group=group) for number in range(180) for group in ("a", "b")]
    services.publish(run, "lag", every, step=Step.MINUTE)
    services.publish(run, "lag", [lag_row(BEGIN_MS)], step=Step.HOUR)
    second_hour = Window(BEGIN_MS + 3_600_000, BEGIN_MS + 7_200_000)
    services.publish(run, "lag", [lag_row(second_hour.from_ms, group="c")], step=Step.MINUTE, window=second_hour)
    assert Lag.objects.filter(step_seconds=60).count() == 241
    assert (
        Lag.objects.filter(step_seconds=60, at_ms__gte=second_hour.from_ms, at_ms__lt=second_hour.to_ms).get().group
        == "c"
    )
    assert Lag.objects.filter(step_seconds=3600).count() == 1


@pytest.mark.database
def test_a_window_is_widened_to_whole_steps() -> None:
    run = services.start_run("lag", from_at=BEGIN + HOUR / 2, to_at=BEGIN + HOUR)
    services.publish(run, "lag", [lag_row(BEGIN_MS)], step=Step.DAY)
    with pytest.raises(RowsRefused, match="outside of the window"):
        services.publish(run, "lag", [lag_row(BEGIN_MS)], step=Step.MINUTE)


@pytest.mark.database
def test_a_table_that_looks_ahead_is_replaced_whole() -> None:
    run = services.start_run("delayed")
    load = {"subject": "orders", "pending_messages": 5, "pending_bytes": 500}
    ahead = [{"at_ms": BEGIN_MS + number * 3_600_000, **load} for number in range(48)]
    services.publish(run, "delayed_load", ahead, step=Step.HOUR)
    services.publish(run, "delayed_load", ahead[24:], step=Step.HOUR)
    assert stored(TABLES["delayed_load"].model) == [{"step_seconds": 3600, **row} for row in ahead[24:]]


@pytest.mark.database
def test_what_is_unknown_is_null() -> None:
    run = started()
    services.publish(run, "lag", [lag_row(BEGIN_MS, lag_messages_max=(1 << 63) - 1)], step=Step.MINUTE)
    row = Lag.objects.get()
    assert (row.lag_messages_max, row.lag_messages_mean) == ((1 << 63) - 1, None)


@pytest.mark.database
def test_names_with_quotes_percents_and_chinese() -> None:
    run = started()
    names = ["%s", "'); DROP TABLE x; --", "订单", "orders", "Orders", 'a"b`c', "\\"]
    services.publish(run, "lag", [lag_row(BEGIN_MS, subject=name) for name in names], step=Step.MINUTE)
    assert set(Lag.objects.values_list("subject", flat=True)) == set(names)


@pytest.mark.database
def test_more_rows_than_one_statement_takes() -> None:
    count = services.PARAMETERS_MAX // 10
    services.publish(
        started(), "lag", (lag_row(BEGIN_MS, subject=f"s{number}") for number in range(count)), step=Step.MINUTE
    )
    assert Lag.objects.count() == count


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"at_ms": BEGIN_MS}, "row 1: without backlog_messages_last"),
        (lag_row(BEGIN_MS, surprise=1), "unknown: surprise"),
        (lag_row(BEGIN_MS + 1), "at_ms: 1793491200001 is not the start of a minute"),
        (lag_row(BEGIN_MS - MINUTE_MS), "outside of the window"),
        (lag_row(BEGIN_MS + 3_600_000), "outside of the window"),
        (lag_row(None), "at_ms: null"),  # type: ignore[arg-type]
        (lag_row(BEGIN_MS, lag_messages_max=1.5), "lag_messages_max: float 1.5, must be integer"),
        (lag_row(BEGIN_MS, lag_messages_max=True), "lag_messages_max: bool True, must be integer"),
        (lag_row(BEGIN_MS, lag_messages_max=-1), "lag_messages_max: -1, from 0"),
        (lag_row(BEGIN_MS, lag_messages_max=1 << 63), "from 0 to"),
        (lag_row(BEGIN_MS, lag_messages_mean=float("nan")), "lag_messages_mean: nan: unknown values must be null"),
        (lag_row(BEGIN_MS, time_lag_seconds_max=float("inf")), "inf"),
        (lag_row(BEGIN_MS, subject=None), "subject: null"),
        (lag_row(BEGIN_MS, subject=7), "subject: int 7, must be text"),
        (lag_row(BEGIN_MS, subject="x" * 101), "has 101 characters, the limit is 100"),
        (lag_row(BEGIN_MS, group="a\x00b"), "group: must not contain NUL"),
        (lag_row(BEGIN_MS, group="\ud800"), "unpaired surrogates"),
        (lag_row(BEGIN_MS, "good", "good"), "duplicate row of at_ms 1793491200000, subject 'good', group 'good'"),
    ],
)  # fmt: skip
def test_a_row_that_is_wrong_changes_nothing_and_says_what(row: dict[str, Any], words: str) -> None:
    run = started()
    services.publish(run, "lag", [lag_row(BEGIN_MS, "old", "old")], step=Step.MINUTE)
    before = stored()
    with pytest.raises(RowsRefused, match=r"^lag, row 1") as raised:
        services.publish(run, "lag", [lag_row(BEGIN_MS, "good", "good"), row], step=Step.MINUTE)
    assert words in str(raised.value)
    assert stored() == before


def test_words_are_bounded() -> None:
    run = started()
    for row, words in (
        (latency_row(BEGIN_MS, kind="guess"), "must be one of end_to_end, handling"),
        (latency_row(BEGIN_MS, p99_ms=None), "p99_ms: null, but a value is required"),
    ):
        with pytest.raises(RowsRefused, match=words):
            services.publish(run, "latencies", [row], step=Step.MINUTE)


# --- more rows than one transaction takes ----------------------------------------------------------------------------


class _Killed(Exception):
    """The process ended here."""


@pytest.fixture
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rows, services):
        monkeypatch.setattr(module, "PUBLISH_ROWS_MAX", 3)


def groups_at(at_ms: int, value: int, count: int = 8) -> list[dict[str, Any]]:
    return [lag_row(at_ms, group=f"g{number}", lag_messages_max=value) for number in range(count)]


def seen(step: Step = Step.HOUR) -> list[tuple[int, int]]:
    """What readers see of `lag`: hour and value of each row."""
    found = queries.rows(TABLES["lag"], step, Window(BEGIN_MS, BEGIN_MS + 24 * HOUR_MS), {}).order_by("at_ms", "group")
    return [((row.at_ms - BEGIN_MS) // HOUR_MS, row.lag_messages_max) for row in found]


def complete_hours() -> float | None:
    end = TableState.objects.get(table="lag").complete_until
    return None if end is None else (end - BEGIN) / HOUR


@pytest.mark.database
@pytest.mark.parametrize("killed_at", range(8))
def test_a_moment_of_several_transactions_is_seen_with_the_last_one(
    killed_at: int, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between any two of the transactions: one that marks, three that delete and one that finds nothing, two that
    insert; the last one inserts and completes."""
    first = started(hours=3)
    for hour in range(3):
        window = Window(BEGIN_MS + hour * HOUR_MS, BEGIN_MS + (hour + 1) * HOUR_MS)
        assert services.publish(first, "lag", groups_at(window.from_ms, 1), step=Step.HOUR, window=window) == 8
    services.publish(first, "lag", [lag_row(BEGIN_MS + HOUR_MS, lag_messages_max=5)], step=Step.TEN_MINUTES)
    services.finish_run(first, watermark_at=BEGIN + 3 * HOUR)
    before = [(hour, 1) for hour in range(3) for _ in range(8)]
    assert (seen(), complete_hours()) == (before, 3)
    assert first.rows_written == 25

    claims = iter(range(100))
    claim = services._claim

    def claim_or_die(run: Any) -> Any:
        if next(claims) == killed_at:
            raise _Killed
        return claim(run)

    second = started(hours=3)
    hour = Window(BEGIN_MS + HOUR_MS, BEGIN_MS + 2 * HOUR_MS)
    with monkeypatch.context() as patched:
        patched.setattr(services, "_claim", claim_or_die)
        with pytest.raises(_Killed):
            services.publish(second, "lag", groups_at(hour.from_ms, 2), step=Step.HOUR, window=hour)
    if killed_at == 0:
        assert (seen(), complete_hours()) == (before, 3)
    else:
        assert (seen(), complete_hours()) == ([row for row in before if row[0] != 1], 1), "neither half nor mixed"
    assert seen(Step.TEN_MINUTES) == [(1, 5)], "other steps are not concerned"

    third = started(hours=3)
    services.publish(third, "lag", groups_at(hour.from_ms, 2), step=Step.HOUR, window=hour)
    assert (seen(), complete_hours()) == ([(hour, 1 + (hour == 1)) for hour, _ in before], 3)


@pytest.mark.database
def test_what_was_left_unfinished_may_be_published_in_one_transaction_and_by_parts_of_its_window(
    small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise _Killed

    run = started(hours=3)
    with monkeypatch.context() as patched:
        patched.setattr(services, "_insert", fail)
        with pytest.raises(_Killed):
            services.publish(run, "lag", groups_at(BEGIN_MS, 1), step=Step.HOUR)
    services.finish_run(run, watermark_at=BEGIN + 5 * HOUR)
    assert complete_hours() == 0
    again = started(hours=3)
    for hour, end in ((0, 0), (2, 1), (1, 5)):
        window = Window(BEGIN_MS + hour * HOUR_MS, BEGIN_MS + (hour + 1) * HOUR_MS)
        services.publish(again, "lag", groups_at(window.from_ms, 2, 2), step=Step.HOUR, window=window)
        # The middle hour is still unfinished after the first and the last one.
        assert complete_hours() == (1 if hour != 1 else 5), end
    assert seen() == [(hour, 2) for hour in range(3) for _ in range(2)]


@pytest.mark.database
def test_a_calendar_of_several_transactions_is_seen_whole_or_not_at_all(
    small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(count: int, messages: int) -> list[dict[str, Any]]:
        row = {"subject": "orders", "pending_messages": messages, "pending_bytes": 1}
        return [{"at_ms": BEGIN_MS + number * HOUR_MS, **row} for number in range(count)]

    def pending() -> list[int]:
        window = Window(0, BEGIN_MS + 1000 * HOUR_MS)
        found = queries.rows(TABLES["delayed_load"], Step.HOUR, window, {}).order_by("at_ms")
        return list(found.values_list("pending_messages", flat=True))

    run = services.start_run("delayed")
    services.publish(run, "delayed_load", load(10, 1), step=Step.HOUR)
    services.finish_run(run, watermark_at=BEGIN)
    assert pending() == [1] * 10
    insert, calls = services._insert, iter(range(100))

    def insert_once(*given: Any) -> None:
        if next(calls):
            raise _Killed
        insert(*given)

    run = services.start_run("delayed")
    with monkeypatch.context() as patched:
        patched.setattr(services, "_insert", insert_once)
        with pytest.raises(_Killed):
            services.publish(run, "delayed_load", load(7, 2), step=Step.HOUR)
    assert pending() == []
    assert TableState.objects.get(table="delayed_load").complete_until is None, "the next run does it again"
    services.publish(run, "delayed_load", load(7, 2), step=Step.HOUR)
    assert pending() == [2] * 7
    assert TableState.objects.get(table="delayed_load").complete_until == BEGIN


@pytest.mark.database
def test_rows_of_later_transactions_are_checked_too(small_transactions: None) -> None:
    run = started()
    many = groups_at(BEGIN_MS, 1, 10)
    with pytest.raises(RowsRefused, match=r"row 9: duplicate row of at_ms \d+, subject 'orders', group 'g0'"):
        services.publish(run, "lag", [*many[:9], many[0]], step=Step.HOUR)
    with pytest.raises(RowsRefused, match="row 9, lag_messages_max: -1"):
        services.publish(run, "lag", [*many[:9], many[9] | {"lag_messages_max": -1}], step=Step.HOUR)
    assert (seen(), complete_hours()) == ([], None)
    services.publish(run, "lag", iter(many), step=Step.HOUR)
    assert seen() == [(0, 1)] * 10


# --- rows that are left out ------------------------------------------------------------------------------------------


@pytest.mark.database
def test_what_is_left_out_is_known_by_the_moment_until_it_is_published_again(settings: Any) -> None:
    run = started()
    minutes = [lag_row(BEGIN_MS + number * MINUTE_MS, group=group) for number in range(5) for group in "ab"]
    totals = {BEGIN_MS + MINUTE_MS: 9, BEGIN_MS + 3 * MINUTE_MS: 12}
    services.publish(run, "lag", minutes, step=Step.MINUTE, totals=totals)

    def omission(first: int, end: int, step: Step = Step.MINUTE) -> queries.Omission | None:
        return queries.omission(TABLES["lag"], step, Window(BEGIN_MS + first * MINUTE_MS, BEGIN_MS + end * MINUTE_MS))

    assert omission(0, 5) == queries.Omission("lag_messages_max", 10, 12, 2)
    assert omission(0, 3) == queries.Omission("lag_messages_max", 7, 9, 1)
    assert omission(0, 1) is omission(0, 5, Step.HOUR) is None
    later = Window(BEGIN_MS + 2 * MINUTE_MS, BEGIN_MS + 5 * MINUTE_MS)
    services.publish(run, "lag", minutes[4:], step=Step.MINUTE, window=later)
    assert omission(0, 5) == queries.Omission("lag_messages_max", 7, 9, 1)
    settings.ANALYTICS_KEEP_DAYS = dict.fromkeys(settings.ANALYTICS_KEEP_DAYS, 1)
    retention.forget_old(BEGIN + 26 * HOUR, is_time_up=lambda: False)
    assert not LeftOut.objects.exists()


def test_what_can_not_be_published() -> None:
    run = started()
    with pytest.raises(NotFound, match="Summary table 'nothing' not found"):
        services.publish(run, "nothing", [], step=Step.MINUTE)
    with pytest.raises(ChangeRefused, match="no step minute"):
        services.publish(run, "failures", [], step=Step.MINUTE)
    with pytest.raises(ChangeRefused, match="must specify its window"):
        services.publish(services.start_run("other"), "lag", [], step=Step.MINUTE)
    for from_at, to_at in ((BEGIN, BEGIN), (BEGIN, None), (None, BEGIN)):
        with pytest.raises(ChangeRefused, match="a start and a later end"):
            services.start_run("lag", from_at=from_at, to_at=to_at)


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_a_run_that_is_taken_for_dead_writes_nothing_more() -> None:
    dead, elsewhere = started(), services.start_run("lag", from_at=BEGIN + HOUR, to_at=BEGIN + 2 * HOUR)
    other_job = started("rates")
    heir = started()
    with pytest.raises(Conflict, match=f"run {heir.pk} replaced it"):
        services.publish(dead, "lag", [lag_row(BEGIN_MS)], step=Step.MINUTE)
    with pytest.raises(Conflict):
        services.finish_run(dead)
    for run in (elsewhere, other_job, heir):
        run.refresh_from_db()
        assert run.state == RunState.RUNNING
    services.publish(heir, "lag", [lag_row(BEGIN_MS)], step=Step.MINUTE)
    services.finish_run(heir, watermark_at=BEGIN + HOUR)
    services.fail_run(heir, "too late")
    assert (heir.state, heir.error) == (RunState.SUCCEEDED, "")


@pytest.mark.database
def test_the_watermark_moves_with_runs_that_succeed_and_never_back() -> None:
    def watermark() -> datetime | None:
        return TableState.objects.get(table="lag").watermark_at

    def run_to(end: datetime, *, fails: bool = False) -> None:
        run = services.start_run("lag", from_at=end - HOUR, to_at=end)
        services.publish(run, "lag", [], step=Step.MINUTE)
        if fails:
            services.fail_run(run, "out of memory " * 1000)
            assert (run.state, len(run.error)) == (RunState.FAILED, services.ERROR_CHARS_MAX)
        else:
            services.finish_run(run, watermark_at=end)

    assert not TableState.objects.exists()
    run_to(BEGIN, fails=True)
    assert watermark() is None
    run_to(BEGIN)
    run_to(BEGIN + HOUR, fails=True)
    assert watermark() == BEGIN
    run_to(BEGIN + 5 * HOUR)
    run_to(BEGIN + 2 * HOUR)
    assert watermark() == BEGIN + 5 * HOUR
    assert TableState.objects.count() == 1


KILLED = """
import os, signal, sys
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from datetime import UTC, datetime, timedelta
from console.analytics import services
from console.analytics.models import AnalyticsRun, Lag
from console.analytics.steps import Step
from tests.support.analytics.summaries import lag_row
begin = datetime(2026, 11, 1, tzinfo=UTC)
ms = int(begin.timestamp() * 1000)
value, is_killed = int(sys.argv[1]), sys.argv[2] == "killed"
insert = services._insert
def insert_and_die(table, common, rows):
    insert(table, common, rows[:30])
    os.kill(os.getpid(), signal.SIGKILL)
if is_killed:
    services._insert = insert_and_die
run = services.start_run("lag", from_at=begin, to_at=begin + timedelta(hours=1))
if value:
    rows = [lag_row(ms + minute * 60_000, lag_messages_max=value) for minute in range(60)]
    services.publish(run, "lag", rows, step=Step.MINUTE)
    services.finish_run(run)
print(Lag.objects.count(), set(Lag.objects.values_list("lag_messages_max", flat=True)))
print(list(AnalyticsRun.objects.order_by("pk").values_list("state", flat=True)))
"""


@pytest.mark.database
def test_a_killed_run_leaves_the_table_as_it_was_and_the_next_one_completes_it(database_url: str) -> None:
    def run(value: int, how: str = "whole") -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(value), how],
            cwd=PROJECT,
            env=os.environ | {"QMQ_DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "console.settings"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode, done.stdout

    assert run(1) == (0, "60 {1}\n['succeeded']\n")
    assert run(2, "killed") == (-signal.SIGKILL, "")
    # Nothing is published by this one: it shows what the killed one left.
    assert run(0) == (0, "60 {1}\n['succeeded', 'failed', 'running']\n")
    assert run(2) == (0, "60 {2}\n['succeeded', 'failed', 'failed', 'succeeded']\n")


# --- what is old -----------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_rows_go_when_their_step_is_kept_no_longer(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ANALYTICS_KEEP_DAYS = {"minute": 1, "ten_minutes": 2, "hour": 3, "day": 4}
    monkeypatch.setattr(retention, "BATCH_ROWS", 100)
    run = started(hours=120)
    for step in Step:
        moments = range(BEGIN_MS, BEGIN_MS + 120 * 3_600_000, max(step.ms, 600_000))
        services.publish(run, "lag", [lag_row(at) for at in moments], step=step)
    now = BEGIN + 120 * HOUR
    assert retention.forget_old(now, is_time_up=lambda: True) == 0
    deleted = retention.forget_old(now, is_time_up=lambda: False)
    left = {step: Lag.objects.filter(step_seconds=step.seconds) for step in Step}
    assert {step: rows.count() for step, rows in left.items()} == {
        Step.MINUTE: 144,
        Step.TEN_MINUTES: 288,
        Step.HOUR: 72,
        Step.DAY: 4,
    }
    assert deleted == 720 - 144 + 720 - 288 + 120 - 72 + 5 - 4
    oldest = left[Step.MINUTE].order_by("at_ms").first()
    assert oldest is not None
    assert oldest.at_ms == BEGIN_MS + 96 * 3_600_000
    assert retention.forget_old(now, is_time_up=lambda: False) == 0


@pytest.mark.database
def test_a_batch_goes_on_until_the_time_is_up(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH_ROWS", 10)
    services.publish(started(), "lag", [lag_row(BEGIN_MS + n * MINUTE_MS) for n in range(60)], step=Step.MINUTE)
    asked = iter([False, False, False])
    later = BEGIN + timedelta(days=30)
    assert retention.forget_old(later, is_time_up=lambda: next(asked, True)) == 30
    oldest = Lag.objects.order_by("at_ms").first()
    assert oldest is not None
    assert oldest.at_ms == BEGIN_MS + 30 * MINUTE_MS


@pytest.mark.database
def test_runs_go_when_no_row_of_theirs_is_kept(settings: Any) -> None:
    old, young = started(), started("rates")
    services.publish(old, "lag", [lag_row(BEGIN_MS)], step=Step.MINUTE)
    type(old).objects.filter(pk=old.pk).update(started_at=BEGIN)
    retention.forget_old(BEGIN + timedelta(days=1001), is_time_up=lambda: False)
    assert [run.pk for run in type(old).objects.all()] == [young.pk]
    assert not Lag.objects.exists()


# --- demo ------------------------------------------------------------------------------------------------------------

SHOP = [Traffic("orders", ("billing", "shipping"), "shop"), Traffic("payments", ("ledger",))]
NODES = [("g1", "g1-a")]


@pytest.fixture
def short_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.shop.analytics.DAYS", 5)


def test_the_demo_fills_every_table_of_analytics_and_is_the_same_each_time(short_demo: None) -> None:
    now = BEGIN + timedelta(hours=12, minutes=34, seconds=56)
    run = publish_demo(SHOP, NODES, now=now, seed=3)
    tables = {name: table for name, table in TABLES.items() if name != summaries.TABLE}
    assert (run.job, run.state, run.tables) == ("demo", RunState.SUCCEEDED, sorted(tables))
    first = {name: stored(table.model) for name, table in tables.items()}
    assert all(first.values())
    assert {row["step_seconds"] for row in first["lag"]} == {step.seconds for step in Step}
    publish_demo(SHOP, NODES, now=now, seed=3)
    assert {name: stored(table.model) for name, table in tables.items()} == first
    publish_demo(SHOP, NODES, now=now, seed=4)
    assert stored() != first["lag"]
    lag = [row for row in first["lag"] if row["step_seconds"] == 60]
    assert all(row["backlog_messages_last"] + row["in_flight_messages_last"] == row["lag_messages_last"] for row in lag)
    assert all((row["lag_messages_last"] == 0) == (row["time_lag_seconds_last"] == 0) for row in lag)
    for row in first["drain_forecasts"]:
        assert (row["case_class"] == "none") == (row["lag_messages_last"] == 0)
        assert row["outlook"] != "unknown" or (row["drain_seconds_low"], row["drain_seconds_high"]) == (None, None)
    of_forecasts = [row for row in first["forecast_scores"] if row["scored"].endswith("forecasts")]
    assert {row["case_class"] for row in of_forecasts} >= {"all", "below_2_minutes"}
    for row in of_forecasts:
        assert row["held_count"] + row["below_count"] + row["above_count"] == row["cases_count"]


def test_a_demo_and_measured_numbers_never_mix(short_demo: None) -> None:
    publish_demo(SHOP, NODES, now=BEGIN)
    run = services.start_run("lag", from_at=BEGIN - HOUR, to_at=BEGIN)
    services.publish(run, "lag", [], step=Step.MINUTE)
    assert not Lag.objects.exists()
    assert TableState.objects.get(table="lag").watermark_at is None
    assert Latency.objects.exists()
    with pytest.raises(Conflict, match="lag contains real data of job lag"):
        publish_demo(SHOP, NODES, now=BEGIN)


def test_measured_numbers_of_broker_groups_are_no_obstacle_to_a_demo(short_demo: None) -> None:
    summaries.store(history(BEGIN_MS, {"g1": [point(send_rate=1.0)] * POINTS}))
    publish_demo(SHOP, NODES, now=BEGIN)
    assert TableState.objects.get(table=summaries.TABLE).run.job == "summaries"


@pytest.mark.database
def test_queries_of_pages_are_answered_by_an_index(short_demo: None) -> None:
    """A chart of one group, and a list of a time: neither may look at every row."""
    if connection.vendor != "sqlite":
        pytest.skip("the plans of small tables say nothing on a server")
    publish_demo(SHOP, NODES, now=BEGIN)
    series = Lag.objects.filter(step_seconds=60, at_ms__gte=BEGIN_MS - 3_600_000, at_ms__lt=BEGIN_MS)
    for asked in (series, series.filter(subject="orders", group="billing"), series.filter(group="billing")):
        plan = asked.explain()
        assert "USING INDEX" in plan, plan
        assert "SCAN" not in plan, plan


# --- due again -------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_tables_are_due_again_from_a_moment_on_and_those_that_end_before_it_stay() -> None:
    for job, hours in (("lag", 5), ("subject_rates", 2)):
        run = started(job, hours)
        services.publish(run, job, [], step=Step.MINUTE)
        services.finish_run(run, watermark_at=BEGIN + hours * HOUR, missing=["g2"], late_rows=7, holes=1)
        run.refresh_from_db()
        assert (run.missing, run.late_rows, run.holes) == (["g2"], 7, 1)
    services.make_due(("lag", "subject_rates", "latencies"), BEGIN + 3 * HOUR)
    ends = dict(TableState.objects.values_list("table", "watermark_at"))
    assert ends == {"lag": BEGIN + 3 * HOUR, "subject_rates": BEGIN + 2 * HOUR}


@pytest.mark.database
def test_made_up_rows_are_not_due_again() -> None:
    run = publish_demo([Traffic("orders", ("billing",))], [("g1", "g1-a")], now=BEGIN + 24 * HOUR)
    services.make_due(tuple(TABLES), BEGIN)
    assert set(TableState.objects.values_list("watermark_at", flat=True)) == {run.watermark_at}
