"""At most once: no message is handled twice, whatever is lost and whenever a consumer is killed."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from qmq import Consumer, Delivery, Limits, Producer
from qmq.client.acker import ACK_FIRST_SECONDS_MAX
from qmq.errors import ConnectionLost
from qmq.net.caller import Caller
from qmq.protocol.codes import Command
from qmq.protocol.commands import AckRequest
from qmq.protocol.frames import Frame
from tests.support.drivers.in_process import SmallSystem, small_system
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

Call = Callable[[], Awaitable[Frame]]
Around = Callable[[Call], Awaitable[Frame]]
BATCH = 7
KILLS = 20
STEPS_MAX = 24
"""A consumer is killed at one of its first steps: a request sent, an answer read, a message handled."""


@pytest.fixture
def around_acks(monkeypatch: pytest.MonkeyPatch) -> list[Around]:
    """Functions that the next acks of messages, one each, are made through."""
    waiting: list[Around] = []
    call = Caller.call

    async def through(caller: Caller, code: int, body: bytes = b"", *, timeout_s: float, version: int = 9) -> Frame:
        async def make() -> Frame:
            return await call(caller, code, body, timeout_s=timeout_s, version=version)

        if code == Command.ACK_REQUEST and waiting and not AckRequest.decode(memoryview(body)).is_heartbeat:
            return await waiting.pop(0)(make)
        return await make()

    monkeypatch.setattr(Caller, "call", through)
    return waiting


def consumer_of(system: SmallSystem, **options: Any) -> Consumer:
    return Consumer(
        system.meta_url, "orders", "g", consumer_id="c@@1", start="earliest", at_most_once=True,
        limits=Limits(pull_messages=BATCH), **options,
    )  # fmt: skip


async def fill(system: SmallSystem, *numbers: int) -> None:
    async with Producer(system.meta_url) as producer:
        await asyncio.gather(*(producer.send("orders", {"number": number}) for number in numbers))


def numbers_of(deliveries: list[Delivery]) -> list[int]:
    return [int(delivery.properties["number"]) for delivery in deliveries]


async def take(consumer: Consumer, count: int) -> list[int]:
    """The numbers of the next messages."""
    found: list[Delivery] = []
    while len(found) < count:
        found += await consumer.pull(count - len(found), timeout=60)
    for delivery in found:
        await delivery.ack()
    return numbers_of(found)


def acked(system: SmallSystem) -> int:
    """The first pull sequence that the broker has no ack for."""
    return system.brokers["g1"].store.subjects["orders"].groups["g"].progress.consumers["c@@1"].log.acked


async def kill(consumer: Consumer) -> None:
    """End a consumer as kill -9 does: it sends nothing more."""
    for pool in (consumer._pool, consumer._producer._pool):
        for caller in pool._callers.values():
            assert caller._transport is not None
            caller._transport.abort()
    await consumer.supervisor.close()
    await consumer._producer.supervisor.close()


async def test_a_message_is_acked_before_it_is_handled_with_one_ack_for_a_batch(
    tmp_path: Path, around_acks: list[Around]
) -> None:
    acks = 0

    async def count(call: Call) -> Frame:
        nonlocal acks
        acks += 1
        return await call()

    around_acks += [count] * 1_000
    async with small_system(tmp_path, with_delay=False) as system:
        await fill(system, *range(20 * BATCH))
        async with consumer_of(system) as consumer:
            for handled in range(20 * BATCH):
                (delivery,) = await consumer.pull(1, timeout=60)
                assert acked(system) > delivery.pull_sequence == handled
                await delivery.ack()
        assert acks == 20


async def test_a_crash_between_the_ack_and_the_handler_loses_the_batch_and_repeats_nothing(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        await fill(system, *range(2 * BATCH))
        consumer = consumer_of(system)
        await consumer.start()
        await eventually_async(lambda: len(consumer._ready.deliveries) >= BATCH)
        await kill(consumer)
        lost = acked(system)
        assert lost >= BATCH
        await fill(system, 100)
        async with consumer_of(system) as successor:
            found: list[int] = []
            while 100 not in found:
                found += await take(successor, 1)
        # An ack that was on its way when the consumer was killed may have reached the broker after that.
        begin = 2 * BATCH + 1 - len(found)
        assert begin >= lost
        assert found == [*range(begin, 2 * BATCH), 100]


@pytest.mark.parametrize("took_effect", [True, False])
async def test_a_batch_whose_ack_has_an_unknown_outcome_is_delivered_only_if_it_comes_again(
    tmp_path: Path, around_acks: list[Around], took_effect: bool
) -> None:
    async def lose(call: Call) -> Frame:
        if took_effect:
            await call()
        raise ConnectionLost("injected")

    around_acks.append(lose)
    async with small_system(tmp_path, with_delay=False) as system:
        await fill(system, *range(2 * BATCH))
        async with consumer_of(system) as consumer:
            expected = list(range(BATCH if took_effect else 0, 2 * BATCH))
            assert await take(consumer, len(expected)) == expected
            await fill(system, 100)
            assert await take(consumer, 1) == [100], "nothing comes twice"


async def test_a_batch_whose_ack_is_confirmed_after_the_lease_may_have_ended_is_not_delivered(
    tmp_path: Path, around_acks: list[Around]
) -> None:
    clock = ManualClock()

    async def late(call: Call) -> Frame:
        frame = await call()
        clock.advance(ACK_FIRST_SECONDS_MAX + 1)
        return frame

    around_acks.append(late)
    async with small_system(tmp_path, with_delay=False) as system:
        await fill(system, *range(2 * BATCH))
        async with consumer_of(system, clock=clock) as consumer:
            assert await take(consumer, BATCH) == list(range(BATCH, 2 * BATCH))


@pytest.mark.parametrize("seed", range(3))
async def test_no_message_is_handled_twice_by_consumers_that_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    killed = asyncio.Event()
    steps_left = 0
    call = Caller.call

    def step() -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left == 0:
            killed.set()

    async def stepped(caller: Caller, code: int, *arguments: Any, **options: Any) -> Frame:
        if code not in (Command.PULL_MESSAGE, Command.ACK_REQUEST):
            return await call(caller, code, *arguments, **options)
        step()
        if killed.is_set():
            await asyncio.Event().wait()  # it was killed before it sent the request
        frame = await call(caller, code, *arguments, **options)
        step()
        if killed.is_set():
            await asyncio.Event().wait()  # it was killed before it read the answer
        return frame

    monkeypatch.setattr(Caller, "call", stepped)
    handled: list[int] = []
    async with small_system(tmp_path, with_delay=False) as system:
        await fill(system, *range(200 * BATCH))
        for _ in range(KILLS):
            killed.clear()
            steps_left = rng.randint(1, STEPS_MAX)
            consumer = consumer_of(system)
            await consumer.start()
            while not killed.is_set():
                ends = asyncio.create_task(killed.wait())
                pull = asyncio.create_task(consumer.pull(1, timeout=60))
                await asyncio.wait([ends, pull], return_when=asyncio.FIRST_COMPLETED)
                if pull.done() and not killed.is_set():
                    handled += numbers_of(pull.result())
                    step()
                ends.cancel()
                pull.cancel()
            await kill(consumer)
        killed.clear()
        await fill(system, 10_000)
        async with consumer_of(system) as last:
            while 10_000 not in handled:
                handled += await take(last, 1)
    assert max(Counter(handled).values()) == 1
    assert len(handled) > 50 * BATCH
