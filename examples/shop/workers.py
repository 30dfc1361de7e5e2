"""The shop's consumers: each consumer group works at its pace."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from examples.shop.shop import Group, Pace, Shop, Subject
from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.consumer import ATTEMPTS_MAX, Consumer
from qmq.client.delivery import Delivery
from qmq.errors import QmqError


class Failed(Exception):
    """A consumer of the shop can't process a message."""


class UnknownCurrency(Failed):
    """The amount has a currency that the card network does not know."""


class AddressMissing(Failed):
    """The customer has no address."""


class NegativeAmount(Failed):
    """The amount is below zero."""


class AmountNotANumber(Failed):
    """The amount is a text."""


class OrderEmpty(Failed):
    """The order has no items."""


SLOW_SHARE = 0.5
"""How much of what arrives a slow group takes."""
INCIDENT_SHARE = 0.25
"""The same of a varying group during an incident."""
RECOVERY_SHARE = 2.5
"""The same before and after it."""
STOPPED_AFTER = 20
"""Messages that a group handles before it leaves for good."""
UNSTEADY_SHARE = 0.1
"""How many first attempts an unsteady group fails."""
FAULTY_ATTEMPTS_MAX = 2
ERRORS: Mapping[str, type[Failed]] = {
    "unknown currency": UnknownCurrency,
    "no address": AddressMissing,
    "negative amount": NegativeAmount,
    "amount is a text": AmountNotANumber,
    "empty items": OrderEmpty,
}
"""What a faulty group raises for each fault of `bodies.FAULTS`; the class becomes the cause of the dead letter."""
STEP_LIMITS = Limits(prefetch_messages=10, pull_messages=5)
"""Of groups that are slow, vary or stop: what they do not handle stays with the brokers."""


@dataclass(frozen=True, slots=True)
class Incident:
    """When varying groups process less than arrives."""

    after_seconds: float
    """After the traffic began."""
    seconds: float


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
        self._varying_share: float | None = None
        """Of what arrives; None: as much as they can."""
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

    def plan(self, incident: Incident) -> None:
        """Let varying groups have an incident, counted from now."""
        loop = asyncio.get_running_loop()
        ends = incident.after_seconds + incident.seconds
        for after, share in ((0.0, RECOVERY_SHARE), (incident.after_seconds, INCIDENT_SHARE), (ends, RECOVERY_SHARE)):
            loop.call_later(after, self._vary, share)

    def _vary(self, share: float) -> None:
        self._varying_share = share

    async def _work(self, subject: Subject, group: Group, number: int) -> None:
        is_stepwise = group.pace in (Pace.SLOW, Pace.VARYING, Pace.STOPPED)
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
        process = _handler(group.pace, random)
        async with consumer:
            async for delivery in consumer:
                await self._handle(delivery, process, self._processing_seconds(subject, group))
                handled += 1
                if group.pace is Pace.SLOW:
                    await asyncio.sleep(self._seconds_at(SLOW_SHARE, subject, group))
                else:
                    self._counts["at_pace"] += 1
                if group.pace is Pace.STOPPED and handled == STOPPED_AFTER:
                    return

    async def _handle(self, delivery: Delivery, process: Callable[[Delivery], None], seconds: float) -> None:
        self._counts["received"] += 1
        # A message that can't be sent back stays with this consumer, and comes again when it leaves.
        with contextlib.suppress(Failed, TimeoutError, QmqError):
            async with delivery:
                try:
                    await asyncio.sleep(seconds)
                    process(delivery)
                except (Failed, TimeoutError):
                    self._counts["retried"] += 1
                    raise

    def _processing_seconds(self, subject: Subject, group: Group) -> float:
        share = self._varying_share
        return 0.0 if group.pace is not Pace.VARYING or share is None else self._seconds_at(share, subject, group)

    def _seconds_at(self, share: float, subject: Subject, group: Group) -> float:
        """How long each member takes for a message if the group takes this share of what arrives."""
        arrive_per_second = self._rate * subject.weight / self._weights
        return group.members / (share * arrive_per_second)


def _handler(pace: Pace, random: Random) -> Callable[[Delivery], None]:
    """What a group of this pace does with a delivery; it raises where the group fails."""
    if pace is Pace.FAULTY:
        return _check
    if pace is Pace.UNSTEADY:
        return lambda delivery: _time_out(delivery, random)
    return lambda delivery: None


def _check(delivery: Delivery) -> None:
    fault = delivery.properties.get("fault")
    if fault is not None:
        raise ERRORS[fault](f"message {delivery.message_id}: {fault}")


def _time_out(delivery: Delivery, random: Random) -> None:
    if delivery.attempt == 1 and random.random() < UNSTEADY_SHARE:
        raise TimeoutError
