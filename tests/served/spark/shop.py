"""A small system with traffic whose every message is known."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from qmq import Consumer, Producer
from tests.support.servers.system import System

ORDERS = 900
BATCH = 100
PAYMENTS = 60
FAILED = 4
"""Payments that are sent back once, of which `DEAD` a second time."""
DEAD = 3
NOTE = "ä note " * 3000
"""Too large for one property: it lies in pieces in the first payment."""
TAKEN = 700
"""Orders that group `billing` takes and acks."""


@dataclass
class Shop:
    """What was done: ids of messages by subject."""

    system: System
    began_at: datetime
    ended_at: datetime
    sent: dict[str, list[str]] = field(default_factory=dict)
    acked: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    due: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def open(cls, system: System) -> "Shop":
        """Send, consume, fail, delay."""
        now = datetime.now(UTC)
        shop = cls(system, now, now)
        asyncio.run(shop._trade())
        shop.ended_at = datetime.now(UTC)
        return shop

    async def _trade(self) -> None:
        async with Producer(self.system.meta_url, app="shop") as producer:
            for subject, count in (("orders", ORDERS), ("payments", PAYMENTS)):
                # One commit after the other, so that not all have one time.
                for first in range(0, count, BATCH):
                    note = NOTE if subject == "payments" and first == 0 else ""
                    await send(producer, subject, first, min(BATCH, count - first), note=note)
                self.sent[subject] = [f"{subject}-{n}" for n in range(count)]
            await send(producer, "watched", 0, 2)
            soon = datetime.now(UTC).replace(microsecond=123_000) + timedelta(days=2)
            for n in range(5):
                self.due[f"later-{n}"] = soon + timedelta(minutes=40 * n)
                await producer.send(
                    "reminders" if n % 2 else "orders", {"n": n}, due=self.due[f"later-{n}"], message_id=f"later-{n}"
                )
        self.acked = await take(self.system, "orders", "billing", TAKEN)
        await self._fail()

    async def _fail(self) -> None:
        url = self.system.meta_url
        async with Consumer(url, "payments", "checks", start="earliest", attempts_max=2, consumer_id="checker") as one:
            left, again = PAYMENTS, FAILED
            while left or again:
                for delivery in await one.pull(50, timeout=20):
                    number = int(delivery.message_id.removeprefix("payments-"))
                    if delivery.attempt == 1:
                        left -= 1
                        await (delivery.retry() if number < FAILED else delivery.ack())
                        continue
                    again -= 1
                    if number < DEAD:
                        self.dead.append(delivery.message_id)
                        await delivery.retry()
                    else:
                        await delivery.ack()


async def send(producer: Producer, subject: str, first: int, count: int, *, size: int = 0, note: str = "") -> None:
    """Messages that tell themselves apart, in turns to all broker groups; with `size` bytes of text, the first with a note."""
    sends = [
        producer.send_soon(
            subject,
            {"n": n, **({"note": note} if note and n == first else {}), **({"text": "x" * size} if size else {})},
            tags=["odd" if n % 2 else "even"],
            message_id=f"{subject}-{n}",
        )
        for n in range(first, first + count)
    ]
    for one in sends:
        await one


async def take(system: System, subject: str, group: str, count: int, consumer_id: str = "c1") -> list[str]:
    """Pull and ack messages from the beginning; their ids."""
    got: list[str] = []
    async with Consumer(system.meta_url, subject, group, start="earliest", consumer_id=consumer_id) as consumer:
        while len(got) < count:
            for delivery in await consumer.pull(count - len(got), timeout=20):
                await delivery.ack()
                got.append(delivery.message_id)
    return got
