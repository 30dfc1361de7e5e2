"""The background job `summaries`: what it stores of broker groups, and what a killed, late or unlucky run leaves."""

import time
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync

from console.analytics import services
from console.analytics.models import AnalyticsRun, BrokerGroupNumbers, TableState
from console.analytics.steps import Step
from console.jobs import jobs
from console.jobs.summaries import TABLE, store
from console.snapshot.history import HistoryWriter
from console.snapshot.many_histories import Row
from console.snapshot.state import empty
from tests.support.console.histories import HOUR_MS, POINTS, TEN_MINUTES_MS, history, point
from tests.support.servers.services import Server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
NOON_MS = 500_000 * HOUR_MS


def rates(*of_ten_minutes: float) -> list[Row | None]:
    """Ten minutes of each rate."""
    return [point(send_rate=rate) for rate in of_ten_minutes for _ in range(POINTS)]


def stored(step: Step, name: str = "g1") -> dict[int, tuple[float | None, float | None]]:
    """Minutes after noon -> highest and mean rate."""
    rows = BrokerGroupNumbers._default_manager.filter(step_seconds=step.seconds, broker_group=name).order_by("at_ms")
    columns = ("at_ms", "sent_messages_per_second_max", "sent_messages_per_second_mean")
    return {(at_ms - NOON_MS) // 60_000: (highest, mean) for at_ms, highest, mean in rows.values_list(*columns)}


def test_a_run_stores_whole_ten_minutes_and_the_next_one_what_follows() -> None:
    # Half a minute of the last ten minutes is there.
    end_ms = NOON_MS + 2 * TEN_MINUTES_MS + 30_000
    assert store(history(end_ms, {"g1": [*rates(1)[3:], *rates(5, 2)[57:], *rates(9)[:3]], "d1": rates(5)})) == 3
    assert stored(Step.TEN_MINUTES) == {0: (5, 1.2), 10: (2, 2)}
    assert stored(Step.TEN_MINUTES, "d1") == {10: (5, 5)}
    assert store(history(end_ms, {"g1": rates(8, 8, 8)})) == 0
    assert store(history(end_ms + TEN_MINUTES_MS, {"g1": rates(7) + rates(9)[:3]})) == 1
    assert stored(Step.TEN_MINUTES)[20] == (7, 7)
    assert TableState.objects.get(table=TABLE).watermark_at.timestamp() * 1000 == NOON_MS + 3 * TEN_MINUTES_MS


def test_an_hour_follows_when_it_is_over_and_each_of_its_ten_minutes_counts_the_same() -> None:
    for number in range(1, 7):
        store(history(NOON_MS + number * TEN_MINUTES_MS, {"g1": rates(*range(number)), "g2": rates(4)}))
        assert stored(Step.HOUR) == ({0: (5, 2.5)} if number == 6 else {})
    assert stored(Step.HOUR, "g2") == {0: (4, 4)}


def test_runs_that_are_missed_for_less_than_an_hour_leave_no_gap() -> None:
    store(history(NOON_MS, {"g1": rates(1)}))
    store(history(NOON_MS + 5 * TEN_MINUTES_MS, {"g1": rates(2, 3, 4, 5, 6)}))
    assert [highest for highest, _ in stored(Step.TEN_MINUTES).values()] == [1, 2, 3, 4, 5, 6]


def test_a_longer_time_without_runs_is_a_gap_and_the_hours_on_both_sides_are_stored() -> None:
    store(history(NOON_MS + 2 * TEN_MINUTES_MS, {"g1": rates(1, 2)}))
    store(history(NOON_MS + 4 * HOUR_MS, {"g1": rates(5, 5, 5, 5, 5, 8)}))
    assert list(stored(Step.TEN_MINUTES)) == [0, 10, 180, 190, 200, 210, 220, 230]
    assert stored(Step.HOUR) == {0: (2, 1.5), 180: (8, 5.5)}


def test_time_that_nobody_measured_has_no_rows_and_what_was_stored_stays() -> None:
    """Redis was emptied, or no collector ran: the history begins again."""
    store(history(NOON_MS + TEN_MINUTES_MS, {"g1": rates(1)}))
    assert store(history(NOON_MS + 2 * TEN_MINUTES_MS, {})) == 0
    store(history(NOON_MS + 3 * TEN_MINUTES_MS, {"g1": rates(3)[: POINTS // 2]}))
    assert stored(Step.TEN_MINUTES) == {0: (1, 1), 20: (3, 3)}


def test_a_run_that_ends_in_between_changes_nothing_and_its_time_is_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store(history(NOON_MS, {"g1": rates(1)}))
    then = history(NOON_MS + HOUR_MS, {"g1": rates(1, 2, 3, 4, 5, 6)})
    with monkeypatch.context() as patch:
        patch.setattr(services, "finish_run", None)
        with pytest.raises(TypeError):
            store(then)
    assert list(stored(Step.TEN_MINUTES)) == [-10]
    assert AnalyticsRun.objects.count() == 1
    store(then)
    assert list(stored(Step.TEN_MINUTES)) == [-10, 0, 10, 20, 30, 40, 50]
    assert stored(Step.HOUR)[0] == (6, 3.5)


def test_a_clock_that_ran_ahead_does_not_stop_the_job() -> None:
    store(history(NOON_MS + 48 * HOUR_MS, {"g1": rates(1)}))
    store(history(NOON_MS + TEN_MINUTES_MS, {"g1": rates(2)}))
    assert stored(Step.TEN_MINUTES)[0] == (2, 2)


def test_a_clock_that_steps_back_a_little_does_not_replace_what_is_stored() -> None:
    store(history(NOON_MS + TEN_MINUTES_MS, {"g1": rates(3, 1)}))
    assert store(history(NOON_MS + TEN_MINUTES_MS - 1_000, {})) == 0
    assert stored(Step.TEN_MINUTES) == {-10: (3, 3), 0: (1, 1)}


def test_the_job_reads_the_history_of_all_groups(redis_server: Server, settings: Any) -> None:
    settings.REDIS_URL = redis_server.url
    redis.Redis.from_url(redis_server.url).flushall()
    step = time.time() // 600 * 600 - 300
    nodes = {
        f"{name}-a": {"broker_group": name, "kind": kind, "is_master": True, **numbers}
        for name, kind, numbers in (
            ("g1", "broker", {"send_rate": 2.5, "send_bytes_rate": 1_000}),
            ("d1", "delay", {"pending": 7, "connections": None}),
        )
    }  # fmt: skip

    async def writing() -> None:
        writer = HistoryWriter(redis_server.url)
        await writer.note(empty() | {"nodes": nodes}, int(step * 1000))
        await writer.close()

    async_to_sync(writing)()
    assert jobs.run("summaries").text.endswith(" rows stored")
    found = BrokerGroupNumbers._default_manager.filter(step_seconds=Step.TEN_MINUTES.seconds)
    rows = {row.broker_group: row for row in found}
    assert (rows["g1"].sent_messages_per_second_max, rows["g1"].sent_bytes_per_second_mean) == (2.5, 1_000)
    assert (rows["g1"].pending_messages_max, rows["d1"].sent_messages_per_second_max) == (None, None)
    assert (rows["d1"].pending_messages_mean, rows["d1"].connections_count_max) == (7, None)


def test_without_redis_the_job_fails_and_says_why(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert jobs.run("summaries").text.startswith("Redis is not responding: ")
    assert not TableState.objects.exists()
