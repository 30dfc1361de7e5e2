"""What a consumer pulls ahead, and how it acks: limits, the order of requests, answers with unusual messages."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from qmq import Consumer, Delivery, Limits
from qmq.client.bodies import Json, encode_body
from qmq.errors import ProtocolError
from qmq.net.caller import Caller
from qmq.net.timing import Backoff
from qmq.protocol.codes import Command
from qmq.protocol.commands import PullRequest
from qmq.protocol.frames import Frame
from qmq.protocol.messages import Message, encode_raw
from tests.support.drivers.in_process import CREATED, message
from tests.support.official.server import OfficialSystem, official_system
from tests.support.waiting import eventually_async

QUICK = Backoff(first=0.001, longest=0.01)
KIB = 1 << 10


@pytest_asyncio.fixture
async def system() -> AsyncIterator[OfficialSystem]:
    async with official_system() as running:
        yield running


def consumer_of(system: OfficialSystem, **options: Any) -> Consumer:
    return Consumer(system.address, "orders", "g", consumer_id="c@@1", backoff=QUICK, **options)


def asked(system: OfficialSystem) -> list[int]:
    """How many messages each pull of the subject asked for."""
    return [request.limit for request in system.pulls if request.subject == "orders"]


async def take(consumer: Consumer, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < count:
        found += await asyncio.wait_for(consumer.pull(count - len(found), timeout=60), 60)
    return found


async def settled(system: OfficialSystem) -> int:
    """The number of pulls when no more come."""
    await asyncio.sleep(5)
    return len(asked(system))


async def test_no_pull_is_sent_while_the_bytes_are_at_their_limit(system: OfficialSystem) -> None:
    system.store("orders", "g", *(message(number, size=10 * KIB) for number in range(12)))
    limits = Limits(pull_messages=2, prefetch_bytes=35 * KIB)
    async with consumer_of(system, limits=limits) as consumer:
        deliveries = await take(consumer, 4)
        assert await settled(system) == 2
        await deliveries[3].ack()
        deliveries += await take(consumer, 2)
        assert await settled(system) == 3, "three messages were below the limit, five are above"
        await deliveries[0].ack()
        assert await settled(system) == 3
        for delivery in deliveries[1:3]:
            await delivery.ack()
        assert await settled(system) == 4
        assert len(await take(consumer, 2)) == 2


async def test_no_pull_is_sent_above_the_limit_of_messages_and_the_last_asks_for_what_has_room(
    system: OfficialSystem,
) -> None:
    system.store("orders", "g", *(message(number) for number in range(100)))
    async with consumer_of(system, limits=Limits(pull_messages=8, prefetch_messages=20)) as consumer:
        assert await settled(system) == 2, "no more than a pull's messages are queued when the next is sent"
        deliveries = await take(consumer, 20)
        assert await settled(system) == 3
        for delivery in deliveries[:10]:
            await delivery.ack()
        assert await settled(system) == 5
    assert asked(system) == [8, 8, 4, 8, 2]


async def test_pulls_grow_while_the_application_waits_for_them_and_shrink_when_it_is_slow(
    system: OfficialSystem,
) -> None:
    system.store("orders", "g", *(message(number) for number in range(4_000)))
    async with consumer_of(system, limits=Limits(pull_messages=800)) as consumer:
        for _ in range(20):
            batch = await consumer.pull(1_000, timeout=1)
            for delivery in batch:
                await delivery.ack()
        sizes = asked(system)
        assert sizes[:2] == [100, 200]
        assert sizes == sorted(sizes), "they only grow"
        assert max(sizes) == 800
        system.store("orders", "g", *(message(number) for number in range(4_000, 12_000)))
        for _ in range(4_000):
            (delivery,) = await consumer.pull(1, timeout=30)
            await delivery.ack()
            await asyncio.sleep(0.01)
        assert asked(system)[-1] == 100, "100 messages take a second"
        assert len(consumer._ready.deliveries) <= 200


async def test_retries_are_pulled_while_a_backlog_keeps_the_queue_filled(system: OfficialSystem) -> None:
    system.store("orders", "g", *(message(number) for number in range(30_000)))
    async with consumer_of(system, limits=Limits(pull_messages=800)) as consumer:
        for _ in range(8):
            for delivery in await consumer.pull(1_000, timeout=1):
                await delivery.ack()
        assert max(asked(system)) == 800
        retry = "%RETRY%orders%g"
        system.store(retry, "g", *(message(100_000 + number, retry) for number in range(300)))
        received: list[int] = []
        async for delivery in consumer:
            received.append(int(delivery.message_id[1:]))
            await delivery.ack()
            await asyncio.sleep(0.001)
            if received[-1] == 29_999:
                break
    places = [place for place, number in enumerate(received) if number >= 100_000]
    assert len(places) == 300
    assert places[-1] < len(received) - 1_000, "the queue was never nearly empty before"


async def test_the_next_pull_is_sent_before_the_messages_of_this_one_are_handled(
    system: OfficialSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    call = Caller.call

    async def noted(caller: Caller, code: int, body: bytes = b"", **options: Any) -> Frame:
        if code == Command.PULL_MESSAGE and PullRequest.decode(memoryview(body), 9).subject == "orders":
            events.append("pull")
        return await call(caller, code, body, **options)

    monkeypatch.setattr(Caller, "call", noted)
    system.store("orders", "g", *(message(number) for number in range(6)))
    async with consumer_of(system, limits=Limits(pull_messages=3)) as consumer:
        async for delivery in consumer:
            events.append(delivery.message_id)
            await delivery.ack()
            if delivery.message_id == "m5":
                break
    assert events == ["pull", "pull", "m0", "m1", "m2", "pull", "m3", "m4", "m5"]


async def test_acks_of_handlers_that_take_their_time_share_requests(system: OfficialSystem) -> None:
    system.store("orders", "g", *(message(number) for number in range(40)))
    async with consumer_of(system) as consumer:
        for delivery in await take(consumer, 40):
            await delivery.ack()
            await asyncio.sleep(0.001)
        await eventually_async(lambda: system.events and system.events[-1].endswith("-39"))
        # 40 ms of processing, an ack each 10 ms and the network's time.
        assert 2 <= len(system.events) <= 5
        assert system.events[0].startswith("ack orders 0-")


async def test_messages_of_other_groups_are_acked_and_not_delivered(system: OfficialSystem) -> None:
    groups = ["", "g", "other", "g", "other", "other"]
    system.store(
        "orders", "g",
        *(
            Message("orders", f"m{number}", {**CREATED, **({"qmq_consumerGroupName": group} if group else {})})
            for number, group in enumerate(groups)
        ),
    )  # fmt: skip
    async with consumer_of(system) as consumer:
        deliveries = await take(consumer, 3)
        assert [delivery.message_id for delivery in deliveries] == ["m0", "m1", "m3"]
        assert consumer._ready.prefetch.messages == 3
        batch_ids = [delivery.message_id for delivery in deliveries]
        for delivery in deliveries:
            await delivery.ack()
        await eventually_async(lambda: "ack orders 0-5" in system.events)
        assert batch_ids == ["m0", "m1", "m3"]
        assert (consumer._ready.prefetch.messages, consumer._ready.prefetch.bytes) == (0, 0)


async def test_an_answer_for_other_groups_only_is_acked(system: OfficialSystem) -> None:
    system.store("orders", "g", Message("orders", "m0", {**CREATED, "qmq_consumerGroupName": "other"}))
    async with consumer_of(system) as consumer:
        await eventually_async(lambda: system.events == ["ack orders 0-0"], 1, "before a heartbeat is due")
        assert not consumer._ready.deliveries


async def test_a_delivery_goes_to_another_who_waits_if_the_first_is_cancelled_when_it_arrives(
    system: OfficialSystem,
) -> None:
    async with consumer_of(system) as consumer:
        first, second = (asyncio.ensure_future(consumer.pull(1, timeout=60)) for _ in range(2))
        await eventually_async(lambda: len(consumer._ready.waiters) == 2 and len(system.waiting) == 2)
        wake = consumer._ready.wake

        def wake_and_cancel(count: int) -> None:
            wake(count)
            first.cancel()

        consumer._ready.wake = wake_and_cancel  # type: ignore[method-assign]
        system.store("orders", "g", message(0))
        system.waiting = [item for item in system.waiting if not system._pull(*item)]
        began = asyncio.get_running_loop().time()
        (delivery,) = await second
        assert asyncio.get_running_loop().time() < began + 1, "not when its time is up"
        assert first.cancelled()
        await delivery.ack()


@pytest.mark.parametrize("body", [b"\xff\x00", "text", Json([1])])
async def test_an_answer_with_one_encoded_body_is_decoded(system: OfficialSystem, body: Any) -> None:
    plain = Message("orders", "m0", {**CREATED, **encode_body("plain")})
    system.store("orders", "g", plain, Message("orders", "m1", {**CREATED, **encode_body(body)}))
    async with consumer_of(system) as consumer:
        first, second = await take(consumer, 2)
        assert (first.body, first.content) == ("plain", b"plain")
        expected = {"text": "text", "Json": "[1]"}.get("text" if body == "text" else type(body).__name__)
        assert second.body == expected
        assert second.content == (body if isinstance(body, bytes) else str(expected).encode())


@pytest.mark.parametrize("extra", [{}, {"qmq_consumerGroupName": "g"}])
async def test_a_message_whose_properties_are_damaged_stops_nobody_else(
    system: OfficialSystem, monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]
) -> None:
    def encode(item: Message) -> bytes:
        raw = bytearray(encode_raw(item))
        if item.message_id == "m1":
            raw[-len(item.properties["number"]) - 1] += 5  # the length of the last value
        return bytes(raw)

    monkeypatch.setattr("tests.support.official.server.encode_raw", encode)
    system.store(
        "orders", "g",
        *(Message("orders", f"m{number}", {**CREATED, **extra, "number": str(number)}) for number in range(3)),
    )  # fmt: skip
    async with consumer_of(system) as consumer:
        good, bad, other = await take(consumer, 3)
        assert (good.properties["number"], other.properties["number"]) == ("0", "2")
        assert bad.message_id == "m1"
        with pytest.raises(ProtocolError):
            _ = bad.properties
        with pytest.raises(ProtocolError):
            await bad.retry()
        assert not bad.is_settled
        await bad.ack()


async def test_an_answer_that_is_not_messages_is_requested_again(
    system: OfficialSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = [5]
    monkeypatch.setattr(
        "tests.support.official.server.encode_raw", lambda item: encode_raw(item)[: -cuts.pop() if cuts else None]
    )
    system.store("orders", "g", message(1))
    async with consumer_of(system) as consumer:
        (delivery,) = await take(consumer, 1)
        assert (delivery.message_id, delivery.pull_sequence) == ("m1", 0)
        await delivery.ack()
