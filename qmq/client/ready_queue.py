"""Deliveries between the pulls and the application: class ReadyQueue."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

from qmq.client.config import Limits
from qmq.client.delivery import Batch, Delivery
from qmq.client.lifecycle import client_failed
from qmq.client.prefetch import Prefetch


class ReadyQueue:
    """The deliveries that the application has not received yet, and the callers that wait for one. `prefetch` limits them."""

    def __init__(self, limits: Limits) -> None:
        self.deliveries: deque[Delivery] = deque()
        self.prefetch = Prefetch(limits, self.deliveries)
        self.waiters: deque[asyncio.Future[None]] = deque()
        """Of those who wait for a delivery: each is woken for one."""
        self.failure: BaseException | None = None
        self.is_closed = False

    def add(self, deliveries: list[Delivery]) -> None:
        self.deliveries.extend(deliveries)
        self.wake(len(deliveries))

    def put_back(self, delivery: Delivery) -> None:
        """Queue a delivery again that the application received and did not process, before all others."""
        self.deliveries.appendleft(delivery)
        self.wake(1)

    def fail(self, error: BaseException) -> None:
        """Raise ClientFailed in all callers, present and later."""
        self.failure = self.failure or error
        self.wake(len(self.waiters))

    def close(self) -> int:
        """End all iterations and drop the queued deliveries; return their number."""
        self.is_closed = True
        self.wake(len(self.waiters))
        dropped = len(self.deliveries)
        # The broker delivers them to other consumers: an iterator that continues must not yield them as well.
        self.deliveries.clear()
        return dropped

    async def iterate(self) -> AsyncIterator[Delivery]:
        ready = self.deliveries
        while True:
            while ready and self.failure is None:
                yield ready.popleft()
            delivery = await self.next(None)
            if delivery is None:
                return
            yield delivery

    async def iterate_batches(self, messages_max: int, seconds_max: float) -> AsyncIterator[Batch]:
        """Yield batches until the queue is closed: of at most `messages_max`, or what arrived `seconds_max` after the first."""
        ready = self.deliveries
        while True:
            first = await self.next(None)
            if first is None:
                return
            deliveries = Batch((first,))
            deadline = asyncio.get_running_loop().time() + seconds_max
            try:
                while True:
                    count = min(messages_max - len(deliveries), len(ready))
                    if count == len(ready):
                        deliveries += ready
                        ready.clear()
                    else:
                        deliveries += [ready.popleft() for _ in range(count)]
                    if len(deliveries) >= messages_max:
                        break
                    following = await self.next_until(deadline)
                    if following is None:
                        break
                    deliveries.append(following)
            except BaseException:
                # The application has not received them: they go back to the front of the queue.
                if not self.is_closed:
                    ready.extendleft(reversed(deliveries))
                raise
            if self.is_closed:
                return
            yield deliveries

    async def next(self, timeout: float | None) -> Delivery | None:
        """The next delivery; None when the time is up or the consumer is closed. Raises ClientFailed."""
        if self.deliveries and self.failure is None:
            return self.deliveries.popleft()
        return await self.next_until(None if timeout is None else asyncio.get_running_loop().time() + timeout)

    async def next_until(self, deadline: float | None) -> Delivery | None:
        """As `next`, with a loop time."""
        while self.failure is not None or not self.deliveries:
            if self.failure is not None:
                raise client_failed("consumer", self.failure)
            if self.is_closed:
                return None
            self.prefetch.wake()
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter
            except TimeoutError:
                return self.deliveries.popleft() if self.deliveries and self.failure is None else None
            except BaseException:
                # It was woken for a delivery that it does not take.
                if waiter.done() and not waiter.cancelled() and self.deliveries:
                    self.wake(1)
                raise
            finally:
                if not waiter.done() or waiter.cancelled():
                    with suppress(ValueError):
                        self.waiters.remove(waiter)
        return self.deliveries.popleft()

    def wake(self, count: int) -> None:
        """Wake as many of those who wait for a delivery."""
        waiters = self.waiters
        while count > 0 and waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1
