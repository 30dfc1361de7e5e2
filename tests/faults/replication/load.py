"""Load on replicated broker groups: sends at a constant rate, and consumers whose deliveries are checked one by one."""

import asyncio
import math
import time
from array import array
from bisect import bisect_left
from collections import defaultdict
from types import TracebackType

from qmq import Consumer, Limits, Producer
from qmq.client.outgoing import Outcome
from qmq.receipt import Receipt
from tests.support.promises import PromiseBroken
from tests.support.waiting import eventually_async

ORDERS = "orders"
STOCK = "stock"
TICK_SECONDS = 0.01
BATCH = 500
LIMITS = Limits(queue_messages=1_000_000)
"""The rate stays constant while sends wait for a failover."""
STOCK_PER_SECOND = 100
STOCK_LIMITS = Limits(prefetch_messages=20, pull_messages=10)
"""So that a pull is sent at least every 0.2 s."""
FLOW = 100


class Sends:
    """What became of each message, by its number."""

    def __init__(self) -> None:
        self.begun_at = array("d")
        """Monotonic seconds."""
        self.acked_at = array("d")
        """0.0: not acknowledged."""
        self.groups: list[str] = []
        """The broker group that acknowledged it; "": none."""
        self.newest: dict[str, float] = {}
        """By broker group: when the newest send began that it has acknowledged."""
        self.acked = 0
        self.errors: list[str] = []

    def begin(self) -> int:
        """Return the number of the next message."""
        self.begun_at.append(time.monotonic())
        self.acked_at.append(0.0)
        self.groups.append("")
        return len(self.groups) - 1

    def end(self, number: int, outcome: Outcome) -> None:
        """Store the outcome of a send."""
        if isinstance(outcome, Receipt):
            self.acked_at[number] = time.monotonic()
            self.groups[number] = group = outcome.broker_group
            self.newest[group] = max(self.newest.get(group, 0.0), self.begun_at[number])
            self.acked += 1
        else:
            self.errors.append(f"message {number}: {outcome}")

    def seconds(self, since: float, until: float = math.inf) -> list[float]:
        """Return how long the sends that began in a time took, sorted; a send without an answer counts until now."""
        now = time.monotonic()
        begin, end = bisect_left(self.begun_at, since), bisect_left(self.begun_at, until)
        return sorted((self.acked_at[number] or now) - self.begun_at[number] for number in range(begin, end))


class Received:
    """The deliveries to one consumer.

    Raises:
        PromiseBroken: A pull sequence identifies two messages, or it is delivered after its acknowledgement.
    """

    def __init__(self, *, is_acked: bool) -> None:
        self._is_acked = is_acked
        """Whether the broker has confirmed the acknowledgement of each delivery: none may be repeated."""
        self._by_sequence: dict[str, array[int]] = defaultdict(lambda: array("q"))
        self.counts = bytearray()
        self.total = 0
        self.newest_ms = 0
        """When the newest delivery arrived at the client, in milliseconds since the epoch."""

    def add(self, broker_group: str, sequence: int, number: int, at_ms: int) -> bool:
        """Check and store one delivery; whether it is the first one of this pull sequence."""
        known = self._by_sequence[broker_group]
        known.extend([-1] * (sequence + 1 - len(known)))
        if known[sequence] not in (-1, number):
            raise PromiseBroken(
                f"{broker_group}: pull sequence {sequence} is of messages {known[sequence]} and {number}"
            )
        if self._is_acked and known[sequence] >= 0:
            raise PromiseBroken(f"{broker_group}: pull sequence {sequence} was acknowledged and is delivered again")
        is_first, known[sequence] = known[sequence] < 0, number
        self.counts.extend(bytes(max(0, number + 1 - len(self.counts))))
        self.counts[number] = min(255, self.counts[number] + 1)
        self.total += 1
        self.newest_ms = at_ms
        return is_first

    def missing(self, sends: Sends) -> list[int]:
        """Return the messages that were acknowledged to their producer and not received."""
        counts = self.counts + bytes(max(0, len(sends.groups) - len(self.counts)))
        return [number for number, group in enumerate(sends.groups) if group and not counts[number]]


class Load:
    """A producer that sends a constant number of messages a second, whatever becomes of them; a consumer of these; and a consumer
    of STOCK that receives each message after the broker has confirmed its acknowledgement. Use it as `async with`.

    Leaving the block without an exception waits until everything that was acknowledged is received, else raises PromiseBroken.

    Args:
        subject: of the messages; no other load may have used it.
    """

    def __init__(self, meta_url: str, per_second: int, subject: str = ORDERS) -> None:
        self._meta_url = meta_url
        self._per_second = per_second
        self.subject = subject
        self.sends = Sends()
        self.orders = Received(is_acked=False)
        self.stock = Received(is_acked=True)
        self._is_ending = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Load":
        self._tasks = [
            asyncio.create_task(client, name=name)
            for name, client in (("send", self._send()), ("orders", self._receive()), ("stock", self._read_stock()))
        ]
        await self.flows()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self._finish()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def check(self) -> None:
        """Raise the error of a client that failed."""
        for task in self._tasks:
            if task.done() and (task.get_name() != "send" or task.exception() is not None):
                task.result()
                raise AssertionError(f"the client {task.get_name()!r} ended")

    async def flows(self, count: int = FLOW) -> None:
        """Wait until so many further messages are acknowledged and received."""
        acked, received = self.sends.acked + count, self.orders.total + count

        def flow() -> bool:
            self.check()
            return self.sends.acked >= acked and self.orders.total >= received

        await eventually_async(flow, what="messages are sent and received")

    async def until(self, moment: float) -> None:
        """Wait until a moment (monotonic seconds), and check the clients meanwhile."""

        def has_come() -> bool:
            self.check()
            return time.monotonic() >= moment

        await eventually_async(has_come)

    async def _finish(self) -> None:
        """End sending, and wait until everything that was acknowledged is received."""
        self._is_ending = True

        def is_sent() -> bool:
            self.check()
            return self._tasks[0].done()

        await eventually_async(is_sent, what="every send is answered")
        sends = self.sends
        rate = len(sends.groups) / (sends.begun_at[-1] - sends.begun_at[0])
        print(f"figure: {sends.acked} of {len(sends.groups)} sends acknowledged, {rate:.0f} sends a second")

        def is_received() -> bool:
            self.check()
            return self.orders.total >= self.sends.acked and not self.orders.missing(self.sends)

        try:
            await eventually_async(is_received)
        except AssertionError as error:
            missing = self.orders.missing(self.sends)
            raise PromiseBroken(f"{len(missing)} acknowledged messages were not received: {missing[:5]}") from error

    # --- clients ------------------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        sends = self.sends
        began = time.monotonic()
        async with Producer(self._meta_url, app="load", limits=LIMITS) as producer:
            while not self._is_ending:
                for _ in range(int((time.monotonic() - began) * self._per_second) - len(sends.groups)):
                    number = sends.begin()

                    def ended(outcome: Outcome, number: int = number) -> None:
                        sends.end(number, outcome)

                    producer.send_soon(self.subject, str(number), callback=ended)
                await asyncio.sleep(TICK_SECONDS)

    async def _receive(self) -> None:
        async with Consumer(self._meta_url, self.subject, "billing", start="earliest") as consumer:
            async for batch in consumer.batches(BATCH, TICK_SECONDS):
                for delivery in batch:
                    self.orders.add(
                        delivery.broker_group, delivery.pull_sequence, int(delivery.body or ""), delivery.received_at_ms
                    )
                await batch.ack()

    async def _read_stock(self) -> None:
        async with Consumer(
            self._meta_url, STOCK, "readers", start="earliest", at_most_once=True, limits=STOCK_LIMITS
        ) as consumer:
            async for delivery in consumer:
                self.stock.add(
                    delivery.broker_group, delivery.pull_sequence, int(delivery.body or ""), delivery.received_at_ms
                )
                await delivery.ack()
                await asyncio.sleep(1 / STOCK_PER_SECOND)


async def store_stock(meta_url: str, count: int) -> None:
    """Send so many messages to STOCK."""
    async with Producer(meta_url, app="stock") as producer:
        await producer.send_many(STOCK, map(str, range(count)))
