"""What a delay node does at its limits, and with brokers that refuse, stall or answer rubbish."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from delay_node import (
    batches,
    calendar,
    dispatcher,
    due_lanes,
    handlers,
    hour_reader,
    lookup,
    open_hours,
    placement,
    store,
)
from delay_node.hour import Hour
from delay_node.hour_reader import Bodies, Opened
from delay_node.open_hours import OpenHours
from delay_node.records import RecordKind
from delay_node.schedule_log import Entry
from qmq.clock import SystemClock
from qmq.errors import ConnectionLost
from qmq.protocol.codes import BrokerGroupState, Command, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, encode_send_response
from qmq.protocol.delayed import (
    ChangeDelayedRequest,
    DelayedPage,
    DelayedTarget,
    FindDelayedRequest,
    ListDelayedRequest,
    Operation,
    Outcome,
)
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame
from qmq.protocol.names import SUBJECT_OVER_LIMIT, is_subject_refusal
from qmq_node.log.commit import RECORD_HEAD_BYTES_MAX, SealedCommit
from qmq_node.server.connection import Connection
from qmq_node.server.server import FrameServer
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import SmallSystem, connected, delayed, machine, now_ms, small_system
from tests.support.drivers.wire import decode_entries
from tests.support.promises import judging
from tests.support.waiting import eventually_async

HOUR = 3_600_000
SLOW_SECONDS = 10.0
"""A write of a disk that is slow in a test."""
DAY = 24 * HOUR


class OddBroker:
    """Stores nothing; answers each SEND as it is told."""

    def __init__(self) -> None:
        self.server = FrameServer("127.0.0.1", 0, self.handle, clock=SystemClock(), listen=machine().listen)
        self.got: Counter[str] = Counter()
        self.order: list[str] = []
        self.refused: dict[str, SendResult] = {}
        self.remark = "told to"
        self.unreadable: set[str] = set()
        self.code = ResponseCode.SUCCESS
        self.is_silent = False
        self.stores_first_and_fails = False

    def handle(self, connection: Connection, frame: Frame) -> None:
        """One SEND."""
        ids = [message.message_id for message in decode_entries(frame.body)]
        if self.is_silent:
            self.got.update(ids)
            connection.drop(frame)
            return
        if self.stores_first_and_fails:
            self.got.update(ids[:1])
            connection.reply(frame, ResponseCode.BROKER_ERROR)
            return
        if self.unreadable & set(ids):
            connection.reply(frame, ResponseCode.BROKER_ERROR)
            return
        if self.code != ResponseCode.SUCCESS:
            connection.reply(frame, self.code)
            return
        failures = [SendFailure(m, self.refused[m], self.remark) for m in ids if m in self.refused]
        stored = [m for m in ids if m not in self.refused]
        self.got.update(stored)
        self.order += stored
        connection.reply(frame, ResponseCode.SUCCESS, encode_send_response(failures))


@asynccontextmanager
async def odd(tmp_path: Path, **settings: float) -> AsyncIterator[tuple[SmallSystem, OddBroker]]:
    """A delay node whose every subject is served by an odd broker."""
    broker = OddBroker()
    await broker.server.start()
    async with small_system(tmp_path, groups=0, **settings) as system:
        lead_to(system, broker)
        try:
            yield system, broker
        finally:
            await broker.server.close(0)


def lead_to(system: SmallSystem, *brokers: OddBroker) -> None:
    """Let all subjects be served by these."""
    routes = tuple(
        BrokerGroupRoute(f"odd{i}", "{}:{}".format(*broker.server.address), 0, BrokerGroupState.READ_WRITE)
        for i, broker in enumerate(brokers)
    )
    system.delay.serving.session.routes = lambda subject, kind: routes  # type: ignore[method-assign]


async def test_a_message_that_brokers_refuse_is_put_aside_and_can_be_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "REFUSAL_PAUSE_SECONDS", 0.02)
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        broker.refused = {"m3": SendResult.BLOCK, "m5": SendResult.SUBJECT_NOT_ASSIGNED}
        await client.send(*[delayed(i, now_ms()) for i in range(10)])
        await eventually_async(lambda: system.delay.store.refused == 2)
        assert set(broker.got) == {f"m{i}" for i in range(10)} - {"m3", "m5"}
        assert set(broker.got.values()) == {1}, "its neighbours went once"
        assert system.delay.store.pending == 0
        page = await client.listed(ListDelayedRequest("orders", 0, now_ms() + DAY, states=("refused",)))
        assert {item.message.message_id for item in page.items} == {"m3", "m5"}
        assert system.delay.serving.describe()["put_aside"] == 2

        # It is still known after a restart, and an operator decides.
        await system.delay.close()
        await system.start_delay()
        lead_to(system, broker)
        broker.refused = {}
        async with connected(system.delay) as again:
            assert system.delay.store.refused == 2
            (freed,) = await again.change(Operation.DELIVER, DelayedTarget("m3"))
            (gone,) = await again.change(Operation.CANCEL, DelayedTarget("m5"))
            assert (freed.outcome, gone.outcome) == (Outcome.DONE, Outcome.DONE)
            await eventually_async(lambda: broker.got["m3"] == 1)
            await eventually_async(lambda: system.delay.store.pending == system.delay.store.refused == 0)
        assert broker.got["m5"] == 0


async def test_a_message_that_spoils_a_batch_is_found_by_halving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "REFUSAL_PAUSE_SECONDS", 0.01)
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        broker.unreadable = {"m37"}
        await client.send(*[delayed(i, now_ms() + 100) for i in range(100)])
        await eventually_async(lambda: system.delay.store.refused == 1, 20)
        assert set(broker.got) == {f"m{i}" for i in range(100)} - {"m37"}
        assert set(broker.got.values()) == {1}


@pytest.mark.parametrize("result", [SendResult.BROKER_BUSY, SendResult.STORE_ERROR, SendResult.BROKER_READ_ONLY])
async def test_what_passes_is_tried_again_and_can_be_cancelled_meanwhile(tmp_path: Path, result: SendResult) -> None:
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        broker.refused = {f"m{i}": result for i in range(4)}
        await client.send(*[delayed(i, now_ms()) for i in range(5)])
        await eventually_async(lambda: broker.got["m4"] == 1 and system.delay.serving.dispatcher.lanes.overdue == 4)
        # None of the four is on its way now, and the broker said that it has none of them.
        outcome = Outcome.TOO_LATE
        while outcome is Outcome.TOO_LATE:  # a try may just be under way
            (change,) = await client.change(Operation.CANCEL, DelayedTarget("m2"))
            outcome = change.outcome
        assert outcome is Outcome.DONE
        broker.refused = {}
        await eventually_async(lambda: system.delay.store.pending == 0)
        assert broker.got == {"m0": 1, "m1": 1, "m3": 1, "m4": 1}


@pytest.mark.parametrize("is_subject", [False, True], ids=["full", "subject"])
async def test_brokers_that_reject_everything_are_probed_with_one_message(tmp_path: Path, is_subject: bool) -> None:
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        broker.remark = SUBJECT_OVER_LIMIT if is_subject else "no space"
        broker.refused = {f"m{i}": SendResult.STORE_ERROR for i in range(5_000)}
        for begin in range(0, 5_000, 500):
            assert not await client.send(*[delayed(i, now_ms(), f"s{i % 3}") for i in range(begin, begin + 500)])
        counters = system.delay.store.counters
        await eventually_async(lambda: counters.claimed > 0)
        await asyncio.sleep(10)
        claimed, records = counters.claimed, system.delay.store.log.gather.records_end
        lanes = system.delay.serving.dispatcher.lanes
        await asyncio.sleep(60)
        tries = 3 * 60 if is_subject else 60 / lanes.breaker.backoff.longest
        assert 0 < counters.claimed - claimed <= tries
        assert system.delay.store.log.gather.records_end - records <= tries * 256
        assert not broker.got

        broker.refused = {}
        began, claims = running_loop().time(), system.delay.serving.dispatcher.sender.counters.batches
        await eventually_async(lambda: len(broker.got) == 5_000)
        assert running_loop().time() - began <= lanes.breaker.backoff.longest + 1
        assert system.delay.serving.dispatcher.sender.counters.batches - claims < 100, "batches again"
        assert set(broker.got.values()) == {1}


async def test_a_message_that_no_broker_stores_is_not_the_only_probe(tmp_path: Path) -> None:
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        broker.refused = {f"m{i}": SendResult.STORE_ERROR for i in range(100)}
        await client.send(*[delayed(i, now_ms() - 100 + i, f"s{i % 2}") for i in range(100)])
        await eventually_async(lambda: system.delay.serving.dispatcher.lanes.group("odd0").rejections > 2)
        broker.refused = {"m0": SendResult.STORE_ERROR}
        await eventually_async(lambda: set(broker.got) == {f"m{i}" for i in range(1, 100)}, 60)
        assert system.delay.store.pending == 1


async def test_what_may_have_arrived_is_sent_again_and_can_t_be_cancelled(tmp_path: Path) -> None:
    async with odd(tmp_path, send_seconds=0.3) as (system, broker), connected(system.delay) as client:
        broker.is_silent = True
        await client.send(delayed(1, now_ms()))
        await eventually_async(lambda: broker.got["m1"] >= 1)
        (change,) = await client.change(Operation.CANCEL, DelayedTarget("m1"))
        assert (change.outcome, change.state) == (Outcome.TOO_LATE, "delivering")
        await eventually_async(lambda: system.delay.serving.dispatcher.sender.counters.unknown == 1)
        assert broker.got["m1"] == 1, "this is the pause before the next try"
        (change,) = await client.change(Operation.CANCEL, DelayedTarget("m1"))
        assert (change.outcome, change.state) == (Outcome.TOO_LATE, "delivering")
        await eventually_async(lambda: broker.got["m1"] >= 2, 10, "it is sent again")
        (change,) = await client.change(Operation.CANCEL, DelayedTarget("m1"))
        assert change.outcome is Outcome.TOO_LATE, "still: the first try may have arrived"

        # Even a crash does not make it forget that it may be out: the claim is on disk.
        await system.delay.close()
        await system.start_delay(send_seconds=0.3)
        async with connected(system.delay) as again:
            (change,) = await again.change(Operation.CANCEL, DelayedTarget("m1"))
            assert (change.outcome, change.state) == (Outcome.TOO_LATE, "delivering")
        lead_to(system, broker)
        broker.is_silent = False
        before = broker.got["m1"]
        await eventually_async(lambda: broker.got["m1"] == before + 1)
        await eventually_async(lambda: system.delay.store.pending == 0)


async def test_a_batch_that_a_broker_stored_in_part_before_it_failed_stays_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "REFUSAL_PAUSE_SECONDS", 0.05)
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        broker.stores_first_and_fails = True
        await client.send(delayed(1, now_ms()), delayed(2, now_ms()))
        await eventually_async(lambda: system.delay.serving.dispatcher.sender.counters.refusals >= 2)
        changes = await client.change(Operation.CANCEL, DelayedTarget("m1"), DelayedTarget("m2"))
        assert {change.outcome for change in changes} == {Outcome.TOO_LATE}, "the broker may have stored them"
        broker.stores_first_and_fails = False
        await eventually_async(lambda: system.delay.store.pending == 0)
        assert system.delay.store.counters.cancelled == 0


async def test_a_definite_failure_after_an_uncertain_one_leaves_the_claim(tmp_path: Path) -> None:
    async with odd(tmp_path, send_seconds=0.3) as (system, broker), connected(system.delay) as client:
        broker.is_silent = True
        await client.send(delayed(1, now_ms()))
        await eventually_async(lambda: system.delay.serving.dispatcher.sender.counters.unknown >= 1)
        broker.refused = {"m1": SendResult.BROKER_BUSY}
        broker.is_silent = False
        failed = system.delay.serving.dispatcher.sender.counters.failed_batches
        await eventually_async(lambda: system.delay.serving.dispatcher.sender.counters.failed_batches >= failed + 2)
        (change,) = await client.change(Operation.CANCEL, DelayedTarget("m1"))
        assert change.outcome is Outcome.TOO_LATE, "the first try may have arrived"
        broker.refused = {}
        await eventually_async(lambda: system.delay.store.pending == 0)


async def test_a_group_that_answers_errors_is_left_for_another(tmp_path: Path) -> None:
    other = OddBroker()
    await other.server.start()
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        lead_to(system, broker, other)
        broker.code = ResponseCode.BROKER_REJECT
        await client.send(*[delayed(i, now_ms() + i) for i in range(300)])
        await eventually_async(lambda: system.delay.store.pending == 0)
        assert not broker.got
        assert other.got == {f"m{i}": 1 for i in range(300)}
    await other.server.close(0)


async def test_a_subject_too_many_is_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SUBJECTS_MAX", 2)
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        await client.send(delayed(1, now_ms(), "a"))
        failures = await client.send(
            delayed(2, now_ms(), "b"), delayed(3, now_ms(), "c"), delayed(4, now_ms(), "c"), delayed(5, now_ms(), "a")
        )
        assert set(failures) == {"m3", "m4"}, "the others of the batch are stored"
        assert {failure.result for failure in failures.values()} == {SendResult.STORE_ERROR}
        assert all(is_subject_refusal(failure.remark) for failure in failures.values()), "the node itself is fine"
        await eventually_async(lambda: broker.got == {"m1": 1, "m2": 1, "m5": 1})


async def test_an_hour_that_is_full_refuses_its_messages_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "NUMBER_MAX", 3)
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        begin = (now_ms() + 2 * DAY) // HOUR * HOUR
        await client.send(*[delayed(i, begin) for i in range(3)])
        failures = await client.send(
            delayed(3, begin + HOUR, "b"), delayed(4, begin, "c"), delayed(5, begin + HOUR, "d")
        )
        assert set(failures) == {"m4"}
        assert system.delay.store.pending == 5


async def test_messages_larger_than_a_segment_are_refused_alone_and_long_runs_become_several_records(
    tmp_path: Path,
) -> None:
    async with odd(tmp_path, segment_bytes=1 << 20) as (system, _), connected(system.delay) as client:
        due = now_ms() + DAY
        values = {f"data{i}": "x" * 30_000 for i in range(40)}
        failures = await client.send(
            delayed(1, due, "a"),
            delayed(2, due, "b", **values),
            *[delayed(i, due, "c", data="x" * 30_000) for i in range(3, 103)],
            delayed(103, due, "c", **values),
            delayed(104, due, "c"),
        )
        assert set(failures) == {"m2", "m103"}
        assert {failure.result for failure in failures.values()} == {SendResult.BLOCK}, "no retry can help"
        assert str(system.delay.store.log.gather.record_bytes_max - RECORD_HEAD_BYTES_MAX) in failures["m2"].remark
        assert system.delay.store.pending == 102
        assert not await client.send(delayed(105, due, "a"))
        await system.delay.close()
        await system.start_delay(segment_bytes=1 << 20)
        assert system.delay.store.pending == 103
        assert (await _ids(system, due)) == [f"m{i}" for i in [1, *range(3, 103), 104, 105]]


async def _ids(system: SmallSystem, due_ms: int) -> list[str]:
    """The ids of all messages due then, in the order they came."""
    async with connected(system.delay) as client:
        items: list[str] = []
        cursor = ""
        while True:
            page = await client.listed(ListDelayedRequest("", due_ms, due_ms + 1, limit=200, cursor=cursor))
            items += [item.message.message_id for item in page.items]
            cursor = page.cursor
            if not cursor:
                return items


async def test_questions_beyond_the_limit_are_answered_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "QUERIES_MAX", 3)
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        hold = asyncio.Event()
        find = system.delay.serving.queries.find

        async def slow(target: DelayedTarget) -> list[object]:
            await hold.wait()
            return await find(target)  # type: ignore[return-value]

        monkeypatch.setattr(system.delay.serving.queries, "find", slow)
        body = FindDelayedRequest(DelayedTarget("m1")).encode()
        asked = [client.caller.call_soon(Command.FIND_DELAYED, body) for _ in range(4)]
        busy = await asyncio.wait_for(asked[3], 5)
        assert busy.code == ResponseCode.PARAM_ERROR
        assert Refusal.decode(busy.body).code == "delay.busy"
        hold.set()
        assert [(await frame).code for frame in asked[:3]] == [ResponseCode.SUCCESS] * 3
        assert (await client.find("m1")).items == ()


async def test_no_question_is_left_when_a_stop_cancels_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fail, and each failure is logged as an error of the program."""
    left: list[int] = []
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        serving = system.delay.serving
        close = system.delay.store.io.close

        async def close_reads() -> None:
            left.append(len(serving.handlers._running))
            await close()

        monkeypatch.setattr(system.delay.store.io, "close", close_reads)
        monkeypatch.setattr(serving.queries, "find", lambda target: asyncio.Event().wait())
        asked = client.caller.call_soon(Command.FIND_DELAYED, FindDelayedRequest(DelayedTarget("m1")).encode())
        await eventually_async(lambda: serving.handlers._running)
    assert isinstance(asked.exception(), ConnectionLost)
    assert left == [0]


async def test_sends_are_answered_busy_while_the_schedule_can_t_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with odd(tmp_path, checkpoint_bytes=1 << 20) as (system, _), connected(system.delay) as client:
        loop = running_loop()
        save = type(system.delay.checkpoints._writer).save

        def slow(self: object, draft: object) -> None:
            loop.block(SLOW_SECONDS)
            save(self, draft)  # type: ignore[arg-type]

        monkeypatch.setattr(type(system.delay.checkpoints._writer), "save", slow)
        number, refused = 0, {}
        while not refused:
            batch = [delayed(number + i, now_ms() + DAY, data="x" * 900) for i in range(200)]
            refused = await client.send(*batch)
            number += 200
            assert number < 20_000, "the limit does not hold"
        assert {failure.result for failure in refused.values()} == {SendResult.BROKER_BUSY}
        assert len(refused) == 200, "whole or not at all"
        assert system.delay.checkpoints.saved == 0
        await asyncio.sleep(SLOW_SECONDS)
        assert system.delay.checkpoints.saved > 0
        assert await client.send(delayed(number, now_ms() + DAY)) == {}
        assert system.delay.store.pending == number - 200 + 1


async def test_far_hours_that_were_looked_into_are_let_go_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_hours, "OPEN_FAR_ENTRIES_MAX", 30)
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        begin = (now_ms() + 2 * DAY) // HOUR * HOUR
        await client.send(*[delayed(i, begin + i // 10 * HOUR + i) for i in range(100)])
        for i in range(0, 100, 3):
            (change,) = await client.change(Operation.CANCEL, DelayedTarget(f"m{i}", due_ms=begin + i // 10 * HOUR + i))
            assert change.outcome is Outcome.DONE
        in_memory = [hour for hour in system.delay.store.hours.values() if hour.states is not None]
        assert sum(hour.schedule.count for hour in in_memory) <= 30
        page = await client.listed(ListDelayedRequest("orders", 0, begin + 30 * DAY, limit=200))
        assert {item.message.message_id for item in page.items} == {f"m{i}" for i in range(100) if i % 3}
        assert system.delay.store.pending == 66


async def test_small_far_hours_that_were_looked_into_are_let_go_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_hours, "OPEN_FAR_HOURS_MAX", 3)
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        begin = (now_ms() + 2 * DAY) // HOUR * HOUR
        await client.send(*[delayed(i, begin + i * HOUR) for i in range(10)])
        for i in range(10):
            await client.change(Operation.CANCEL, DelayedTarget(f"m{i}", due_ms=begin + i * HOUR))
        in_memory = [number for number, hour in system.delay.store.hours.items() if hour.states is not None]
        assert in_memory == [begin // HOUR + i for i in (7, 8, 9)], "the ones that were used last"


async def test_the_calendar_keeps_a_limited_number_of_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar, "CALENDAR_CACHE_ENTRIES", 4)
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        begin = (now_ms() + 2 * DAY) // HOUR * HOUR
        for subject in ("orders", "other"):
            await client.send(*[delayed(i, begin + i * HOUR, subject=subject) for i in range(5)])
        for subject in ("orders", "other", "orders"):
            counts = await client.calendar(subject, begin, begin + DAY)
            assert counts == {begin + i * HOUR: 1 for i in range(5)}
        kept = system.delay.serving.queries._calendar._counts
        assert list(kept) == [begin // HOUR + i for i in (3, 4)], "two hours with two subjects each, used last"


async def test_hours_that_do_not_fit_into_memory_together_are_opened_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two thirds of the limit in each hour: a message that moved from one to the other needs both."""
    monkeypatch.setattr(open_hours, "OPEN_FAR_ENTRIES_MAX", 30)
    held: list[int] = []
    admit = OpenHours._admit

    def watched(self: OpenHours, hour: Hour) -> None:
        admit(self, hour)
        held.append(sum(other.schedule.count for other in self._hours.values() if other.users))

    monkeypatch.setattr(OpenHours, "_admit", watched)
    opened: list[int] = []
    read_hour = open_hours.read_hour

    def counted(hour: Hour, count: int, dispatch_count: int, *, for_wheel: bool) -> Generator[None, None, Opened]:
        opened.append(hour.number)
        assert len(opened) < 10_000, "hours close each other for ever"
        return read_hour(hour, count, dispatch_count, for_wheel=for_wheel)

    monkeypatch.setattr(open_hours, "read_hour", counted)
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        begin = (now_ms() + 2 * DAY) // HOUR * HOUR
        dues = [begin + i // 20 * HOUR + i for i in range(120)]
        await client.send(*[delayed(i, due) for i, due in enumerate(dues)])
        moved = [(i, dues[i + 20] - 1) for i in range(0, 100, 20)]
        for i, due_ms in moved:
            target = DelayedTarget(f"m{i}", due_ms=dues[i])
            (change,) = await client.change(Operation.RESCHEDULE, target, due_ms=due_ms)
            assert change.outcome is Outcome.DONE
        opened.clear()
        asked = [
            client.caller.call_soon(
                Command.FIND_DELAYED, FindDelayedRequest(DelayedTarget(f"m{i}", due_ms=dues[i])).encode()
            )
            for i, _ in moved * 13
        ][: handlers.QUERIES_MAX]
        frames = [await frame for frame in asked]
        assert {frame.code for frame in frames} == {ResponseCode.SUCCESS}, "all are answered, none is busy"
        for frame, (i, due_ms) in zip(frames, moved * 13, strict=False):
            copies = [(item.due_ms, str(item.state)) for item in DelayedPage.decode(frame.body).items]
            assert copies == [(dues[i], "moved"), (due_ms, "pending")]
        # A question looks into two hours three times each: to find the copies, to see where they moved, and for their states.
        assert len(opened) <= len(frames) * 6
        targets = tuple(DelayedTarget(f"m{i}", due_ms=dues[i]) for i, _ in moved)
        changes = await client.change(Operation.CANCEL, *targets)
        assert [change.outcome for change in changes] == [Outcome.DONE] * len(targets)
        assert max(held) <= 30, "what is held keeps to the limit"
        assert not any(hour.users for hour in system.delay.store.hours.values())


async def test_a_cancelled_question_lets_its_hour_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_hours, "OPEN_FAR_ENTRIES_MAX", 5)
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        begin = (now_ms() + 2 * DAY) // HOUR * HOUR
        await client.send(*[delayed(i, begin + i // 4 * HOUR) for i in range(12)])
        kept = system.delay.store
        numbers = [begin // HOUR + i for i in range(3)]

        async def use(number: int) -> None:
            async with kept.open_hours.use(number):
                await asyncio.sleep(0)

        async with kept.open_hours.use(numbers[0]):
            waiting = [asyncio.create_task(use(number)) for number in numbers[1:]]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await asyncio.wait(waiting[:1])
            assert not waiting[1].done(), "there is no room yet"
        await waiting[1]
        assert [kept.hours[number].users for number in numbers] == [0, 0, 0]


async def test_many_bytes_of_due_messages_are_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_lanes, "LANE_MESSAGES", 50)
    monkeypatch.setattr(dispatcher, "FETCH_MESSAGES", 40)
    monkeypatch.setattr(dispatcher, "READY_BYTES_MAX", 64 << 10)
    async with odd(tmp_path, send_seconds=0.5) as (system, broker), connected(system.delay) as client:
        broker.is_silent = True
        due = now_ms() + 200
        await client.send(*[delayed(i, due + i, data="x" * 1_000) for i in range(1_000)])
        await eventually_async(
            lambda: (
                system.delay.serving.dispatcher.lanes.overdue + 500 * len(system.delay.serving.dispatcher.sender._tasks)
                >= 1_000
            ),
            10,
        )
        assert system.delay.serving.dispatcher.lanes.ready_bytes < 4 * (64 << 10)
        broker.is_silent = False
        await eventually_async(lambda: system.delay.store.pending == 0, 30)
        assert set(broker.got) == {f"m{i}" for i in range(1_000)}
        assert system.delay.serving.dispatcher.lanes.ready_bytes == 0, "what was counted in was counted out"


async def test_nothing_is_answered_and_nothing_leaves_before_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        await client.send(delayed(1, now_ms() + DAY), delayed(2, now_ms() + DAY))
        log = system.delay.store.log
        loop, write = running_loop(), log.writer.write

        def slow(commit: SealedCommit, **options: Any) -> None:
            if not commit.is_seal:
                loop.block(SLOW_SECONDS)
            write(commit, **options)

        monkeypatch.setattr(log.writer, "write", slow)
        began = loop.time()
        cancel = asyncio.create_task(client.change(Operation.CANCEL, DelayedTarget("m1")))
        await eventually_async(lambda: system.delay.committer.waiting)
        again = asyncio.create_task(client.change(Operation.CANCEL, DelayedTarget("m1")))
        deliver = asyncio.create_task(client.change(Operation.DELIVER, DelayedTarget("m2")))
        send = asyncio.create_task(client.send(delayed(3, now_ms())))
        await eventually_async(lambda: system.delay.committer.waiting >= 4)
        await asyncio.sleep(began + SLOW_SECONDS - loop.time())
        with judging():
            assert not any(task.done() for task in (cancel, again, deliver, send)), "an answer before its sync"
            assert not broker.got, "a delivery before its claim was synced"
        assert (await cancel)[0].outcome is Outcome.DONE
        assert loop.time() == pytest.approx(began + SLOW_SECONDS, abs=0.1)
        # The others came while that commit was written: the next one holds them.
        assert [(await again)[0].outcome, (await deliver)[0].outcome] == [Outcome.UNCHANGED, Outcome.DONE]
        assert await send == {}
        assert loop.time() == pytest.approx(began + 2 * SLOW_SECONDS, abs=0.1)
        await eventually_async(lambda: broker.got, SLOW_SECONDS)
        assert loop.time() == pytest.approx(began + 3 * SLOW_SECONDS, abs=0.1), "the third commit holds the claims"
        await eventually_async(lambda: broker.got == {"m2": 1, "m3": 1}, SLOW_SECONDS)


async def test_large_messages_are_read_a_few_at_a_time_and_all_delivered_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, most = 30_000, 100_000
    for module in (hour_reader, dispatcher, lookup):
        monkeypatch.setattr(module, "READ_BYTES_MAX", most)
    monkeypatch.setattr(dispatcher, "READY_BYTES_MAX", 2 * most)
    monkeypatch.setattr(lookup, "FOUND_BYTES_MAX", most)
    reads: list[int] = []
    read_now = Bodies.read_now

    def watched(self: Bodies, refs: list[int], bytes_max: int = most) -> list[Entry]:
        entries = read_now(self, refs, min(bytes_max, most))
        reads.append(sum(len(entry.data) for entry in entries if entry.data is not None))
        return entries

    monkeypatch.setattr(Bodies, "read_now", watched)
    async with odd(tmp_path) as (system, broker), connected(system.delay) as client:
        broker.is_silent = True
        due = now_ms() + DAY
        await client.send(*[delayed(i, due + i, data="x" * size) for i in range(40)])
        ids: list[str] = []
        cursor = ""
        while True:
            page = await client.listed(ListDelayedRequest("orders", 0, due + DAY, limit=100, cursor=cursor))
            ids += [item.message.message_id for item in page.items]
            cursor = page.cursor
            if not cursor:
                break
        assert ids == [f"m{i}" for i in range(40)]
        targets = tuple(DelayedTarget(f"m{i}", due_ms=due + i) for i in range(10))
        frame = await client.raw(Command.CHANGE_DELAYED, ChangeDelayedRequest(Operation.DELIVER, -1, targets).encode())
        assert frame.code == ResponseCode.PARAM_ERROR
        assert Refusal.decode(frame.body).code == "delay.too_much"
        broker.is_silent = False
        soon = now_ms() + 300
        for i in range(40):
            (change,) = await client.change(
                Operation.RESCHEDULE, DelayedTarget(f"m{i}", due_ms=due + i), due_ms=soon + i
            )
            assert change.outcome is Outcome.DONE
        await eventually_async(lambda: system.delay.store.pending == 0, 20)
        assert set(broker.got) == {f"m{i}" for i in range(40)}
        assert max(reads) <= most + size + 1_000
        assert system.delay.serving.dispatcher.lanes.ready_bytes == 0


async def test_an_hour_with_undecided_effects_is_not_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_hours, "OPEN_FAR_ENTRIES_MAX", 1)
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:
        begin = (now_ms() + 2 * DAY) // HOUR * HOUR
        await client.send(*[delayed(i, begin + i * HOUR) for i in range(3)])
        kept = system.delay.store
        hours = [kept.hours[begin // HOUR + i] for i in range(3)]
        async with kept.open_hours.use(hours[0].number):
            kept.act(RecordKind.CANCELLED, [hours[0].number << 32], now_ms())
        for hour in hours[1:]:
            async with kept.open_hours.use(hour.number):
                pass
        assert hours[0].states is not None, "its decision is nowhere but in memory"
        (change,) = await client.change(Operation.DELIVER, DelayedTarget("m0", due_ms=begin))
        assert (change.outcome, change.state) == (Outcome.TOO_LATE, "cancelled")
        async with kept.open_hours.use(hours[1].number):
            pass
        assert hours[0].states is None


async def test_a_question_that_meets_a_bug_of_ours_is_answered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with odd(tmp_path) as (system, _), connected(system.delay) as client:

        async def broken(target: DelayedTarget) -> list[object]:
            raise KeyError("a bug")

        monkeypatch.setattr(system.delay.serving.queries, "find", broken)
        frame = await client.raw(Command.FIND_DELAYED, FindDelayedRequest(DelayedTarget("m1")).encode())
        assert frame.code == ResponseCode.BROKER_ERROR
