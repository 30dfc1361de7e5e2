"""Load of the official Java client: sends at a constant rate, and a listener."""

import asyncio
import time
from pathlib import Path
from types import TracebackType

from tests.served.conformance.driver import NEWEST, JavaClient, group_begun, listen
from tests.support.promises import PromiseBroken
from tests.support.servers.system import System
from tests.support.waiting import eventually_async

SUBJECT = "java"
TICK_SECONDS = 0.02
PER_TICK = 2


class JavaLoad:
    """A Java producer that sends PER_TICK messages each TICK_SECONDS, and a Java listener. Use it as `async with`.

    Leaving the block without an exception waits until every send is answered and everything that was acknowledged is received, else
    raises PromiseBroken.
    """

    def __init__(self, system: System, log: Path) -> None:
        self._client = JavaClient(NEWEST, system.meta_url, "java@@load", log)
        self._system = system
        self._is_ending = False
        self._pending: list[tuple[int, float]] = []
        """Batches without an answer to each message: number of the last message, and when it was sent."""
        self.slowest: list[tuple[float, float]] = []
        """(monotonic time, seconds until all messages of a batch were answered)."""
        self.requested = 0

    async def __aenter__(self) -> "JavaLoad":
        await asyncio.to_thread(listen, self._client, SUBJECT)
        await asyncio.to_thread(group_begun, self._system, SUBJECT, "g")
        self._sending = asyncio.create_task(self._send())
        await self.flows()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._is_ending = True
            if error is None:
                await self._finish()
        finally:
            self._sending.cancel()
            await asyncio.wait([self._sending])
            await asyncio.to_thread(self._client.stop)

    @property
    def answered(self) -> int:
        """Number of sends that are acknowledged or have failed."""
        return len(self._client.of("sent")) + len(self._client.of("failed"))

    @property
    def failed(self) -> int:
        """Number of sends that the client reported as failed."""
        return len(self._client.of("failed"))

    def seconds(self, since: float) -> float:
        """Return how long the slowest send since this moment took, in steps of TICK_SECONDS."""
        return max(seconds for at, seconds in self.slowest if at >= since)

    async def flows(self, count: int = 50) -> None:
        """Wait until so many further sends are answered."""
        answered = self.answered + count
        await eventually_async(lambda: self.answered >= answered, what="the Java client sends")

    async def _send(self) -> None:
        while not self._is_ending or self._pending:
            if not self._is_ending:
                self._client.do("send", subject=SUBJECT, count=PER_TICK)
                self.requested += PER_TICK
                self._pending.append((self.requested, time.monotonic()))
            await asyncio.sleep(TICK_SECONDS)
            answered, now = self.answered, time.monotonic()
            while self._pending and self._pending[0][0] <= answered:
                self.slowest.append((self._pending[0][1], now - self._pending.pop(0)[1]))

    async def _finish(self) -> None:
        await eventually_async(lambda: self._sending.done(), what="every send of the Java client is answered")

        def missing() -> set[str]:
            received = {event["id"] for event in self._client.of("message")}
            return {event["id"] for event in self._client.of("sent")} - received

        try:
            await eventually_async(lambda: not missing())
        except AssertionError as error:
            raise PromiseBroken(
                f"{len(missing())} acknowledged messages were not received by the Java client"
            ) from error
