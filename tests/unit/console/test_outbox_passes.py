"""Passes over registered databases: in turn, a limited number at a time, and none delays another. With scripted relays."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from broker_node.options import BrokerOptions
from console.outbox.gate import Gate
from console.outbox.markers import BROKER_RETENTION, CLEANUP_SECONDS, Cleaned
from console.outbox.markers import EVERY_SECONDS as CLEANUP_EVERY_SECONDS
from console.outbox.markers import RETRY_SECONDS as CLEANUP_RETRY_SECONDS
from console.outbox.models import OutboxDatabase
from console.outbox.passes import COUNT_SECONDS, COUNT_SHARE, FAILING_MAX, THREADS_MAX, Passed, Passes
from qmq.errors import DatabaseFailed, QmqError
from qmq.outbox.counts import Counts
from qmq.outbox.relay import Pass
from qmq.outbox.relaying import EVERY_SECONDS
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually


class ToldRelay:
    """A relay of a test."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.runs = self.counts = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self.failure: Exception | None = None
        self.sent = 0
        self.count_seconds = 0.0
        self.is_leader = True
        self.is_running = self.is_stopped = self.is_closed = False

    def run_pass(self, seconds: float) -> Pass:
        assert not self.is_running, "one pass at a time"
        self.runs += 1
        self.is_running = True
        self.may_end.wait()
        self.is_running = False
        if self.failure is not None:
            raise self.failure
        return Pass(sent=self.sent, is_leader=self.is_leader)

    def count(self) -> Counts:
        self.counts += 1
        self.clock.advance(self.count_seconds)
        return Counts(7, 1, 2_000, "console#1")

    def stop(self) -> None:
        self.is_stopped = True
        self.may_end.set()

    def close(self) -> None:
        assert not self.is_running
        self.is_closed = True


class Stage:
    """Passes over databases 1, 2, ..., whose relays the test steers."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.relays: dict[int, ToldRelay] = {}
        self.made: list[int] = []
        self.cleaned: list[int] = []
        self.cleanup: Callable[[Callable[[], bool]], Cleaned] = lambda is_time_over: Cleaned(0)
        """What a cleanup does."""
        self.may_end = threading.Event()
        self.may_end.set()
        self.passes = Passes(self._make, self._clean, clock=self.clock)
        self.ended: list[Passed] = []

    def _make(self, row: OutboxDatabase) -> ToldRelay:
        self.made.append(row.pk)
        self.relays[row.pk] = ToldRelay(self.clock)
        return self.relays[row.pk]

    def _clean(self, row: OutboxDatabase, is_time_over: Callable[[], bool]) -> Cleaned:
        self.cleaned.append(row.pk)
        return self.cleanup(is_time_over)

    def update(self, *rows: OutboxDatabase | int) -> None:
        self.passes.update([database(row) if isinstance(row, int) else row for row in rows])

    def step(self) -> None:
        self.ended += self.passes.step()

    def run(self, count: int) -> list[Passed]:
        """Step until so many passes more have ended; these."""
        before = len(self.ended)
        eventually(lambda: self.step() or len(self.ended) >= before + count, what=f"{count} passes ended")
        return self.ended[before:]

    def running(self) -> set[int]:
        return {key for key, relay in self.relays.items() if relay.is_running}


def database(key: int, version: int = 1, **values: Any) -> OutboxDatabase:
    return OutboxDatabase(pk=key, name=f"d{key}", version=version, **values)


@pytest.fixture
def stage() -> Iterator[Stage]:
    found = Stage()
    yield found
    found.may_end.set()
    for relay in found.relays.values():
        relay.may_end.set()
    found.passes.close()


def test_each_database_gets_a_pass_every_five_seconds_with_one_relay(stage: Stage) -> None:
    stage.update(1, 2)
    stage.run(2)
    stage.step()
    assert [relay.runs for relay in stage.relays.values()] == [1, 1], "not due yet"
    stage.clock.advance(EVERY_SECONDS)
    stage.run(2)
    assert [relay.runs for relay in stage.relays.values()] == [2, 2]
    assert stage.made == [1, 2]


def test_a_database_that_hangs_delays_no_other(stage: Stage) -> None:
    stage.update(1, 2)
    stage.relays[1].may_end.clear()
    for _ in range(3):
        assert [passed.row.pk for passed in stage.run(1)] == [2]
        stage.clock.advance(EVERY_SECONDS)
    assert (stage.relays[1].runs, stage.relays[2].runs) == (1, 3)


def test_so_many_passes_at_a_time_and_those_that_wait_go_first(stage: Stage) -> None:
    stage.update(*range(1, THREADS_MAX + 3))
    for relay in stage.relays.values():
        relay.may_end.clear()
    stage.step()
    eventually(lambda: len(stage.running()) == THREADS_MAX)
    stage.clock.advance(EVERY_SECONDS + 1)
    stage.step()
    assert stage.running() == set(range(1, THREADS_MAX + 1))
    stage.relays[1].may_end.set()
    stage.run(1)
    eventually(lambda: THREADS_MAX + 1 in stage.running(), what="it was due before the first one again")
    assert 1 not in stage.running()


def test_databases_that_failed_share_half_of_the_threads(stage: Stage) -> None:
    failing = range(1, THREADS_MAX + 1)
    stage.update(*failing)
    for relay in stage.relays.values():
        relay.failure = DatabaseFailed("no response", code="database.timeout")
    stage.run(THREADS_MAX)
    for relay in stage.relays.values():
        relay.may_end.clear()
    stage.clock.advance(EVERY_SECONDS)
    stage.step()
    eventually(lambda: len(stage.running()) == FAILING_MAX)
    stage.update(*failing, 9)
    assert [passed.row.pk for passed in stage.run(1)] == [9], "a healthy one finds a thread"
    assert len(stage.running()) == FAILING_MAX


def test_failures_back_off_from_5_to_60_seconds_and_a_success_ends_that(stage: Stage) -> None:
    stage.update(1)
    relay = stage.relays[1]
    relay.failure = DatabaseFailed("refused", code="database.unreachable")
    (passed,) = stage.run(1)
    assert passed.failure is relay.failure
    for pause in (5, 10, 20, 40, 60, 60):
        stage.clock.advance(pause - 0.5)
        stage.step()
        assert stage.running() == set()
        stage.clock.advance(0.5)
        stage.run(1)
    relay.failure = None
    stage.clock.advance(60)
    (first,) = stage.run(1)
    stage.clock.advance(EVERY_SECONDS)
    (second,) = stage.run(1)
    assert [(passed.failure, passed.is_recovered) for passed in (first, second)] == [(None, True), (None, False)]


def test_what_is_no_failure_of_a_database_is_reported_and_ends_nothing(stage: Stage) -> None:
    stage.update(1, 2)
    stage.relays[1].failure = ValueError("a mistake of ours")
    passed = {one.row.pk: one.failure for one in stage.run(2)}
    assert str(passed[1]) == "the relay failed: ValueError: a mistake of ours"
    assert passed[2] is None


def test_rows_are_counted_every_15_seconds_and_less_often_if_that_takes_long(stage: Stage) -> None:
    stage.update(1)
    relay = stage.relays[1]
    relay.sent = 30
    assert stage.run(1)[0].counts is not None
    for _ in range(2):
        stage.clock.advance(EVERY_SECONDS)
        assert stage.run(1)[0].counts is None
    stage.clock.advance(EVERY_SECONDS)
    relay.count_seconds = 2.0
    (passed,) = stage.run(1)
    assert passed.counts is not None
    assert passed.rows_per_second == pytest.approx(3 * 30 / (COUNT_SECONDS + 2.0))
    stage.clock.advance(COUNT_SHARE * 2.0 - 2.1)
    assert stage.run(1)[0].counts is None
    stage.clock.advance(EVERY_SECONDS)
    relay.is_leader = False
    (passed,) = stage.run(1)
    assert passed.counts is not None
    assert passed.rows_per_second is None, "another relay leads: its rate is not known"


def test_a_database_that_is_taken_away_is_stopped_and_closed_after_its_pass(stage: Stage) -> None:
    stage.update(1, 2)
    relay = stage.relays[1]
    relay.may_end.clear()
    stage.run(1)
    stage.update(2)
    assert relay.is_stopped
    eventually(lambda: stage.step() or relay.is_closed)
    assert stage.passes.count == 1


def test_a_database_that_was_changed_gets_a_new_relay_once_the_old_one_has_ended(stage: Stage) -> None:
    stage.update(1)
    old = stage.relays[1]
    old.may_end.clear()
    stage.step()
    eventually(lambda: old.is_running)
    old.stop = lambda: None  # type: ignore[method-assign]  # it takes its time
    stage.update(database(1, version=2))
    stage.step()
    assert stage.made == [1]
    old.may_end.set()
    eventually(lambda: stage.step() or stage.update(database(1, version=2)) or len(stage.made) == 2)
    assert stage.run(1)[0].row.version == 2


def test_the_end_waits_for_what_is_being_sent_and_closes_every_relay(stage: Stage) -> None:
    stage.update(1, 2)
    stage.relays[1].may_end.clear()
    stage.run(1)
    assert [passed.row.pk for passed in stage.passes.close()] == [1]
    assert all(relay.is_stopped and relay.is_closed for relay in stage.relays.values())


def marked(key: int = 1, **values: Any) -> OutboxDatabase:
    """A database with a table of markers."""
    return database(key, marker_table="qmq_processed", **values)


def cleaned_after(stage: Stage, *pauses: float) -> list[int]:
    """How often the databases were cleaned after each pause and its pass."""
    found = []
    for pause in pauses:
        stage.clock.advance(pause)
        before = len(stage.cleaned)
        stage.run(1)
        found.append(len(stage.cleaned) - before)
    return found


def test_markers_are_deleted_after_a_pass_every_hour_where_there_are_any(stage: Stage) -> None:
    stage.update(marked(), 2)
    stage.cleanup = lambda is_time_over: Cleaned(7)
    passed = {one.row.pk: one.cleaned for one in stage.run(2)}
    assert passed == {1: Cleaned(7), 2: None}
    stage.update(marked())
    assert cleaned_after(stage, EVERY_SECONDS, CLEANUP_EVERY_SECONDS - EVERY_SECONDS - 1, 6) == [0, 0, 1]


def test_a_cleanup_whose_time_is_over_continues_after_the_next_pass(stage: Stage) -> None:
    stage.update(marked())
    over: list[bool] = []

    def cleanup(is_time_over: Callable[[], bool]) -> Cleaned:
        over.append(is_time_over())
        stage.clock.advance(CLEANUP_SECONDS)
        over.append(is_time_over())
        return Cleaned(1_000, is_over=False)

    stage.cleanup = cleanup
    assert cleaned_after(stage, 0, EVERY_SECONDS) == [1, 1]
    assert over == [False, True] * 2
    stage.cleanup = lambda is_time_over: Cleaned(3)
    assert cleaned_after(stage, EVERY_SECONDS, EVERY_SECONDS) == [1, 0]


def test_a_cleanup_that_fails_is_repeated_in_minutes_and_delays_no_pass(stage: Stage) -> None:
    stage.update(marked())
    failure = DatabaseFailed("no such table", code="database.table_missing")
    stage.cleanup = lambda is_time_over: Cleaned(0, failure=failure)
    (passed,) = stage.run(1)
    assert (passed.failure, passed.cleaned) == (None, Cleaned(0, failure=failure))
    assert passed.counts is not None
    assert cleaned_after(stage, EVERY_SECONDS, CLEANUP_RETRY_SECONDS - EVERY_SECONDS - 1, EVERY_SECONDS) == [0, 0, 1]


def test_a_cleanup_that_hangs_delays_no_other_database(stage: Stage) -> None:
    def hang(_: object) -> Cleaned:
        stage.may_end.wait()
        return Cleaned(0)

    stage.may_end.clear()
    stage.cleanup = hang
    stage.update(marked(), 2)
    for _ in range(3):
        assert [passed.row.pk for passed in stage.run(1)] == [2]
        stage.clock.advance(EVERY_SECONDS)
    assert stage.cleaned == [1]
    stage.may_end.set()
    stage.update(marked())
    assert stage.run(1)[0].cleaned == Cleaned(0)


def test_the_end_stops_a_cleanup_after_its_batch(stage: Stage) -> None:
    def cleanup(is_time_over: Callable[[], bool]) -> Cleaned:
        eventually(is_time_over, what="the cleanup is stopped")
        return Cleaned(1_000, is_over=False)

    stage.cleanup = cleanup
    stage.update(marked())
    stage.step()
    eventually(lambda: stage.cleaned, what="the cleanup has begun")
    assert [passed.cleaned for passed in stage.passes.close()] == [Cleaned(1_000, is_over=False)]


def test_a_database_whose_pass_failed_is_not_cleaned(stage: Stage) -> None:
    stage.update(marked())
    stage.relays[1].failure = DatabaseFailed("refused", code="database.unreachable")
    assert cleaned_after(stage, 0) == [0]
    stage.relays[1].failure = None
    assert cleaned_after(stage, EVERY_SECONDS) == [1]


@pytest.mark.parametrize(
    ("ago", "code", "due_in"),
    [
        (600, "", CLEANUP_EVERY_SECONDS - 600),
        (60, "database.timeout", CLEANUP_RETRY_SECONDS - 60),
        (-86_400, "", CLEANUP_EVERY_SECONDS),
    ],
    ids=["cleaned", "failed", "the clock was set back"],
)
def test_a_run_continues_with_the_hour_of_the_run_before(stage: Stage, ago: int, code: str, due_in: float) -> None:
    at = datetime.fromtimestamp(stage.clock.wall_ms() / 1000 - ago, UTC)
    stage.update(marked(marker_cleanup_at=at, marker_error_code=code))
    assert cleaned_after(stage, 0, due_in - 1, EVERY_SECONDS) == [0, 0, 1]


def test_markers_are_kept_at_least_as_long_as_brokers_keep_messages_by_default() -> None:
    assert timedelta(hours=BrokerOptions.retention_hours) == BROKER_RETENTION


def test_waiting_ends_with_a_pass(stage: Stage) -> None:
    stage.update(1)
    stage.relays[1].may_end.clear()
    stage.step()
    threading.Timer(0.01, stage.relays[1].may_end.set).start()
    stage.passes.wait(600.0)
    assert stage.run(1)


def test_a_gate_admits_one_request_of_a_database_and_so_many_in_all() -> None:
    gate = Gate(most=2, wait_seconds=0.01)
    with gate.entered(1):
        with pytest.raises(QmqError, match="Try again"), gate.entered(1):
            pass
        with gate.entered(2), pytest.raises(QmqError), gate.entered(3):
            pass
        with gate.entered(3):
            pass
    with gate.entered(1), gate.entered(3):
        pass


def test_a_gate_admits_the_next_request_when_the_one_before_ends() -> None:
    gate = Gate(wait_seconds=600.0)
    first = gate.entered(1)
    first.__enter__()
    threading.Timer(0.01, lambda: first.__exit__(None, None, None)).start()
    with gate.entered(1):
        pass
