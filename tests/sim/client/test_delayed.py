"""Delayed messages through the client library."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from qmq import Consumer, DelayedMessages, Producer
from qmq.errors import ConnectionLost, LocalProtocolError, QmqError, SendFailed
from qmq.protocol.delayed import Outcome
from tests.support.in_process import SmallSystem, now_ms, small_system
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
        assert receipt.due_ms == before_ms + 400
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
