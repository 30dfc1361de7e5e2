"""Delayed messages through the client library."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from qmq import Consumer, DelayedMessages, Producer, Timeouts
from qmq.client.delay_clock import REFRESH_ANSWER_SECONDS, REFRESH_SECONDS
from qmq.client.own_commands import OwnCommands
from qmq.errors import CallTimeout, ConnectionLost, LocalProtocolError, QmqError, SendFailed
from qmq.net.caller import Caller
from qmq.protocol.codes import Command
from qmq.protocol.delayed import Outcome
from tests.support.drivers.in_process import SmallSystem, now_ms, small_system
from tests.support.waiting import eventually_async


def now() -> datetime:
    return datetime.fromtimestamp(now_ms() / 1000, UTC)


@pytest_asyncio.fixture
async def system(tmp_path: Path) -> AsyncIterator[SmallSystem]:
    async with small_system(tmp_path, groups=2) as running:
        yield running


async def test_a_delayed_message_comes_when_it_is_due(system: SmallSystem) -> None:
    async with Producer(system.meta_url, app="test") as producer:
        delay, before_ms = timedelta(milliseconds=400), now_ms()
        receipt = await producer.send("orders", {"n": 1}, delay=delay, tags=["a"])
        assert receipt.broker_group == "d1"
        assert before_ms + 400 <= receipt.due_ms < before_ms + 410
        assert receipt.due_at.timestamp() * 1000 == pytest.approx(receipt.due_ms, abs=0.5)
        late = await producer.send("orders", "text", due=now() - timedelta(days=3))
        plain = await producer.send("orders", {"n": 2})
        async with Consumer(system.meta_url, "orders", "g", start="earliest") as consumer:
            got = {}
            while len(got) < 3:
                for delivery in await consumer.pull(3, timeout=5.0):
                    got[delivery.message_id] = (now_ms(), delivery)
                    await delivery.ack()
        assert set(got) == {receipt.message_id, late.message_id, plain.message_id}
        at, delivery = got[receipt.message_id]
        assert receipt.due_ms <= at < receipt.due_ms + 30
        assert delivery.properties == {"n": "1"}, "the protocol's own properties are not shown"
        assert delivery.tags == ("a",)
        assert got[late.message_id][1].body == "text"


async def test_the_handle_cancels_moves_and_delivers(system: SmallSystem) -> None:
    async with Producer(system.meta_url, app="test") as producer:
        hour = timedelta(hours=1)
        cancelled, moved, now = [await producer.send("orders", {"n": n}, delay=hour) for n in range(3)]
        assert (await cancelled.cancel()).outcome is Outcome.DONE
        assert (await cancelled.cancel()).outcome is Outcome.UNCHANGED
        assert (await cancelled.deliver()).outcome is Outcome.TOO_LATE
        change = await moved.reschedule(delay=timedelta(milliseconds=300))
        assert change.outcome is Outcome.DONE
        assert (await now.deliver()).outcome is Outcome.DONE
        await eventually_async(lambda: sum(system.counts("orders").values()) == 2)
        assert set(system.counts("orders")) == {moved.message_id, now.message_id}
        assert now_ms() >= change.due_ms
        assert (await moved.cancel()).outcome is Outcome.TOO_LATE
        with pytest.raises(QmqError, match=r"days ahead") as caught:
            await moved.reschedule(delay=timedelta(days=4000))
        assert caught.value.code == "delay.too_far"


async def test_what_can_t_be_a_due_time_is_refused_before_it_is_sent(system: SmallSystem) -> None:
    async with Producer(system.meta_url, app="test") as producer:
        soon = now() + timedelta(seconds=5)
        for wrong, words in (
            ({"due": datetime.now()}, "time zone"),
            ({"delay": timedelta(seconds=-1)}, "negative"),
            ({"delay": 5}, "timedelta"),
            ({"due": "2026-12-24"}, "datetime"),
            ({"delay": timedelta(seconds=1), "due": soon}, "either"),
            ({"delay": timedelta.max}, "due time"),
        ):
            with pytest.raises(LocalProtocolError, match=words):
                await producer.send("orders", {}, **wrong)  # type: ignore[call-overload]
        with pytest.raises(SendFailed, match="next 730 days") as caught:
            await producer.send("orders", {}, delay=timedelta(days=800))
        assert caught.value.code == "delay.too_far"
        assert not caught.value.retriable
        assert system.delay.store.pending == 0


async def test_questions_over_all_delay_groups(system: SmallSystem, tmp_path: Path) -> None:
    first = system.delay
    system.settings = {"broker_group": "d2"}
    system.folder = tmp_path / "second"
    second = await system.start_delay()
    try:
        async with Producer(system.meta_url, app="test") as producer, DelayedMessages(system.meta_url) as delayed:
            await eventually_async(lambda: len(system.meta.directory.groups) == 4)
            begin = now() + timedelta(hours=3)
            sent = [
                await producer.send("orders", {"n": n, "even": n % 2 == 0}, due=begin + timedelta(minutes=7 * n))
                for n in range(40)
            ]
            assert {receipt.broker_group for receipt in sent} == {"d1", "d2"}, "both groups are used"
            listed = [message async for message in delayed.list("orders")]
            assert [message.message_id for message in listed] == [receipt.message_id for receipt in sent]
            some = [m async for m in delayed.list("orders", begin=begin + timedelta(minutes=7), match={"even": "true"})]
            assert len(some) == 19
            calendar = await delayed.calendar("orders")
            assert sum(calendar.hours.values()) == 40
            assert list(calendar.hours) == sorted(calendar.hours)

            found = await delayed.find(sent[3].message_id)
            assert [m.state for m in found.messages] == ["pending"]
            assert found.messages[0].delay_group == sent[3].broker_group
            assert (await delayed.cancel(sent[3].message_id)).outcome is Outcome.DONE
            assert (await delayed.cancel("nobody")).outcome is Outcome.NOT_FOUND
            counted = await delayed.cancel_matching("orders", match={"even": "true"}, dry_run=True)
            assert (counted.matched, counted.cancelled) == (20, 0)
            done = await delayed.cancel_matching("orders", match={"even": "true"})
            assert done.cancelled == 20
            assert first.store.pending + second.store.pending == 19

            # One group away: what can't be known is said, never taken for nothing.
            await second.close()
            problems: dict[str, str] = {}
            there = [m async for m in delayed.list("orders", problems=problems)]
            assert set(problems) == {"d2"}
            assert len(there) == first.store.pending
            assert set((await delayed.calendar()).problems) == {"d2"}
            with pytest.raises(QmqError, match="d2"):
                [m async for m in delayed.list("orders")]
            with pytest.raises(QmqError, match="d2"):
                await delayed.cancel("somebody")
    finally:
        system.delay = first
        await second.close()


async def test_delayed_messages_fail_over_to_another_delay_group(system: SmallSystem, tmp_path: Path) -> None:
    first = system.delay
    system.settings, system.folder = {"broker_group": "d2"}, tmp_path / "second"
    second = await system.start_delay()
    try:
        async with Producer(system.meta_url, app="test") as producer:
            await producer.send("orders", {}, delay=timedelta(hours=1))
            await second.close()
            sent = [await producer.send("orders", {}, delay=timedelta(hours=1)) for _ in range(20)]
            assert {receipt.broker_group for receipt in sent} == {"d1"}
    finally:
        system.delay = first
        await second.close()


async def test_delayed_messages_are_found_through_any_metaserver(system: SmallSystem) -> None:
    dead = "127.0.0.1:1"
    async with Producer(f"{dead},{system.meta_url}", app="test") as producer:
        receipt = await producer.send("orders", {"n": 1}, delay=timedelta(hours=1))
        assert (await receipt.cancel()).outcome is Outcome.DONE
    async with DelayedMessages(f"{dead},{system.meta_url}") as messages:
        assert await messages.find(receipt.message_id)
    async with DelayedMessages(f"{dead},127.0.0.1:2") as messages:
        with pytest.raises(ConnectionLost, match=r"127.0.0.1:1.* can't be reached.*; .*127.0.0.1:2.* can't be reached"):
            await messages.find(receipt.message_id)


class SkewedClock:
    """The clocks of a machine whose wall clock is wrong."""

    def __init__(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return now_ms() + self.ahead_ms


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000, 3 * 365 * 86_400_000])
async def test_delays_are_durations_whatever_the_clients_clock_shows_and_due_times_stay_what_they_are(
    system: SmallSystem, ahead_ms: int
) -> None:
    clock, eight = SkewedClock(ahead_ms), timedelta(seconds=8)
    async with Producer(system.meta_url, clock=clock) as producer, DelayedMessages(system.meta_url, clock=clock) as all:
        before_ms = now_ms()
        receipt = await producer.send("orders", {"n": 1}, delay=eight)
        assert before_ms + 8_000 <= receipt.due_ms < before_ms + 8_050
        for change in (
            await receipt.reschedule(delay=eight),
            await all.reschedule(receipt.message_id, delay=eight, delay_group="d1"),
            await all.reschedule(receipt.message_id, delay=eight),
        ):
            assert change.outcome is Outcome.DONE
            assert before_ms + 8_000 <= change.due_ms <= now_ms() + 8_000
        due = now() + timedelta(minutes=5)
        assert (await producer.send("orders", {"n": 2}, due=due)).due_at == due.replace(
            microsecond=due.microsecond // 1000 * 1000
        )
        assert (await all.reschedule(receipt.message_id, to=due)).due_ms == round(due.timestamp() * 1000)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of delay nodes that were asked for their time."""
    addresses: list[str] = []
    call = OwnCommands.call

    async def counted(self: OwnCommands, caller: Caller, command: Command, *arguments: Any, **options: Any) -> Any:
        if command is Command.DELAY_CLOCK:
            addresses.append(caller.address)
        return await call(self, caller, command, *arguments, **options)

    monkeypatch.setattr(OwnCommands, "call", counted)
    return addresses


async def test_the_delay_nodes_are_asked_for_their_time_once_a_minute(system: SmallSystem, asked: list[str]) -> None:
    second = timedelta(seconds=1)
    async with Producer(system.meta_url) as producer:
        for minute in range(3):
            await asyncio.gather(*(producer.send("orders", {"n": n}, delay=second) for n in range(20)))
            assert len(asked) == minute + 1
            await producer.send("orders", {"n": 20}, due=now())
            await asyncio.sleep(REFRESH_SECONDS)


async def test_a_node_that_answers_late_or_not_costs_a_known_clock_a_second(
    system: SmallSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = OwnCommands.call
    async with Producer(system.meta_url, clock=SkewedClock(3_600_000)) as producer:
        await producer.send("orders", {"n": 1}, delay=timedelta(seconds=8))

        async def silent(self: OwnCommands, caller: Caller, command: Command, body: bytes, **options: Any) -> Any:
            if command is not Command.DELAY_CLOCK:
                return await call(self, caller, command, body, **options)
            await asyncio.sleep(options["timeout_s"])
            raise CallTimeout("no answer")

        monkeypatch.setattr(OwnCommands, "call", silent)
        for seconds in (REFRESH_ANSWER_SECONDS, 0):  # and then not for another minute
            await asyncio.sleep(REFRESH_SECONDS if seconds else 0)
            began, before_ms = asyncio.get_running_loop().time(), now_ms()
            receipt = await producer.send("orders", {"n": 2}, delay=timedelta(seconds=8))
            assert before_ms + 8_000 <= receipt.due_ms < before_ms + 8_050, "from the call on, by the node's clock"
            assert asyncio.get_running_loop().time() - began == pytest.approx(seconds, abs=0.1)


async def test_with_official_delay_nodes_a_delay_is_counted_by_the_own_clock(
    system: SmallSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(self: OwnCommands, caller: Caller, command: Command, *_: Any, **options: Any) -> None:
        assert command is Command.DELAY_CLOCK

    monkeypatch.setattr(OwnCommands, "call", unknown)
    clock = SkewedClock(3_600_000)
    async with Producer(system.meta_url, clock=clock) as producer:
        before_ms = clock.wall_ms()
        receipt = await producer.send("orders", {"n": 1}, delay=timedelta(seconds=8))
        assert receipt.due_ms == before_ms + 8_000


async def test_a_delayed_send_ends_in_its_time_although_no_delay_node_can_be_asked(system: SmallSystem) -> None:
    await system.delay.close()
    timeouts, loop = Timeouts(delivery=3.0, connect=1.0), asyncio.get_running_loop()
    async with Producer(system.meta_url, timeouts=timeouts) as producer:
        began = loop.time()
        with pytest.raises(SendFailed, match="could not be asked for the time") as caught:
            await producer.send("orders", {"n": 1}, delay=timedelta(seconds=8))
        assert caught.value.retriable
        assert 2.0 <= loop.time() - began <= 3.0
        # close waits for what is being sent, and ends it when its time is over.
        sending = asyncio.create_task(producer.send("orders", {"n": 1}, delay=timedelta(seconds=8)))
        await asyncio.sleep(0.1)
        assert producer.waiting == 1
        await producer.close(timeout=0.5)
        with pytest.raises(SendFailed, match="was closed"):
            await sending


async def test_close_sends_a_delayed_message_whose_delay_node_is_just_being_asked(system: SmallSystem) -> None:
    async with Producer(system.meta_url) as producer:
        sending = asyncio.create_task(producer.send("orders", {"n": 1}, delay=timedelta(hours=1)))
        await asyncio.sleep(0)
    assert (await sending).broker_group == "d1"
