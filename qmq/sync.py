"""The client's names again, blocking, over one event-loop thread.

with Producer("localhost:8080") as producer:
    producer.send("order.paid", {"order": 17})
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from qmq.client import consumer as async_consumer
from qmq.client import delayed, message
from qmq.client import producer as async_producer
from qmq.client.message import Body, Receipt
from qmq.protocol.delayed import DelayedChange

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Consumer", "DelayedReceipt", "Delivery", "Producer", "Receipt"]

T = TypeVar("T")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _the_loop() -> asyncio.AbstractEventLoop:
    """The one loop of this process, in a thread of its own."""
    global _loop
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="qmq-sync", daemon=True).start()
            _loop = loop
        return _loop


def _forget_loop() -> None:
    """In a forked child: the loop's thread runs in the parent only, so the child makes its own."""
    global _loop, _lock
    _lock, _loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loop)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _the_loop()).result()


class Producer:
    """`qmq.Producer`, blocking. The arguments are the same."""

    def __init__(self, url: str, **options: Any) -> None:
        async def make() -> async_producer.Producer:
            return async_producer.Producer(url, **options)

        self._inner = _run(make())

    def start(self) -> None:
        """Begin."""
        _run(self._inner.start())

    def __enter__(self) -> "Self":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run(self._inner.__aexit__(kind, error, trace))

    @overload
    def send(self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None) -> Receipt: ...

    @overload
    def send(
        self, subject: str, body: Body, *, delay: timedelta, tags: Sequence[str] = (), message_id: str | None = None
    ) -> "DelayedReceipt": ...

    @overload
    def send(
        self, subject: str, body: Body, *, due: datetime, tags: Sequence[str] = (), message_id: str | None = None
    ) -> "DelayedReceipt": ...

    def send(
        self,
        subject: str,
        body: Body,
        *,
        delay: timedelta | None = None,
        due: datetime | None = None,
        tags: Sequence[str] = (),
        message_id: str | None = None,
    ) -> "Receipt | DelayedReceipt":
        """Send one message; it is on disk when this returns. With a delay or due time it can be changed by the receipt."""
        receipt = _run(self._inner.send(subject, body, delay=delay, due=due, tags=tags, message_id=message_id))
        return DelayedReceipt(receipt) if isinstance(receipt, delayed.DelayedReceipt) else receipt

    def send_soon(
        self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None
    ) -> "Future[Receipt]":
        """Queue one message and go on; the future gets its receipt. Waits while the queue is full."""
        work = self._inner.send(subject, body, tags=tags, message_id=message_id)
        return asyncio.run_coroutine_threadsafe(work, _the_loop())

    def flush(self) -> None:
        """Return when everything queued so far is settled."""
        _run(self._inner.flush())

    def close(self, timeout: float | None = None) -> list[str]:
        """Send what is queued, and end; ids of what was given up."""
        return _run(self._inner.close(timeout))


class DelayedReceipt:
    """`qmq.DelayedReceipt`, blocking."""

    def __init__(self, inner: delayed.DelayedReceipt) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cancel(self) -> DelayedChange:
        """Cancel it."""
        return _run(self._inner.cancel())

    def reschedule(self, *, delay: timedelta | None = None, due: datetime | None = None) -> DelayedChange:
        """Give it another due time."""
        return _run(self._inner.reschedule(delay=delay, due=due))

    def deliver(self) -> DelayedChange:
        """Let it fall due now."""
        return _run(self._inner.deliver())


class Delivery:
    """`qmq.Delivery`, blocking: `with delivery:` acks, or retries when the block raises."""

    def __init__(self, inner: message.Delivery) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ack(self) -> None:
        """Done."""
        _run(self._inner.ack())

    def retry(self, *, cause: str = "") -> None:
        """Not done: try again later; `cause` is a short label of why."""
        _run(self._inner.retry(cause=cause))

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run(self._inner.__aexit__(kind, error, trace))


class Consumer:
    """`qmq.Consumer`, blocking. The arguments are the same."""

    def __init__(self, url: str, subject: str, group: str = "", **options: Any) -> None:
        async def make() -> async_consumer.Consumer:
            return async_consumer.Consumer(url, subject, group, **options)

        self._inner = _run(make())

    def start(self) -> None:
        """Begin pulling."""
        _run(self._inner.start())

    def __enter__(self) -> "Self":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run(self._inner.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Delivery]:
        while True:
            yield from self.pull(1, timeout=3600.0)

    def pull(self, messages_max: int = 1, timeout: float = 1.0) -> list[Delivery]:
        """Up to `messages_max` deliveries; waits up to `timeout` seconds for the first."""
        return [Delivery(inner) for inner in _run(self._inner.pull(messages_max, timeout))]

    def pause(self) -> None:
        """Pull nothing more until `resume`."""
        _the_loop().call_soon_threadsafe(self._inner.pause)

    def resume(self) -> None:
        """Pull again."""
        _the_loop().call_soon_threadsafe(self._inner.resume)

    def close(self) -> None:
        """Stop pulling, ack what is settled, hand back what was not."""
        _run(self._inner.close())
