"""The shop's consumers: each consumer group works at its pace."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from random import Random

from examples.shop.shop import Group, Pace, Shop, Subject
from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.consumer import ATTEMPTS_MAX, Consumer
from qmq.client.delivery import Delivery
from qmq.errors import QmqError

SLOW_SHARE = 0.5
"""How much of what arrives a slow group takes."""
STOPPED_AFTER = 20
"""Messages that a group handles before it leaves for good."""
UNSTEADY_SHARE = 0.1
"""How many first attempts an unsteady group fails."""
FAULTY_ATTEMPTS_MAX = 2
STEP_LIMITS = Limits(prefetch_messages=10, pull_messages=5)
"""Of groups that are slow or stop: what they do not handle stays with the brokers."""


class Workers:
    """All members of all consumer groups. Use it as `async with`: they work from its beginning to its end.

    Args:
        counts: where `received` and `retried` are counted, and `at_pace`: received by groups that are not slow.
        rate: messages a second that are sent; what a slow group takes follows from it.
    """

    def __init__(self, meta_url: str, shop: Shop, counts: Counter[str], *, rate: float, seed: int) -> None:
        self._meta_url = meta_url
        self._shop = shop
        self._counts = counts
        self._rate = rate
        self._seed = seed
        self._weights = sum(subject.weight for subject in shop.subjects)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Workers":
        for subject, group in self._shop.groups():
            for number in range(1, group.members + 1):
                self._tasks.append(asyncio.create_task(self._work(subject, group, number)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for found in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found

    async def _work(self, subject: Subject, group: Group, number: int) -> None:
        is_stepwise = group.pace in (Pace.SLOW, Pace.STOPPED)
        consumer = Consumer(
            self._meta_url, subject.name, group.name,
            app=f"{group.name}-service",
            consumer_id=f"{group.name}-{number}",
            start="earliest",
            attempts_max=FAULTY_ATTEMPTS_MAX if group.pace is Pace.FAULTY else ATTEMPTS_MAX,
            limits=STEP_LIMITS if is_stepwise else DEFAULT_LIMITS,
        )  # fmt: skip
        handled = 0
        random = Random(f"{self._seed}/{subject.name}/{group.name}/{number}")
        fails = _failing(group.pace, random)
        async with consumer:
            async for delivery in consumer:
                await self._handle(delivery, fails)
                handled += 1
                if group.pace is Pace.SLOW:
                    await asyncio.sleep(self._slow_seconds(subject, group))
                else:
                    self._counts["at_pace"] += 1
                if group.pace is Pace.STOPPED and handled == STOPPED_AFTER:
                    return

    async def _handle(self, delivery: Delivery, fails: Callable[[Delivery], bool]) -> None:
        self._counts["received"] += 1
        if not fails(delivery):
            await delivery.ack()
            return
        self._counts["retried"] += 1
        # One that can't be sent back stays with this consumer, and comes again when it leaves.
        with contextlib.suppress(QmqError):
            await delivery.retry()

    def _slow_seconds(self, subject: Subject, group: Group) -> float:
        arrive_per_second = self._rate * subject.weight / self._weights
        return group.members / (SLOW_SHARE * arrive_per_second)


def _failing(pace: Pace, random: Random) -> Callable[[Delivery], bool]:
    """Which deliveries a group of this pace fails."""
    if pace is Pace.FAULTY:
        return lambda delivery: "fault" in delivery.properties
    if pace is Pace.UNSTEADY:
        return lambda delivery: delivery.attempt == 1 and random.random() < UNSTEADY_SHARE
    return lambda delivery: False
