"""Our client against nodes that answer like the official server."""

import asyncio
import logging

import pytest

from qmq import Consumer, Limits
from qmq.errors import ClientFailed, ConsumeFailed
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.codes import SendResult
from qmq.protocol.messages import Message, set_large_string
from tests.support.drivers.in_process import CREATED, message
from tests.support.official.server import OfficialSystem, official_system
from tests.support.waiting import eventually_async

MIB = 1 << 20
QUICK = Backoff(first=0.001, longest=0.01)
RETRY_SUBJECT = "%RETRY%orders%g"


def large(number: int, size: int) -> Message:
    properties = {**CREATED, "number": str(number)}
    set_large_string(properties, "data", "x" * size)
    return Message("orders", f"m{number}", properties, (), 0, 1_700_000_000_000, 1_700_000_000_000)


def consumer_of(system: OfficialSystem, limits: Limits | None = None, **options: object) -> Consumer:
    return Consumer(
        system.address, "orders", "g", consumer_id="c@@1", backoff=QUICK, limits=limits or Limits(), **options  # type: ignore[arg-type]
    )  # fmt: skip


def asked(system: OfficialSystem) -> list[int]:
    """How many messages each pull of the subject asked for."""
    return [request.limit for request in system.pulls if request.subject == "orders"]


async def take(consumer: Consumer, count: int) -> list[str]:
    """The ids of the next messages, acked."""
    found: list[str] = []
    while len(found) < count:
        for delivery in await consumer.pull(count - len(found), timeout=60):
            found.append(delivery.message_id)
            await delivery.ack()
    return found


# --- large answers ---------------------------------------------------------------------------------------------------


async def test_an_answer_of_40_mib_is_received_and_the_next_pull_asks_for_as_many_as_fit_the_target() -> None:
    async with official_system() as system:
        system.store("orders", "g", *(large(number, 4 * MIB) for number in range(10)))
        async with consumer_of(system, Limits(pull_messages=10)) as consumer:
            assert await asyncio.wait_for(take(consumer, 10), 60) == [f"m{number}" for number in range(10)]
            await eventually_async(lambda: len(asked(system)) == 2)
        assert asked(system) == [10, 7], "32 MiB hold 7 messages of 4 MiB and a bit"


async def test_an_answer_above_the_limit_halves_what_is_asked_for_until_it_fits() -> None:
    async with official_system() as system:
        system.store("orders", "g", *(large(number, 100_000) for number in range(16)))
        limits = Limits(pull_messages=16, answer_bytes=500_000)
        async with consumer_of(system, limits) as consumer:
            assert await asyncio.wait_for(take(consumer, 16), 60) == [f"m{number}" for number in range(16)]
        assert asked(system)[:3] == [16, 8, 4]


async def test_one_message_above_the_limit_fails_the_consumer_with_the_limits_name() -> None:
    async with official_system() as system:
        system.store("orders", "g", *(large(number, 100_000) for number in range(4)))
        consumer = consumer_of(system, Limits(pull_messages=4, answer_bytes=50_000))
        await consumer.start()
        with pytest.raises(ClientFailed, match="answer_bytes") as raised:
            await asyncio.wait_for(consumer.pull(1, timeout=600), 20)
        assert isinstance(raised.value.__cause__, ConsumeFailed)
        assert raised.value.__cause__.code == "client.message_too_large"
        with pytest.raises(ClientFailed):
            await consumer.close()
        assert asked(system) == [4, 2, 1]


async def test_a_pull_whose_answer_does_not_come_in_time_is_asked_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmq.client.fetcher.LONG_POLL_MS", 10)
    monkeypatch.setattr("qmq.client.fetcher.PULL_ALLOWANCE_SECONDS", 0.0)
    async with official_system() as system:
        async with consumer_of(system, Limits(pull_messages=8), timeouts=Timeouts(ack=0.2)) as _:
            await eventually_async(lambda: len(asked(system)) >= 5)
        assert asked(system)[:5] == [8, 4, 2, 1, 1]


# --- start -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["earliest", 5])
async def test_a_start_that_the_broker_cannot_place_fails_the_first_pull(start: object) -> None:
    async with official_system() as system:
        consumer = consumer_of(system, start=start)
        await consumer.start()
        with pytest.raises(ClientFailed, match="cannot set the start of a consumer group") as raised:
            await asyncio.wait_for(anext(aiter(consumer)), 20)  # type: ignore[arg-type]
        assert isinstance(raised.value.__cause__, ConsumeFailed)
        assert raised.value.__cause__.code == "client.start_unsupported"
        with pytest.raises(ClientFailed):
            await consumer.close()
        assert not asked(system), "a pull would have created the group at the end"


@pytest.mark.parametrize("start", ["latest", None])
async def test_the_end_needs_no_placing(start: object) -> None:
    async with official_system() as system, consumer_of(system, start=start) as consumer:
        await eventually_async(lambda: len(system.waiting) == 2)
        system.store("orders", "g", message(1))
        system.waiting = [item for item in system.waiting if not system._pull(*item)]
        assert await asyncio.wait_for(take(consumer, 1), 20) == ["m1"]


# --- closing ---------------------------------------------------------------------------------------------------------


async def test_close_publishes_unfinished_messages_to_the_retry_subject_before_it_acks_them() -> None:
    async with official_system() as system:
        system.store("orders", "g", *(message(number, tags=("a",)) for number in range(5)))
        system.store(RETRY_SUBJECT, "g", Message("orders", "m9", {**CREATED, "qmq_times": "3"}, (), 0, 1, 1))
        async with consumer_of(system) as consumer:
            deliveries = []
            while len(deliveries) < 6:
                deliveries += await asyncio.wait_for(consumer.pull(6, timeout=60), 20)
            for delivery in deliveries:
                if delivery.message_id in ("m0", "m3"):
                    await delivery.ack()
            await eventually_async(lambda: "ack orders 0-0" in system.events)
        returned = system.stored[RETRY_SUBJECT][1:]
        assert {(item.message_id, item.subject) for item in returned} == {
            (name, RETRY_SUBJECT) for name in ("m1", "m2", "m4", "m9")
        }
        assert {item.message_id: item.properties.get("qmq_times") for item in returned} == {
            "m1": None, "m2": None, "m4": None, "m9": "3",
        }  # fmt: skip
        assert {item.tags for item in returned if item.message_id != "m9"} == {("a",)}
        assert all("qmq_createTime" in item.properties for item in returned)
        events = system.events
        for ack, names in (("ack orders 1-4", ("m1", "m2", "m4")), (f"ack {RETRY_SUBJECT} 0-0", ("m9",))):
            assert all(events.index(f"send {RETRY_SUBJECT} {name}") < events.index(ack) for name in names)


async def test_close_reports_how_many_messages_could_not_be_returned_and_does_not_ack_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with official_system() as system:
        system.store("orders", "g", *(message(number) for number in range(3)))
        system.refused_subjects[RETRY_SUBJECT] = SendResult.BLOCK
        async with consumer_of(system) as consumer:
            await asyncio.wait_for(consumer.pull(1, timeout=60), 20)
            await eventually_async(lambda: len(consumer._ready.deliveries) == 2)
            caplog.set_level(logging.WARNING)
        assert "3 of 3 unfinished messages could not be returned to the retry subject" in caplog.text
        assert not [event for event in system.events if event.startswith("ack")]


async def test_at_most_once_returns_nothing() -> None:
    async with official_system() as system:
        system.store("orders", "g", *(message(number) for number in range(3)))
        async with consumer_of(system, at_most_once=True) as consumer:
            await asyncio.wait_for(consumer.pull(1, timeout=60), 20)
        assert not [event for event in system.events if event.startswith("send")]


async def test_a_broadcast_returns_nothing() -> None:
    async with official_system() as system:
        system.store("orders", "c@@1", *(message(number) for number in range(3)))
        async with Consumer(system.address, "orders", consumer_id="c@@1", broadcast=True, backoff=QUICK) as consumer:
            await asyncio.wait_for(consumer.pull(1, timeout=60), 20)
        assert not [event for event in system.events if event.startswith("send")]
