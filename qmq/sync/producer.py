"""Producer, DelayedMessages and DelayedReceipt without `await`."""

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast, overload

from qmq.client import delayed, producer
from qmq.client.bodies import Body
from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.delayed import DelayedMessage
from qmq.errors import ClientClosed, QmqError, QueueFull, SendManyFailed
from qmq.receipt import Receipt
from qmq.sync.loop import Client, blocking, is_on_loop, iterate, run, shared_loop, start


class DelayedReceipt:
    """`qmq.DelayedReceipt` without `await`."""

    message_id: str
    subject: str
    broker_group: str
    attempts: int
    due_ms: int
    due_at: datetime

    def __init__(self, inner: delayed.DelayedReceipt) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    cancel = blocking(delayed.DelayedReceipt.cancel)
    reschedule = blocking(delayed.DelayedReceipt.reschedule)
    deliver = blocking(delayed.DelayedReceipt.deliver)


class DelayedMessages(Client[delayed.DelayedMessages]):
    """`qmq.DelayedMessages` without `await`, with the same arguments."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(partial(delayed.DelayedMessages, url, **options))

    close = blocking(delayed.DelayedMessages.close)
    find = blocking(delayed.DelayedMessages.find)
    calendar = blocking(delayed.DelayedMessages.calendar)
    cancel = blocking(delayed.DelayedMessages.cancel)
    reschedule = blocking(delayed.DelayedMessages.reschedule)
    deliver = blocking(delayed.DelayedMessages.deliver)
    cancel_matching = blocking(delayed.DelayedMessages.cancel_matching)

    def list(self, subject: str, **options: Any) -> Iterator[DelayedMessage]:
        """Yield a subject's delayed messages by due time; the options are those of `qmq.DelayedMessages.list`."""
        return iterate(self._inner.list(subject, **options))


HANDED_OVER_AT_ONCE = 500
"""Messages of `send_soon` that the event loop takes over before other tasks run."""


def _size_of(body: Body) -> int:
    """About the number of bytes of a body. Of a model it is not known before it is encoded; it counts as nothing."""
    if isinstance(body, str | bytes | bytearray):
        return len(body)
    if isinstance(body, memoryview):
        return body.nbytes
    if isinstance(body, Mapping):
        return sum(len(value) for value in body.values() if isinstance(value, str))
    return 0


class Room:
    """Limits the messages and bytes that threads have handed over to the loop and that have no outcome yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._messages = 0
        self._bytes = 0

    def take(self, messages: int, size: int) -> None:
        """Wait until there is room. What is alone always has room. Raises QueueFull instead of waiting on the loop's thread."""
        limits = self._limits
        with self._changed:
            while self._messages and (
                self._messages + messages > limits.queue_messages or self._bytes + size > limits.queue_bytes
            ):
                if is_on_loop():
                    raise QueueFull(
                        f"{self._messages} messages of about {self._bytes} bytes have no outcome yet, the limits are"
                        f" {limits.queue_messages} and {limits.queue_bytes}: send from another thread, which waits"
                    )
                self._changed.wait()
            self._messages += messages
            self._bytes += size

    def give_back(self, messages: int, size: int, _done: object = None) -> None:
        """Count messages that have an outcome. Can be the callback of a future."""
        with self._changed:
            self._messages -= messages
            self._bytes -= size
            self._changed.notify_all()


@dataclass(eq=False, slots=True)
class _Handed:
    """A message of `send_soon`."""

    subject: str
    body: Body
    tags: Sequence[str]
    message_id: str | None
    size: int
    future: "Future[Receipt]"


class Producer(Client[producer.Producer]):
    """`qmq.Producer` without `await`, with the same arguments. Its methods may be called from several threads."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(partial(producer.Producer, url, **options))
        self._limits: Limits = options.get("limits", DEFAULT_LIMITS)
        self._room = Room(self._limits)
        self._lock = threading.Lock()
        self._handed: deque[_Handed] = deque()
        self._beginning = 0
        """Messages whose tasks do not run yet."""
        self._inner.take_over = self._all_taken_over

    start = blocking(producer.Producer.start)
    flush = blocking(producer.Producer.flush)
    close = blocking(producer.Producer.close)

    @overload
    def send(self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None) -> Receipt: ...

    @overload
    def send(
        self, subject: str, body: Body, *, delay: timedelta, tags: Sequence[str] = (), message_id: str | None = None
    ) -> DelayedReceipt: ...

    @overload
    def send(
        self, subject: str, body: Body, *, due: datetime, tags: Sequence[str] = (), message_id: str | None = None
    ) -> DelayedReceipt: ...

    def send(
        self,
        subject: str,
        body: Body,
        *,
        delay: timedelta | None = None,
        due: datetime | None = None,
        tags: Sequence[str] = (),
        message_id: str | None = None,
    ) -> Receipt | DelayedReceipt:
        receipt = run(self._inner.send(subject, body, delay=delay, due=due, tags=tags, message_id=message_id))
        return DelayedReceipt(receipt) if isinstance(receipt, delayed.DelayedReceipt) else receipt

    def send_soon(
        self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None
    ) -> "Future[Receipt]":
        """Queue a message and return. Waits while `Limits.queue_messages` or `queue_bytes` messages have no outcome yet.

        For a callback, use `add_done_callback` of the future: it runs on the thread of the event loop and must not block.

        Args:
            body: must not be changed before the future is done.

        Returns:
            A future that gets the receipt; or SendFailed, or LocalProtocolError, IllegalName or ClientClosed as `send` raises
            them. Cancelling it has an effect only as long as the event loop has not taken over the message.

        Raises:
            QueueFull: instead of waiting, on the thread of the event loop.
        """
        self._inner.check_process()  # a lock of the parent may never be released
        size = _size_of(body)
        self._room.take(1, size)
        handed = _Handed(subject, body, tags, message_id, size, Future())
        with self._lock:
            self._handed.append(handed)
            is_first = len(self._handed) == 1
        if is_first:
            shared_loop().call_soon_threadsafe(self._take_over)
        return handed.future

    def _take_over(self) -> None:
        """Send what threads have handed over."""
        for _ in range(HANDED_OVER_AT_ONCE):
            with self._lock:
                # The first is removed last: as long as there is one, this runs and need not be scheduled.
                if not self._handed:
                    return
                handed = self._handed[0]
            if handed.future.set_running_or_notify_cancel():
                self._send_soon(handed)
            else:
                self._room.give_back(1, handed.size)
            with self._lock:
                self._handed.popleft()
                if not self._handed:
                    return
        shared_loop().call_soon(self._take_over)

    def _send_soon(self, handed: _Handed) -> None:
        try:
            self._inner.send_soon(
                handed.subject, handed.body, tags=handed.tags, message_id=handed.message_id,
                callback=partial(self._settle, handed),
            )  # fmt: skip
        except QueueFull:
            # By messages of other threads, or by models, whose size was not known.
            self._beginning += 1
            waiting = asyncio.run_coroutine_threadsafe(self._send_waiting(handed), shared_loop())
            waiting.add_done_callback(lambda done: self._settle(handed, done.exception() or done.result()))
        except Exception as error:  # noqa: BLE001 - the caller gets it from the future
            self._settle(handed, error)

    async def _send_waiting(self, handed: _Handed) -> Receipt:
        self._beginning -= 1
        return await self._inner.send(handed.subject, handed.body, tags=handed.tags, message_id=handed.message_id)

    async def _all_taken_over(self) -> None:
        """Wait until the producer has what threads have handed over so far."""
        while self._handed or self._beginning:  # noqa: ASYNC110 - each turn of the loop takes over a part
            await asyncio.sleep(0)

    def _settle(self, handed: _Handed, outcome: Receipt | BaseException) -> None:
        self._room.give_back(1, handed.size)
        if isinstance(outcome, BaseException):
            handed.future.set_exception(outcome)
        else:
            handed.future.set_result(outcome)

    def send_many(self, subject: str, bodies: Iterable[Body], *, tags: Sequence[str] = ()) -> list[Receipt]:
        """Send many messages of one subject and return when all are on disk, as `qmq.Producer.send_many`.

        Takes the bodies, which must not be changed before it returns, in the caller's thread, so `bodies` may be a generator that
        blocks. Waits while `Limits.queue_messages` or `queue_bytes` messages have no outcome yet. If it is interrupted, or `bodies`
        raises, the chunks that were already passed to the event loop are still sent.
        """
        # Without bodies this checks the subject and whether the producer is open.
        outcomes: list[Receipt | QmqError] = [*run(self._inner.send_many(subject, (), tags=tags))]
        handed: deque[tuple[int, Future[list[Receipt]]]] = deque()
        is_closed = False
        for chunk, size in self._chunks(bodies):
            self._room.take(len(chunk), size)
            future = start(self._inner.send_many(subject, chunk, tags=tags))
            future.add_done_callback(partial(self._room.give_back, len(chunk), size))
            handed.append((len(chunk), future))
            while handed and handed[0][1].done():
                is_closed |= _collect(*handed.popleft(), outcomes)
            if is_closed:
                break
        while handed:
            _collect(*handed.popleft(), outcomes)
        if any(isinstance(outcome, QmqError) for outcome in outcomes):
            raise SendManyFailed(outcomes)
        return cast("list[Receipt]", outcomes)

    def _chunks(self, bodies: Iterable[Body]) -> Iterator[tuple[list[Body], int]]:
        limits = self._limits
        chunk: list[Body] = []
        total = 0
        for body in bodies:
            size = _size_of(body)
            if chunk and (len(chunk) >= limits.batch_messages or total + size > limits.batch_bytes):
                yield chunk, total
                chunk, total = [], 0
            chunk.append(body)
            total += size
        if chunk:
            yield chunk, total


def _collect(count: int, future: "Future[list[Receipt]]", outcomes: list[Receipt | QmqError]) -> bool:
    """Append the outcomes of a chunk, when it has them; whether the producer was closed before."""
    try:
        outcomes += future.result()
    except SendManyFailed as error:
        outcomes += error.outcomes
    except ClientClosed as error:
        outcomes += [error] * count
        return True
    return False
