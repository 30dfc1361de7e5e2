"""Messages of a producer that are not sent yet, and those without an outcome: class SendQueue."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

from qmq.client.accumulator import Accumulator
from qmq.client.bodies import Body
from qmq.client.config import Limits
from qmq.client.encoder import ObservedSends
from qmq.client.outgoing import Batch, Encoded, Key, ManyOutcomes, Outcome, Token, hand_out
from qmq.errors import ClientClosed, ClientFailed, IllegalName, LocalProtocolError, SendFailed
from qmq.protocol.codes import ClientType
from qmq.receipt import Receipt
from qmq.supervisor import Supervisor

CALLBACK_NAME = "send_callback"


@dataclass(eq=False, repr=False)
class SendQueue:
    """Admits messages in the order of their callers, and reports the outcome of each."""

    _limits: Limits
    _delivery_seconds: float
    """Until a message fails, from the moment it is in the queue."""
    _on_opened: Callable[[], None]
    """Called when a batch was opened, to which more messages may be added."""
    _on_ready: Callable[[], None]
    """Called when a batch may be sent."""
    loop: asyncio.AbstractEventLoop = field(init=False)
    _supervisor: Supervisor = field(init=False)
    unsettled: int = field(default=0, init=False)
    """Messages without an outcome."""
    failures: int = field(default=0, init=False)
    """Messages that failed, except those that were rejected before they were queued."""
    _all_settled: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    waiting: OrderedDict[Batch, None] = field(default_factory=OrderedDict, init=False)
    """What does not fit the queue yet, oldest first: messages of callers of `send`, parts of `send_many`."""
    expired: deque[Batch] = field(default_factory=deque, init=False)
    """Batches that fail because their time is over."""
    failed: BaseException | None = field(default=None, init=False)
    closed: SendFailed | None = field(default=None, init=False)
    """The error of every message sent after the producer was closed; None while it is open."""

    def __post_init__(self) -> None:
        self.accumulator = Accumulator(self._limits)

    def start(self, supervisor: Supervisor) -> None:
        self.loop = asyncio.get_running_loop()
        self._supervisor = supervisor

    async def flush(self) -> None:
        while self.unsettled:
            self._all_settled.clear()
            await self._all_settled.wait()

    @contextmanager
    def pending(self) -> Iterator[None]:
        """Count a message that its caller is about to queue, so that `flush` waits for it."""
        self.unsettled += 1
        try:
            yield
        finally:
            self._count_settled(1)

    def fail(self, error: BaseException) -> None:
        """Fail what is queued or waits for room, and every later message."""
        self.failed = error
        for batch in self.take_all():
            self.settle(batch, [self._failure()] * len(batch))

    def add(self, key: Key, message_id: str, entry: bytes, token: Token) -> None:
        """Queue a message that does not wait for room. Raises QueueFull, or SendFailed when the sender failed."""
        if (error := self.stopped()) is not None:
            raise error
        if self.waiting or not self.accumulator.has_room(1, len(entry)):
            raise self.accumulator.full()
        self._queue(key, message_id, entry, token)

    def add_together(self, key: Key, messages: Sequence[Encoded], seconds: float) -> None:
        """Queue messages that do not wait for room: all or none, in their order.

        They are sent in one request, in several if they exceed a batch's limits. `seconds`: until they fail. Raises QueueFull, or
        SendFailed when the sender failed.
        """
        if (error := self.stopped()) is not None:
            raise error
        if self.waiting or not self.accumulator.has_room(len(messages), sum(len(entry) for _, entry, _ in messages)):
            raise self.accumulator.full()
        now = self.loop.time()
        if len(messages) == 1:  # others may join its batch
            [(message_id, entry, callback)] = messages
            self._queue(key, message_id, entry, callback, now + seconds)
            return
        limits = self._limits
        batches: list[Batch] = []
        for message_id, entry, callback in messages:
            batch = batches[-1] if batches else None
            if batch is None or len(batch) >= limits.batch_messages or batch.size + len(entry) > limits.batch_bytes:
                batch = Batch(key, now, now + seconds)
                batches.append(batch)
            batch.add(message_id, entry)
            batch.tokens.append(callback)
        self.unsettled += len(messages)
        for batch in batches:
            self.accumulator.add_batch(batch)
        self._on_ready()

    async def send(self, key: Key, message_id: str, entry: bytes, give_up_at: float | None = None) -> Receipt:
        """Queue a message as soon as there is room for it, behind those that wait already, and wait for its receipt.

        Messages outside the queue's limits are those of callers that wait for them. `give_up_at`: a loop time; None: after the
        delivery timeout. Raises SendFailed.
        """
        if (error := self.stopped()) is not None:
            raise error
        future: asyncio.Future[Receipt] = self.loop.create_future()
        if not self.waiting and self.accumulator.has_room(1, len(entry)):
            self._queue(key, message_id, entry, future, give_up_at)
            return await future
        now = self.loop.time()
        alone = Batch(key, now, give_up_at or now + self._delivery_seconds, tokens=[future])
        alone.add(message_id, entry)
        self.unsettled += 1
        await self._wait_for_room(alone, future)
        return future.result()

    async def _wait_for_room(self, batch: Batch, until: "asyncio.Future[Any]") -> None:
        """Wait behind what waits for room, until this future is done. A batch whose caller is cancelled before is never queued."""
        self.waiting[batch] = None
        try:
            await until
        finally:
            if batch in self.waiting:
                del self.waiting[batch]
                self._count_settled(len(batch))

    async def send_many(
        self,
        subject: str,
        bodies: Iterable[Body],
        tags: Sequence[str],
        observed: ObservedSends,
        is_open: Callable[[], bool],
    ) -> list[Receipt]:
        """Encode messages, queue them batch by batch as there is room while `is_open`, and wait for their outcomes."""
        many = ManyOutcomes(self.loop, observed.chain.after_send)
        batch: Batch | None = None
        limits = self._limits
        for body in bodies:
            try:
                message_id, entry, message = observed.encode(subject, body, tags, None)
            except (LocalProtocolError, IllegalName) as error:
                many.add_failure(error)
                continue
            if batch is not None and (
                len(batch.entries) >= limits.batch_messages or batch.size + len(entry) > limits.batch_bytes
            ):
                await self._send_batch(batch)
                batch = None
                if not is_open():
                    many.add_failure(ClientClosed("the producer was closed before this message was sent"))
                    break
            if batch is None:
                now = self.loop.time()
                batch = Batch((subject, ClientType.PRODUCER), now, now + self._delivery_seconds, many=many)
            batch.add(message_id, entry)
            batch.places.append(many.reserve(message))
        if batch is not None:
            await self._send_batch(batch)
        many.complete()
        return await many.future

    async def _send_batch(self, batch: Batch) -> None:
        """Queue a batch of one `send_many` as soon as there is room for it, behind those that wait already."""
        self.unsettled += len(batch)
        if (error := self.stopped()) is not None:
            self.settle(batch, [error] * len(batch))
        elif self.waiting or not self.accumulator.has_room(len(batch), batch.size):
            batch.queued = self.loop.create_future()
            await self._wait_for_room(batch, batch.queued)
        else:
            self.accumulator.add_batch(batch)
            self._on_ready()
            await asyncio.sleep(0)  # responses and other tasks have their turn between two batches

    def _queue(self, key: Key, message_id: str, entry: bytes, token: Token, give_up_at: float | None = None) -> None:
        self.unsettled += 1
        now = self.loop.time()
        batch = self.accumulator.add(key, message_id, entry, token, now, give_up_at or now + self._delivery_seconds)
        if batch is None:
            return
        if batch.is_open:
            self._on_opened()
        else:
            self._on_ready()

    def admit(self) -> None:
        """Queue what waits for room, oldest first, as much as fits."""
        waiting, queue = self.waiting, self.accumulator
        while waiting:
            batch = next(iter(waiting))
            if not queue.has_room(len(batch), batch.size):
                return
            del waiting[batch]
            if batch.many is not None:
                queue.add_batch(batch)
                batch.end_wait()
            elif is_cancelled(batch.tokens[0]):  # its caller has not run yet
                self._count_settled(1)
            else:
                # It joins the open batch of its subject.
                now = self.loop.time()
                queue.add(batch.key, batch.ids[0], batch.entries[0], batch.tokens[0], now, batch.give_up_at)

    def stopped(self) -> SendFailed | None:
        """Why no message can be sent any more."""
        return self._failure() if self.failed is not None else self.closed

    def _failure(self) -> SendFailed:
        assert self.failed is not None
        error = SendFailed(f"the producer failed: {self.failed}", code=ClientFailed.code)
        error.__cause__ = self.failed.__cause__ or self.failed
        return error

    def expire(self, now: float) -> None:
        """Move the batches whose messages could not be sent in time to `expired`; with infinity, all that are not in flight."""
        self.expired += self.accumulator.take_expired(now)
        while self.waiting and next(iter(self.waiting)).give_up_at <= now:
            batch, _ = self.waiting.popitem(last=False)
            batch.end_wait()
            batch.last_problem = batch.last_problem or "the producer's queue was full"
            self.expired.append(batch)

    def take_all(self) -> list[Batch]:
        """Remove and return all that is not in flight."""
        self.expire(inf)
        batches = list(self.expired)
        self.expired.clear()
        return batches

    def without_cancelled(self, batch: Batch) -> Batch:
        """Return the batch without messages whose callers were cancelled."""
        remaining = [n for n, token in enumerate(batch.tokens) if not is_cancelled(token)]
        if batch.many is not None or len(remaining) == len(batch):
            return batch
        self._count_settled(len(batch) - len(remaining))
        return batch.part(remaining)

    def settle(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        """Report the outcomes of a batch's messages: either all are receipts or all are errors."""
        if isinstance(outcomes[0], SendFailed):
            self.failures += len(batch)
        self._count_settled(len(batch))
        if batch.many is not None:
            batch.many.set(batch.places, outcomes)
            return
        for token, outcome in zip(batch.tokens, outcomes, strict=True):
            try:
                hand_out(token, outcome)
            except Exception as error:  # noqa: BLE001 - of the application's callback; reported, and other messages are not affected
                self._supervisor.report(CALLBACK_NAME, error)

    def _count_settled(self, count: int) -> None:
        self.unsettled -= count
        if not self.unsettled:
            self._all_settled.set()


def is_cancelled(token: Token) -> bool:
    """Whether the caller of a message without an outcome was cancelled."""
    return isinstance(token, asyncio.Future) and token.done()
