"""No message ends a consumer or comes back for ever, whatever its reserved properties contain."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from qmq import App, Consumer, Delivery, Producer
from qmq.client.middleware import Middleware
from qmq.errors import LocalProtocolError
from qmq.middleware.logs import LoggingMiddleware
from qmq.middleware.opentelemetry import OpenTelemetryMiddleware
from qmq.middleware.prometheus import PrometheusMiddleware
from qmq.net.timing import Backoff
from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.commands import SendFailure, decode_send_response
from qmq.protocol.messages import KEY_ATTEMPT, KEY_CREATED, KEY_MAX_RETRY, Message
from qmq.protocol.values import INT_MAX
from qmq.words import printable
from tests.support.drivers.in_process import SmallSystem, connected, message, running_broker, small_system, stored_in
from tests.support.load.nonsense import CREATED, VALUES, Nonsense, entry, nonsense
from tests.support.official.server import official_system
from tests.support.waiting import eventually_async

ATTEMPTS_MAX = 3
DEAD_SUBJECT = "%DEAD_RETRY%orders%g"
GOOD = [f"good{number}" for number in range(50)]
QUICK = Backoff(first=0.001, longest=0.01)
Handle = Callable[..., Awaitable[None]]


@dataclass
class Order:
    number: int


@pytest_asyncio.fixture
async def system(tmp_path: Path) -> AsyncIterator[SmallSystem]:
    async with small_system(tmp_path, with_delay=False) as running:
        yield running


async def send(system: SmallSystem, *entries: bytes) -> dict[str, SendFailure]:
    """Failures by message ID."""
    async with connected(system.brokers["g1"]) as client:
        frame = await client.raw(Command.SEND_MESSAGE, b"".join(entries))
    assert frame.code == ResponseCode.SUCCESS
    return decode_send_response(frame.body)


def among(bad: Iterable[Nonsense], good: dict[str, bytes]) -> list[bytes]:
    """The entries of both, the good ones between the others."""
    entries, count = [one.entry for one in bad], len(good)
    for place, one in enumerate(good.values()):
        entries.insert(place * (len(entries) // count), one)
    return entries


async def consume(url: str, handle: Handle, **options: Any) -> None:
    options = {"start": "earliest", "attempts_max": ATTEMPTS_MAX, "backoff": QUICK, **options}
    async with Consumer(url, "orders", "g", **options) as consumer:
        await consumer.run(handle, concurrency=4)


async def consume_with_app(url: str, handle: Handle, **options: Any) -> None:
    app = App(url)
    app.consumer("orders", group="g", start="earliest", attempts_max=ATTEMPTS_MAX, backoff=QUICK, **options)(handle)
    await app.run()


@pytest.mark.parametrize("run", [consume, consume_with_app])
async def test_nonsense_in_a_reserved_property_ends_with_the_handler_or_as_a_dead_letter(
    system: SmallSystem, run: Callable[..., Awaitable[None]]
) -> None:
    bad = nonsense("orders", (b"kind", b"bad"))
    good = {name: entry("orders", name.encode(), CREATED, (b"kind", b"good")) for name in GOOD}
    failures = await send(system, *among(bad, good))
    assert failures.keys() == {one.message_id for one in bad if not one.is_stored}
    expected = {one.message_id for one in bad if one.is_delivered} | set(GOOD)
    handled: set[str] = set()
    calls: Counter[str] = Counter()

    async def handle(delivery: Delivery) -> None:
        assert repr(delivery)
        assert 1 <= delivery.created_at.year <= 9999
        assert 0 <= delivery.attempt <= INT_MAX
        assert isinstance(delivery.retry_cause, str)
        assert (delivery.tags, delivery.body, delivery.content) == ((), None, None)
        assert delivery.message.message_id == delivery.message_id
        calls[delivery.message_id] += 1
        # A message may allow 2^31 - 1 attempts.
        if delivery.properties["kind"] == "bad" and calls[delivery.message_id] < 2 * ATTEMPTS_MAX:
            raise RuntimeError("bad")
        handled.add(delivery.message_id)

    middleware: tuple[Middleware, ...] = (LoggingMiddleware(), OpenTelemetryMiddleware(), PrometheusMiddleware())
    consumer = asyncio.ensure_future(run(system.meta_url, handle, middleware=middleware))

    def ended() -> set[str]:
        assert not consumer.done(), "the consumer ended"
        return {one.message_id for one in system.stored(DEAD_SUBJECT)} | handled

    await eventually_async(lambda: ended() >= expected, what="each message is handled or a dead letter")
    assert ended() == expected
    assert max(calls.values()) <= 2 * ATTEMPTS_MAX
    consumer.cancel()


async def test_bodies_that_do_not_fit_become_dead_letters_whatever_else_is_in_the_message(system: SmallSystem) -> None:
    bad = [
        one
        for one in nonsense("orders", (b"data", b"no JSON"))
        if one.is_delivered and one.key != KEY_CREATED and (one.key, one.value) != (KEY_MAX_RETRY, b"2147483647")
    ]
    good = {name: entry("orders", name.encode(), CREATED, (b"data", b'{"number": 1}')) for name in GOOD}
    assert not await send(system, *among(bad, good))
    handled: set[str] = set()

    async def handle(order: Order, delivery: Delivery) -> None:
        handled.add(delivery.message_id)

    consumer = asyncio.ensure_future(consume(system.meta_url, handle))
    expected = {one.message_id for one in bad}

    def dead() -> set[str]:
        assert not consumer.done(), "the consumer ended"
        return {one.message_id for one in system.stored(DEAD_SUBJECT)}

    await eventually_async(lambda: dead() >= expected, what="each is a dead letter")
    await eventually_async(lambda: handled == set(GOOD), what="good messages are handled")
    assert dead() == expected
    consumer.cancel()
    found = {one.message_id: one.properties for one in system.stored(DEAD_SUBJECT)}
    assert found["bad-qmq_env-longest"]["qmq_env"] == "x" * 32767
    assert found["bad-qmq_env-half a pair"]["qmq_env"] == "\ufffd" * 3
    assert {one[KEY_ATTEMPT] for one in found.values()} == {str(ATTEMPTS_MAX + 1), "2", str(INT_MAX)}


@pytest.mark.parametrize("what", VALUES)
async def test_create_times_that_brokers_of_others_store_stop_no_consumer(what: str) -> None:
    text = VALUES[what].decode("utf-8", "replace")[:10_000]
    bad = Message("orders", "bad", {KEY_CREATED: text}, (), 0, 2**63 - 1, -(2**63))
    seen: list[tuple[str, int]] = []

    async def handle(delivery: Delivery) -> None:
        seen.append((delivery.message_id, delivery.created_at.year))

    async with official_system() as official:
        official.store("orders", "g", message(1), bad, message(2))
        consumer = asyncio.ensure_future(consume(official.address, handle, start=None, consumer_id="c@@1"))
        await eventually_async(lambda: "ack orders 0-2" in official.events or len(seen) == 3)
        assert [name for name, _ in seen] == ["m1", "bad", "m2"]
        assert seen[1][1] in (1970, 9999, 2038, 2106)
        consumer.cancel()


async def test_an_error_while_a_message_is_settled_concerns_that_message_alone(
    system: SmallSystem, caplog: pytest.LogCaptureFixture
) -> None:
    await send(system, *(entry("orders", name.encode(), CREATED) for name in GOOD))
    async with connected(system.brokers["g1"]) as client:
        await client.send(Message("orders", "bad", {KEY_CREATED: "1"}))
    handled: set[str] = set()

    async def handle(delivery: Delivery) -> None:
        if delivery.message_id == "bad":
            raise RuntimeError
        handled.add(delivery.message_id)

    def fail(*_: object) -> bytes:
        raise ArithmeticError("a fault of the client")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qmq.client.workers.next_entry", fail)
        consumer = asyncio.ensure_future(consume(system.meta_url, handle))
        await eventually_async(lambda: handled == set(GOOD) or consumer.done())
        assert not consumer.done()
        await eventually_async(lambda: "message bad could not be settled, it comes again" in caplog.text)
        consumer.cancel()
        await asyncio.wait([consumer])
    consumer = asyncio.ensure_future(consume(system.meta_url, handle))
    await eventually_async(lambda: len(system.stored(DEAD_SUBJECT)) == 1, what="it came again")
    consumer.cancel()


async def test_an_id_can_not_forge_lines_of_a_consumers_log(
    system: SmallSystem, caplog: pytest.LogCaptureFixture
) -> None:
    message_id = "m1\n2026-11-28 ERROR root forged\x1b]0;title\x07\u202e"
    failures = await send(system, entry("orders", message_id.encode(), CREATED))
    assert "control and bidirectional characters are not allowed" in failures[message_id].remark
    with pytest.raises(LocalProtocolError, match="control and bidirectional characters are not allowed"):
        async with Producer(system.meta_url) as producer:
            await producer.send("orders", "text", message_id=message_id)
    # Stored before brokers checked IDs, or by another server.
    assert not await send(system, entry("%RETRY%orders%g", message_id.encode(), CREATED))

    async def handle(delivery: Delivery) -> None:
        assert delivery.message_id == message_id
        raise RuntimeError

    caplog.set_level(logging.INFO)
    consumer = asyncio.ensure_future(consume(system.meta_url, handle, middleware=[LoggingMiddleware()]))
    await eventually_async(lambda: len(system.stored(DEAD_SUBJECT)) == 1, what="it is a dead letter")
    consumer.cancel()
    texts = [record.getMessage() for record in caplog.records if "forged" in record.getMessage()]
    assert {record.name for record in caplog.records if "forged" in record.getMessage()} == {
        "qmq.client",
        "qmq.messages",
    }
    assert all(
        text.isprintable() and r"m1\x0a2026-11-28 ERROR root forged\x1b]0;title\x07\u202e" in text for text in texts
    )
    assert {record.message_id for record in caplog.records if record.name == "qmq.messages"} == {printable(message_id)}


async def test_a_message_of_the_largest_size_can_be_retried(tmp_path: Path) -> None:
    async with running_broker(tmp_path, message_bytes_max=1000) as broker, connected(broker) as client:
        plain = entry("orders", b"m1", CREATED, (b"data", b""))
        largest = entry("orders", b"m1", CREATED, (b"data", b"x" * (1000 - len(plain))))
        for subject, is_accepted in (("orders", True), ("orders-and-more", False), (DEAD_SUBJECT, True)):
            own = (
                largest
                if subject == "orders"
                else entry(subject, b"m1", CREATED, (b"data", b"x" * (1000 - len(plain))))
            )
            frame = await client.raw(Command.SEND_MESSAGE, own)
            failures = decode_send_response(frame.body)
            assert (not failures) is is_accepted, (subject, failures)
            assert all(failure.result == SendResult.BLOCK for failure in failures.values())
        assert len(stored_in([broker], DEAD_SUBJECT)) == 1
