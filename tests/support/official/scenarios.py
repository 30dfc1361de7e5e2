"""What our client does with an official cluster. Each scenario runs twice: against a real cluster to record the exchange, and in
the tests against that recording. Its docstring is the recording's description."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from qmq import Consumer, DelayedReceipt, Delivery, Producer, Timeouts
from qmq.errors import ClientFailed, ConsumeFailed, QmqError, SendFailed
from qmq.net.timing import Backoff
from qmq.protocol.codes import Command, ResponseCode
from tests.support.official.scene import Scene

Scenario = Callable[[Scene], Awaitable[None]]

QUICK = Backoff(first=0.01, longest=0.1)
GROUP = "billing"
RECEIVE_SECONDS = 60.0
"""For the next message; a retry needs a few seconds on a real server."""
PLACES = 4
"""Where a consumer of a subject pulls: the subject and its retry subject, each from both broker groups."""
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Register a scenario under its name."""
    SCENARIOS[function.__name__] = function  # type: ignore[attr-defined]
    return function


def consumer_of(scene: Scene, subject: str, consumer_id: str = "recorded@@1", **options: object) -> Consumer:
    """A consumer with a stable ID."""
    return Consumer(scene.url, subject, GROUP, consumer_id=consumer_id, backoff=QUICK, **options)  # type: ignore[arg-type]


def producer_of(scene: Scene, **options: object) -> Producer:
    """A producer."""
    return Producer(scene.url, app="shop", backoff=QUICK, **options)  # type: ignore[arg-type]


async def receive(consumer: Consumer, count: int) -> list[Delivery]:
    """The next messages, by ID."""
    found: list[Delivery] = []
    while len(found) < count:
        pulled = await consumer.pull(count - len(found), timeout=RECEIVE_SECONDS)
        assert pulled, f"only {ids(found)} came, {count} were expected"
        found += pulled
    return sorted(found, key=lambda delivery: delivery.message_id)


async def receive_and_ack(consumer: Consumer, count: int) -> list[Delivery]:
    """The next messages, acknowledged when all have arrived."""
    found = await receive(consumer, count)
    for delivery in found:
        await delivery.ack()
    return found


def ids(deliveries: Sequence[Delivery]) -> list[str]:
    """Their message IDs."""
    return [delivery.message_id for delivery in deliveries]


# --- sending --------------------------------------------------------------------------------------------------------


@scenario
async def send_one(scene: Scene) -> None:
    """One message is sent; the broker answers with success and an empty body."""
    async with producer_of(scene) as producer:
        receipt = await producer.send("rec.send", {"order": "17"}, tags=("paid",), message_id="send-1")
    assert (receipt.message_id, receipt.subject, receipt.attempts) == ("send-1", "rec.send", 1)
    assert receipt.broker_group in ("g1", "g2")


@scenario
async def send_many(scene: Scene) -> None:
    """Thirty messages are sent at once, in batches."""
    async with producer_of(scene) as producer:
        sends = [producer.send("rec.many", f"text {n}", message_id=f"many-{n}") for n in range(30)]
        receipts = await asyncio.gather(*sends)
    assert [receipt.message_id for receipt in receipts] == [f"many-{n}" for n in range(30)]
    assert {receipt.attempts for receipt in receipts} == {1}


@scenario
async def demoted_master(scene: Scene) -> None:
    """The route's address of g1 leads to a slave, as after a switch of masters until the route is renewed: it rejects sends."""
    async with consumer_of(scene, "rec.demoted") as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            receipts = [await producer.send("rec.demoted", "text", message_id=f"demoted-{n}") for n in range(4)]
        assert {receipt.broker_group for receipt in receipts} == {"g2"}
        assert max(receipt.attempts for receipt in receipts) == 2
        assert ids(await receive_and_ack(consumer, 4)) == [f"demoted-{n}" for n in range(4)]
        await scene.acked("rec.demoted", GROUP, "recorded@@1", 4)


@scenario
async def read_only_group(scene: Scene) -> None:
    """Broker group g1 is marked read-only for the subject: all messages go to g2, consumers pull from both."""
    async with consumer_of(scene, "rec.readonly") as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            receipts = [await producer.send("rec.readonly", "text", message_id=f"readonly-{n}") for n in range(4)]
        assert {receipt.broker_group for receipt in receipts} == {"g2"}
        assert ids(await receive_and_ack(consumer, 4)) == [f"readonly-{n}" for n in range(4)]
        await scene.acked("rec.readonly", GROUP, "recorded@@1", 4)


@scenario
async def read_only_everywhere(scene: Scene) -> None:
    """Both broker groups are marked read-only for the subject: the send fails with the reason."""
    async with producer_of(scene, timeouts=Timeouts(delivery=1.0, route=1.0)) as producer:
        with pytest.raises(SendFailed) as raised:
            await producer.send("rec.closed", "text", message_id="closed-1")
    assert "rec.closed" in str(raised.value)


# --- consuming ------------------------------------------------------------------------------------------------------


@scenario
async def pull_and_ack(scene: Scene) -> None:
    """A consumer with a new group pulls three messages and acknowledges each."""
    async with consumer_of(scene, "rec.pull") as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            for number in range(3):
                await producer.send("rec.pull", {"number": number}, tags=("paid",), message_id=f"pull-{number}")
        found = await receive_and_ack(consumer, 3)
        assert ids(found) == ["pull-0", "pull-1", "pull-2"]
        assert [delivery.properties["number"] for delivery in found] == ["0", "1", "2"]
        assert {(delivery.attempt, delivery.tags) for delivery in found} == {(1, ("paid",))}
        await scene.acked("rec.pull", GROUP, "recorded@@1", 3)


@scenario
async def empty_long_poll(scene: Scene) -> None:
    """Pulls that find nothing are answered with NO_MESSAGE after their patience; a later one gets the message."""
    async with consumer_of(scene, "rec.empty") as consumer:
        await scene.pulls(PLACES)
        await scene.answers(Command.PULL_MESSAGE, ResponseCode.NO_MESSAGE, PLACES)
        assert await consumer.pull(1, timeout=0) == []
        async with producer_of(scene) as producer:
            await producer.send("rec.empty", "text", message_id="empty-1")
        (delivery,) = await receive_and_ack(consumer, 1)
        assert delivery.body == "text"
        await scene.acked("rec.empty", GROUP, "recorded@@1", 1)


@scenario
async def tag_filter(scene: Scene) -> None:
    """A consumer with tags gets only messages that have one of them."""
    async with consumer_of(scene, "rec.tags", tags=("red", "green")) as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            for number, tags in enumerate((("red",), ("blue",), ("blue", "green"), ())):
                await producer.send("rec.tags", "text", tags=tags, message_id=f"tags-{number}")
        assert ids(await receive_and_ack(consumer, 2)) == ["tags-0", "tags-2"]
        await scene.acked("rec.tags", GROUP, "recorded@@1", 2)


@scenario
async def broadcast(scene: Scene) -> None:
    """A broadcast consumer is a group of its own."""
    async with Consumer(
        scene.url, "rec.broadcast", consumer_id="recorded@@1", broadcast=True, backoff=QUICK
    ) as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            for number in range(3):
                await producer.send("rec.broadcast", "text", message_id=f"broadcast-{number}")
        assert ids(await receive_and_ack(consumer, 3)) == [f"broadcast-{number}" for number in range(3)]
        await scene.acked("rec.broadcast", "recorded@@1", "recorded@@1", 3)


@scenario
async def at_most_once(scene: Scene) -> None:
    """A consumer that delivers at most once acknowledges what it pulled before it hands it to the program."""
    async with consumer_of(scene, "rec.once", at_most_once=True) as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            for number in range(3):
                await producer.send("rec.once", "text", message_id=f"once-{number}")
        assert ids(await receive(consumer, 3)) == [f"once-{number}" for number in range(3)]
        await scene.acked("rec.once", GROUP, "recorded@@1", 3)


# --- retries --------------------------------------------------------------------------------------------------------


@scenario
async def retry(scene: Scene) -> None:
    """A message fails once; the client publishes it to the retry subject, and its second attempt comes from there."""
    retry_subject = f"%RETRY%rec.retry%{GROUP}"
    async with consumer_of(scene, "rec.retry") as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            await producer.send("rec.retry", {"order": "17"}, message_id="retry-1")
        (first,) = await receive(consumer, 1)
        await first.retry(cause="PaymentDeclined")
        (second,) = await receive_and_ack(consumer, 1)
        assert (second.message_id, second.attempt, second.retry_cause) == ("retry-1", 2, "PaymentDeclined")
        assert second.properties["order"] == "17"
        await scene.acked("rec.retry", GROUP, "recorded@@1", 1)
        await scene.acked(retry_subject, GROUP, "recorded@@1", 1)


@scenario
async def dead_letter(scene: Scene) -> None:
    """A message fails as often as it may and becomes a dead letter, which a consumer of the dead-letter subject gets."""
    subject, dead_subject = "rec.dead", f"%DEAD_RETRY%rec.dead%{GROUP}"
    async with consumer_of(scene, subject, attempts_max=1) as consumer, consumer_of(scene, dead_subject) as dead:
        await scene.pulls(PLACES + 2)
        async with producer_of(scene) as producer:
            await producer.send(subject, {"order": "17"}, message_id="dead-1")
        (first,) = await receive(consumer, 1)
        assert (first.message_id, first.attempt) == ("dead-1", 1)
        await first.retry(cause="PaymentDeclined")
        (letter,) = await receive_and_ack(dead, 1)
        assert (letter.message_id, letter.subject, letter.properties["order"]) == ("dead-1", dead_subject, "17")
        await scene.acked(subject, GROUP, "recorded@@1", 1)
        await scene.acked(dead_subject, GROUP, "recorded@@1", 1)


# --- own commands ---------------------------------------------------------------------------------------------------


@scenario
async def start_earliest(scene: Scene) -> None:
    """An official broker can't start a group at the beginning: the consumer fails, and creates no group at the end."""
    with pytest.raises(ClientFailed, match="cannot set the start of a consumer group") as raised:
        async with consumer_of(scene, "rec.earliest", start="earliest") as consumer:
            await asyncio.wait_for(anext(aiter(consumer)), RECEIVE_SECONDS)
    assert isinstance(raised.value.__cause__, ConsumeFailed)
    assert raised.value.__cause__.code == "client.start_unsupported"
    assert 1 <= len(scene.own_commands) <= 2


@scenario
async def start_latest(scene: Scene) -> None:
    """A new group starts at the end on any broker: the client asks each broker once, and pulls without an answer."""
    async with consumer_of(scene, "rec.latest", start="latest") as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            for number in range(2):
                await producer.send("rec.latest", "text", message_id=f"latest-{number}")
        assert ids(await receive_and_ack(consumer, 2)) == ["latest-0", "latest-1"]
        await scene.acked("rec.latest", GROUP, "recorded@@1", 2)
    assert sorted(node for node, _ in scene.own_commands) == ["g1", "g2"]


@scenario
async def close_with_unfinished(scene: Scene) -> None:
    """A consumer closes with unfinished messages: it publishes them to the retry subject, another one gets them as attempt 1."""
    retry_subject = f"%RETRY%rec.close%{GROUP}"
    async with consumer_of(scene, "rec.close") as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            for number in range(4):
                await producer.send("rec.close", "text", message_id=f"close-{number}")
        await receive(consumer, 4)
    assert sorted(node for node, _ in scene.own_commands) == ["g1", "g2"]
    await scene.acked("rec.close", GROUP, "recorded@@1", 4)
    async with consumer_of(scene, "rec.close", "recorded@@2") as consumer:
        found = await receive_and_ack(consumer, 4)
        assert ids(found) == [f"close-{number}" for number in range(4)]
        assert {delivery.attempt for delivery in found} == {1}
        await scene.acked(retry_subject, GROUP, "recorded@@2", 4)


@scenario
async def delayed(scene: Scene) -> None:
    """A delayed message is sent to a delay node and comes from a broker; it can't be cancelled there."""
    async with consumer_of(scene, "rec.delayed") as consumer:
        await scene.pulls(PLACES)
        async with producer_of(scene) as producer:
            receipt = await producer.send(
                "rec.delayed", {"order": "17"}, delay=timedelta(seconds=2), message_id="delayed-1"
            )
            assert isinstance(receipt, DelayedReceipt)
            assert receipt.broker_group == "d1"
            with pytest.raises(QmqError, match="delay-groups"):
                await receipt.cancel()
        (delivery,) = await receive_and_ack(consumer, 1)
        assert (delivery.message_id, delivery.properties["order"]) == ("delayed-1", "17")
        await scene.acked("rec.delayed", GROUP, "recorded@@1", 1)
    assert [code for node, code in scene.own_commands if node == "d1"] == [Command.DELAY_CLOCK], "and no further one"
