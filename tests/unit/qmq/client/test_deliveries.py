"""Deliveries decode lazily what an eager decoder reads; batches and the prefetch count exactly."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.client.bodies import Json, body_bytes, body_text, encode_body, visible_properties
from qmq.client.config import Limits
from qmq.client.delivery import Batch, Delivery, Pulled
from qmq.client.prefetch import Prefetch
from qmq.errors import DeliveryAlreadySettled, ProtocolError, SendFailed
from qmq.protocol.messages import Message, encode_raw
from qmq.protocol.raw import split_raws

texts = st.text(st.characters(codec="utf-8"), max_size=9)
protocol_properties = st.fixed_dictionaries(
    {},
    optional={
        "qmq_times": st.sampled_from(["2", "x", ""]),
        "qmq_retryCause": texts,
        "qmq_createTime": st.sampled_from(["1600000000000", "never"]),
        "qmq_consumerGroupName": texts,
    },
)
bodies = st.one_of(
    texts,
    st.binary(max_size=20),
    st.dictionaries(st.sampled_from(["k", "data", "qmq_tim", "tries", "data#part1"]), texts, max_size=3),
    st.just(Json([1, {"a": None}])),
    st.just("ab" * 20_000),
)
messages = st.builds(
    lambda before, body, after, tags: Message(
        "orders", "m1", {**before, **encode_body(body), **after}, tuple(tags), 0, 17, 18
    ),
    protocol_properties,
    bodies,
    protocol_properties,
    st.lists(texts.filter(bool), max_size=3),
)


@dataclass
class FakeOwner:
    """A consumer that notes what is sent back."""

    group: str = "billing"
    delivered_subject: str | None = "orders"
    middleware: Any = None
    sent_back: list[tuple[str, str]] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    async def send_back(self, delivery: Delivery, cause: str) -> None:
        assert delivery.is_settled, "it can't be settled a second time meanwhile"
        if self.errors:
            raise self.errors.pop()
        self.sent_back.append((delivery.message_id, cause))


def deliveries_of(
    *raws: bytes, owner: FakeOwner | None = None, prefetch: Prefetch | None = None, first: int = 7
) -> list[Delivery]:
    """As a consumer makes them of an answer."""
    data = b"".join(raws)
    begins, properties_begins, ends = split_raws(data)
    prefetch = prefetch or Prefetch(Limits())
    pulled = Pulled(
        first,
        len(begins),
        [data[begin:end] for begin, end in zip(begins, ends, strict=True)],
        owner=owner or FakeOwner(),
        prefetch=prefetch,
        broker_group="g1",
        received_at_ms=1234,
        is_plain=b"qmq_content" not in data,
        on_settled=lambda: None,
    )
    prefetch.add(len(raws), len(data))
    return [
        Delivery(pulled, index, raw, properties_begins[index] - begins[index])
        for index, raw in enumerate(pulled.raws)
        if raw is not None
    ]


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [encode_raw(Message("orders", f"m{number}", {"k": "v"})) for number in range(first, first + count)]


@given(st.lists(messages, min_size=1, max_size=6))
def test_attributes_are_what_an_eager_decoder_reads(items: list[Message]) -> None:
    for index, (delivery, message) in enumerate(zip(deliveries_of(*map(encode_raw, items)), items, strict=True)):
        properties = message.properties
        assert delivery.message_id == "m1"
        assert (delivery.subject, delivery.group, delivery.broker_group) == ("orders", "billing", "g1")
        assert (delivery.pull_sequence, delivery.received_at_ms) == (7 + index, 1234)
        assert delivery.tags == message.tags
        assert delivery.body == body_text(properties)
        assert delivery.content == body_bytes(properties)
        assert delivery.properties == visible_properties(properties)
        assert delivery.attempt == (2 if properties.get("qmq_times") == "2" else 1)
        assert delivery.retry_cause == properties.get("qmq_retryCause", "")
        stamp = properties.get("qmq_createTime")
        milliseconds = 1_600_000_000_000 if stamp == "1600000000000" else 17
        assert delivery.created_at == datetime.fromtimestamp(milliseconds / 1000, UTC)
        assert replace(delivery.message, flag=0) == message
        assert not delivery.is_settled
        assert "m1" in repr(delivery)


def test_a_body_is_decoded_as_a_type() -> None:
    @dataclass
    class Order:
        number: int

    (delivery,) = deliveries_of(encode_raw(Message("orders", "m1", encode_body(Order(5)))))
    assert delivery.decode(Order) == Order(5)
    assert json.loads(delivery.decode(str)) == {"number": 5}


def test_the_subject_is_the_consumers_or_the_messages_own() -> None:
    raw = encode_raw(Message("%RETRY%orders%billing", "m1", {}))
    (delivery,) = deliveries_of(raw)
    assert (delivery.subject, delivery.message.subject) == ("orders", "orders")
    (delivery,) = deliveries_of(raw, owner=FakeOwner(delivered_subject=None))
    assert (delivery.subject, delivery.message.subject) == ("%RETRY%orders%billing",) * 2


def test_properties_that_are_damaged_raise_when_they_are_read() -> None:
    raw = bytearray(encode_raw(Message("orders", "m1", {"data": "text"})))
    raw[-5] += 1
    (delivery,) = deliveries_of(bytes(raw))
    assert delivery.message_id == "m1"
    for name in ("body", "content", "properties", "message"):
        with pytest.raises(ProtocolError):
            getattr(delivery, name)


async def test_a_delivery_is_settled_once_and_its_memory_is_released() -> None:
    owner, prefetch = FakeOwner(), Prefetch(Limits())
    first, second = deliveries_of(*numbered(2), owner=owner, prefetch=prefetch)
    pulled = first._pulled
    await first.ack()
    assert (first.is_settled, second.is_settled) == (True, False)
    assert (pulled.raws[0], pulled.open) == (None, 1)
    assert (prefetch.messages, prefetch.bytes) == (1, len(numbered(2)[1]))
    for again in (first.ack, first.retry):
        with pytest.raises(DeliveryAlreadySettled, match="m0"):
            await again()
    owner.errors.append(SendFailed("full"))
    with pytest.raises(SendFailed):
        await second.retry()
    assert not second.is_settled, "it is not stored, and can be settled again"
    await second.retry(cause=" Payment\ndeclined ")
    assert owner.sent_back == [("m1", "Payment declined")]
    assert (prefetch.messages, prefetch.bytes, pulled.open) == (0, 0, 0)
    assert first.message_id == "m0", "it can still be read"


async def test_a_block_settles_by_its_outcome() -> None:
    owner = FakeOwner()
    acked, failed, manual = deliveries_of(*numbered(3), owner=owner)
    async with acked:
        pass
    with pytest.raises(ZeroDivisionError):
        async with failed:
            raise ZeroDivisionError
    async with manual:
        await manual.retry(cause="Mine")
    assert acked.is_settled
    assert owner.sent_back == [("m1", "ZeroDivisionError"), ("m2", "Mine")]


# --- batches ---------------------------------------------------------------------------------------------------------


async def test_a_batch_is_a_sequence_that_is_acked_as_a_whole_across_answers() -> None:
    prefetch = Prefetch(Limits())
    first = deliveries_of(*numbered(4), prefetch=prefetch)
    second = deliveries_of(*numbered(3, first=4), prefetch=prefetch, first=100)
    batch = Batch([*first[1:], *second])
    assert [delivery.message_id for delivery in batch] == [f"m{number}" for number in range(1, 7)]
    assert (len(batch), batch[0], batch[-2:]) == (6, first[1], second[1:])
    await second[1].ack()
    await batch.ack()
    assert all(delivery.is_settled for delivery in batch)
    assert not first[0].is_settled
    assert (prefetch.messages, first[0]._pulled.open, second[0]._pulled.open) == (1, 1, 0)
    await batch.ack()
    await batch.retry()
    assert prefetch.messages == 1
    await first[0].ack()
    assert (prefetch.messages, prefetch.bytes) == (0, 0)


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.lists(st.integers(0, 19)), st.integers(0, 19))
def test_a_batch_acks_its_own_deliveries_only(chosen: list[bool], settled: list[int], split: int) -> None:
    async def main() -> None:
        prefetch = Prefetch(Limits())
        count = len(chosen)
        every = deliveries_of(*numbered(count), prefetch=prefetch)
        every += deliveries_of(*numbered(count), prefetch=prefetch, first=split)
        for index in settled:
            if index < count and not every[index].is_settled:
                await every[index].ack()
        before = {delivery for delivery in every if delivery.is_settled}
        mine = [delivery for index, delivery in enumerate(every) if chosen[index % count]]
        await Batch(mine).ack()
        assert {delivery for delivery in every if delivery.is_settled} == before | set(mine)
        assert prefetch.messages == sum(not delivery.is_settled for delivery in every)
        assert prefetch.bytes == sum(len(delivery._raw) for delivery in every if not delivery.is_settled)

    asyncio.run(main())


async def test_a_batch_retries_some_and_leaves_the_rest_open() -> None:
    owner = FakeOwner()
    batch = Batch(deliveries_of(*numbered(4), owner=owner))
    await batch[0].ack()
    await batch.retry([batch[0], batch[2]], cause="TooBusy")
    assert owner.sent_back == [("m2", "TooBusy")], "what is settled is skipped"
    assert [delivery.is_settled for delivery in batch] == [True, False, True, False]
    owner.errors.append(SendFailed("one is refused"))
    with pytest.raises(SendFailed, match="one is refused"):
        await batch.retry()
    assert [delivery.is_settled for delivery in batch].count(False) == 1
    await batch.retry()
    assert all(delivery.is_settled for delivery in batch)
    await batch.ack()


# --- prefetch --------------------------------------------------------------------------------------------------------


async def has_room(prefetch: Prefetch, ahead: int = 0) -> bool:
    room = asyncio.ensure_future(prefetch.room("orders", ahead))
    await asyncio.sleep(0)
    if room.done():
        return True
    room.cancel()
    return False


async def test_there_is_no_room_from_the_limit_of_messages_on_until_half_are_settled() -> None:
    prefetch = Prefetch(Limits(prefetch_messages=10))
    prefetch.add(9, 1)
    assert await prefetch.room("orders", 0) == 1
    prefetch.add(3, 1)
    assert not await has_room(prefetch)
    prefetch.remove(6, 1)
    assert not await has_room(prefetch)
    prefetch.remove(1, 1)
    assert await prefetch.room("orders", 0) == 5


async def test_there_is_no_room_while_the_bytes_are_at_their_limit() -> None:
    prefetch = Prefetch(Limits(prefetch_messages=10, prefetch_bytes=100))
    prefetch.add(1, 99)
    assert await has_room(prefetch)
    prefetch.add(1, 1)
    assert not await has_room(prefetch)
    prefetch.remove(1, 1)
    assert await prefetch.room("orders", 0) == 9


async def test_no_more_messages_than_a_pull_asks_for_are_queued_ahead_of_the_application() -> None:
    queued = [0] * 7
    prefetch = Prefetch(Limits(), queued)
    prefetch.add(7, 1)
    assert await has_room(prefetch, 7)
    room = asyncio.ensure_future(prefetch.room("orders", 5))
    await asyncio.sleep(0)

    async def is_over() -> bool:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return room.done()

    del queued[5:]
    assert not await is_over(), "nothing was settled yet"
    prefetch.remove(1, 0)
    assert await is_over()
    room = asyncio.ensure_future(prefetch.room("orders", 3))
    assert not await is_over()
    queued.clear()
    prefetch.wake()
    assert await is_over(), "the application waits"
    assert prefetch.is_awaited


async def test_a_quiet_source_has_room_as_soon_as_a_busy_one() -> None:
    queued = [0] * 500
    prefetch = Prefetch(Limits(), queued)
    quiet = asyncio.ensure_future(prefetch.room("quiet", 100))
    await asyncio.sleep(0)
    assert not quiet.done()
    assert await prefetch.room("busy", 800) > 0
    prefetch.add(1, 0)
    prefetch.remove(1, 0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert quiet.done()
