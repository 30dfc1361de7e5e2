"""Load with a history: what was acknowledged to producers, and what consumers received, message by message."""

import asyncio
import functools
from collections import Counter
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Literal

from qmq.client.consumer import Consumer
from qmq.client.producer import Producer
from qmq.errors import QmqError
from tests.support.promises import PromiseBroken
from tests.support.servers.system import System
from tests.support.waiting import eventually, eventually_async


class Traffic:
    """Producers and consumer groups on some subjects, until they are stopped. Use it as `async with`.

    Args:
        groups: consumer groups on each subject; every one gets every message.
        per_second: messages sent to each subject a second.
    """

    def __init__(
        self,
        meta_url: str,
        subjects: list[str],
        groups: tuple[str, ...] = ("billing",),
        *,
        per_second: float = 10.0,
        ack: bool = True,
        start: Literal["earliest"] | None = None,
    ) -> None:
        self._meta_url = meta_url
        self.subjects = subjects
        self.groups = groups
        self._pause = 1 / per_second
        self._ack = ack
        self._start = start
        self.acked: dict[str, set[str]] = {subject: set() for subject in subjects}
        self.unknown: dict[str, set[str]] = {subject: set() for subject in subjects}
        """Sends that failed: they may be stored or not."""
        self.received: dict[tuple[str, str], Counter[str]] = {
            (subject, group): Counter() for subject in subjects for group in groups
        }
        self.errors: list[str] = []
        self._stack = AsyncExitStack()
        self._sending: list[asyncio.Task[None]] = []
        self._receiving: list[asyncio.Task[None]] = []
        self._is_sending = True

    async def __aenter__(self) -> "Traffic":
        self._producer = await self._stack.enter_async_context(Producer(self._meta_url, app="traffic"))
        for subject in self.subjects:
            for group in self.groups:
                consumer = Consumer(
                    self._meta_url, subject, group, app="traffic", consumer_id=f"{group}-{subject}", start=self._start
                )
                await self._stack.enter_async_context(consumer)
                self._receiving.append(asyncio.create_task(self._receive(consumer, subject, group)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in (*self._sending, *self._receiving):
            task.cancel()
        await asyncio.gather(*self._sending, *self._receiving, return_exceptions=True)
        await self._stack.aclose()

    async def begin_sending(self, system: System) -> None:
        """Send from now on, once every group has its place on every broker: a new group starts at the end."""
        wanted = {(subject, group) for subject in self.subjects for group in self.groups}

        def begun(name: str) -> bool:
            found = system.admin(name, "/stats")["subjects"]
            return wanted <= {(item["subject"], group["group"]) for item in found for group in item["groups"]}

        for name in system.brokers:
            await asyncio.to_thread(
                eventually, functools.partial(begun, name), what=f"every group begins on {name}", every_s=0.1
            )
        self._sending = [asyncio.create_task(self._send(subject)) for subject in self.subjects]

    async def end_sending(self) -> None:
        """Send no more; what is under way is waited for."""
        self._is_sending = False
        await asyncio.gather(*self._sending)

    async def _send(self, subject: str) -> None:
        number = 0
        while self._is_sending:
            value = f"{subject}-{number}"
            number += 1
            try:
                await self._producer.send(subject, {"value": value})
                self.acked[subject].add(value)
            except QmqError as error:
                self.unknown[subject].add(value)
                self.errors.append(f"{subject}: {error}")
            await asyncio.sleep(self._pause)

    async def _receive(self, consumer: Consumer, subject: str, group: str) -> None:
        async for delivery in consumer:
            self.received[subject, group][str(delivery.properties["value"])] += 1
            if self._ack:
                await delivery.ack()

    @property
    def sent(self) -> int:
        """Messages acknowledged so far."""
        return sum(map(len, self.acked.values()))

    def missing(self) -> dict[tuple[str, str], set[str]]:
        """Acknowledged and not received, by subject and group."""
        found = {
            (subject, group): self.acked[subject] - set(counts) for (subject, group), counts in self.received.items()
        }
        return {key: values for key, values in found.items() if values}

    async def check_received(self) -> None:
        """Wait until every acknowledged message was received.

        Raises:
            PromiseBroken: Some were not, or messages were received that were never sent.
        """
        try:
            await eventually_async(lambda: not self.missing())
        except AssertionError as error:
            missing = {key: sorted(values) for key, values in self.missing().items()}
            raise PromiseBroken(f"acknowledged and never received: {missing}") from error
        if phantoms := self.phantoms():
            raise PromiseBroken(f"received and never sent: {phantoms}")

    def check_received_once(self) -> None:
        """Check that no message was received twice.

        Raises:
            PromiseBroken: Some were.
        """
        if doubled := self.doubled():
            raise PromiseBroken(f"received more than once: {doubled}")

    def doubled(self) -> dict[tuple[str, str], list[str]]:
        """Received more than once."""
        found = {key: [value for value, count in counts.items() if count > 1] for key, counts in self.received.items()}
        return {key: values for key, values in found.items() if values}

    def phantoms(self) -> dict[tuple[str, str], set[str]]:
        """Received and never sent."""
        found = {
            (subject, group): set(counts) - self.acked[subject] - self.unknown[subject]
            for (subject, group), counts in self.received.items()
        }
        return {key: values for key, values in found.items() if values}
