"""The shop's producers: one of the client library's for each team."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from random import Random

from examples.shop.bodies import Bodies
from examples.shop.schedule import due_times
from examples.shop.shop import Shop, Subject
from qmq.client.delayed import DelayedMessages, DelayedReceipt
from qmq.client.producer import Producer
from qmq.errors import QmqError

HISTORY_MESSAGES = 3_000
"""Sent at the start, so that every page shows something."""
PENDING_MESSAGES = 4_000
"""Delayed messages that wait, at least, after the start."""
SOON_MESSAGES = 60
"""Of these, those due within `schedule.SOON`; each start sends as many."""
BATCH = 200
TICK_SECONDS = 0.1
REPORT_SECONDS = 1.0
CLOSE_SECONDS = 5.0
"""How long the end waits for messages that are on their way."""


class Senders:
    """Sends for the whole shop. Use it as `async with`.

    Args:
        counts: where `sent` and `failed` are counted.
        seed: the same seed makes the same messages.
    """

    def __init__(self, meta_url: str, shop: Shop, counts: Counter[str], *, seed: int) -> None:
        self._meta_url = meta_url
        self._shop = shop
        self._counts = counts
        self._random = Random(seed)
        self._bodies = Bodies(self._random)
        self._later = [subject for subject in shop.subjects if subject.kind == "reminder"]
        self._now = [subject for subject in shop.subjects if subject.weight]
        self._weights = [subject.weight for subject in self._now]
        self._producers: dict[str, Producer] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Senders":
        for team in self._shop.teams:
            producer = Producer(self._meta_url, app=f"{team}-service")
            await producer.start()
            self._stack.push_async_callback(producer.close, CLOSE_SECONDS)
            self._producers[team] = producer
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def send_history(self) -> None:
        """Send HISTORY_MESSAGES as fast as they are taken."""
        for _ in range(0, HISTORY_MESSAGES, BATCH):
            await self._send_some(BATCH)

    async def schedule(self, now: datetime) -> list[DelayedReceipt]:
        """Send delayed messages until PENDING_MESSAGES wait; those that were sent, by due time."""
        pending = 0
        async with DelayedMessages(self._meta_url) as messages:
            for subject in self._later:
                pending += sum((await messages.calendar(subject.name)).hours.values())
        count = max(PENDING_MESSAGES - pending, SOON_MESSAGES)
        receipts: list[DelayedReceipt] = []
        times = due_times(now, count, SOON_MESSAGES, self._random)
        for begin in range(0, count, BATCH):
            due = times[begin : begin + BATCH]
            sends = (self._send(self._random.choice(self._later), at) for at in due)
            receipts += [receipt for receipt in await asyncio.gather(*sends) if receipt is not None]
        return receipts

    async def send_for(self, rate: float, seconds: float | None, report: Callable[[], None]) -> None:
        """Send `rate` messages a second for so long (None: until it is cancelled); `report` is called each second."""
        loop = asyncio.get_running_loop()
        start = reported_at = loop.time()
        sent = 0
        while seconds is None or loop.time() - start < seconds:
            wanted = int((loop.time() - start) * rate)
            # What a standstill held up is left out: no flood afterwards.
            await self._send_some(min(wanted - sent, max(1, int(rate))))
            sent = wanted
            if loop.time() - reported_at >= REPORT_SECONDS:
                reported_at = loop.time()
                report()
            await asyncio.sleep(TICK_SECONDS)

    async def _send_some(self, count: int) -> None:
        chosen = self._random.choices(self._now, self._weights, k=count)
        await asyncio.gather(*(self._send(subject) for subject in chosen))

    async def _send(self, subject: Subject, due: datetime | None = None) -> DelayedReceipt | None:
        properties, tags = self._bodies.make(subject.kind)
        producer = self._producers[subject.settings["owner"]]
        try:
            receipt = await producer.send(subject.name, properties, delay=None, due=due, tags=tags)
        except QmqError:
            self._counts["failed"] += 1
            return None
        self._counts["sent"] += 1
        return receipt if isinstance(receipt, DelayedReceipt) else None
