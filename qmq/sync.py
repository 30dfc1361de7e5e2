"""Every name of `qmq` without `await`. All clients of a process share one event loop in a thread of its own.

with Producer("localhost:8080") as producer:
    producer.send("order.paid", {"order": 17})
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from qmq.client import app as async_app
from qmq.client import consumer as async_consumer
from qmq.client import delayed, message
from qmq.client import producer as async_producer
from qmq.client.bodies import Json
from qmq.client.config import Backoff, Limits, Timeouts
from qmq.client.delayed import BulkCancel, Calendar, DelayedMessage, Found
from qmq.client.message import Body
from qmq.client.middleware import Middleware, OutgoingMessage
from qmq.client.receipt import Receipt
from qmq.errors import BodyUndecodable, QmqError, QueueFull, SendFailed, SendManyFailed
from qmq.protocol.delayed import DelayedChange

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "App",
    "Backoff",
    "BodyUndecodable",
    "Consumer",
    "DelayedMessages",
    "DelayedReceipt",
    "Delivery",
    "Json",
    "Limits",
    "Middleware",
    "OutgoingMessage",
    "Producer",
    "QmqError",
    "QueueFull",
    "Receipt",
    "SendFailed",
    "SendManyFailed",
    "Timeouts",
]

T = TypeVar("T")
Handler = Callable[["Delivery"], None]
H = TypeVar("H", bound=Callable[["Delivery"], None])
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
    """`qmq.Producer` without `await`, with the same arguments."""

    def __init__(self, url: str, **options: Any) -> None:
        async def make() -> async_producer.Producer:
            return async_producer.Producer(url, **options)

        self._inner = _run(make())

    def start(self) -> None:
        """Start the background tasks; messages can be sent from now on."""
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
        """Send a message and return once it is on disk. With a delay or due time the receipt has methods to change it."""
        receipt = _run(self._inner.send(subject, body, delay=delay, due=due, tags=tags, message_id=message_id))
        return DelayedReceipt(receipt) if isinstance(receipt, delayed.DelayedReceipt) else receipt

    def send_soon(
        self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None
    ) -> "Future[Receipt]":
        """Queue a message and return; the future gets the receipt. Waits while the queue is full."""
        work = self._inner.send(subject, body, tags=tags, message_id=message_id)
        return asyncio.run_coroutine_threadsafe(work, _the_loop())

    def flush(self) -> None:
        """Wait until every message queued so far has been stored or has failed."""
        _run(self._inner.flush())

    def close(self, timeout: float | None = None) -> list[str]:
        """Send queued messages and close; return the IDs of messages that were not stored."""
        return _run(self._inner.close(timeout))


class DelayedReceipt:
    """`qmq.DelayedReceipt` without `await`."""

    def __init__(self, inner: delayed.DelayedReceipt) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cancel(self) -> DelayedChange:
        """Cancel the message."""
        return _run(self._inner.cancel())

    def reschedule(self, *, delay: timedelta | None = None, due: datetime | None = None) -> DelayedChange:
        """Reschedule the message."""
        return _run(self._inner.reschedule(delay=delay, due=due))

    def deliver(self) -> DelayedChange:
        """Make the message due now."""
        return _run(self._inner.deliver())


class Delivery:
    """`qmq.Delivery` without `await`: `with delivery:` acknowledges, or retries if the block raises."""

    def __init__(self, inner: message.Delivery) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ack(self) -> None:
        """Acknowledge the message."""
        _run(self._inner.ack())

    def retry(self, *, cause: str = "") -> None:
        """Retry the message later; `cause` is a short label such as "PaymentDeclined"."""
        _run(self._inner.retry(cause=cause))

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run(self._inner.__aexit__(kind, error, trace))


class Consumer:
    """`qmq.Consumer` without `await`, with the same arguments."""

    def __init__(self, url: str, subject: str, group: str = "", **options: Any) -> None:
        async def make() -> async_consumer.Consumer:
            return async_consumer.Consumer(url, subject, group, **options)

        self._inner = _run(make())

    def start(self) -> None:
        """Start pulling."""
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
        """Return up to `messages_max` deliveries. Waits up to `timeout` seconds for the first one."""
        return [Delivery(inner) for inner in _run(self._inner.pull(messages_max, timeout))]

    def pause(self) -> None:
        """Stop pulling until `resume`."""
        _the_loop().call_soon_threadsafe(self._inner.pause)

    def resume(self) -> None:
        """Continue pulling."""
        _the_loop().call_soon_threadsafe(self._inner.resume)

    def close(self) -> None:
        """Stop pulling, send pending acknowledgements, return unprocessed messages to the group, and close."""
        _run(self._inner.close())


class App:
    """`qmq.App` for functions that are not coroutines: each runs in a thread."""

    def __init__(self, url: str, *, app: str = "") -> None:
        self._inner = async_app.App(url, app=app)
        self._wrap: Callable[[Handler], Handler] | None = None
        self._threads: ThreadPoolExecutor | None = None

    def consumer(self, subject: str, *, group: str, concurrency: int = 16, **options: Any) -> Callable[[H], H]:
        """Register a function as the handler of a subject's messages and return it unchanged.

        Args:
            concurrency: threads that run the handler at the same time.
            options: arguments of `Consumer`.

        Raises:
            LocalProtocolError: an option is not one of `Consumer`'s.
        """

        def declare(handler: H) -> H:
            async def handle(delivery: message.Delivery) -> None:
                assert self._threads is not None
                wrapped = handler if self._wrap is None else self._wrap(handler)
                await asyncio.get_running_loop().run_in_executor(self._threads, wrapped, Delivery(delivery))

            self._inner.consumer(subject, group=group, concurrency=concurrency, **options)(handle)
            return handler

        return declare

    def adapt(self, *, wrap: Callable[[Handler], Handler] | None = None, concurrency: int | None = None) -> None:
        """`qmq.App.adapt`; `wrap` gets and returns functions that are not coroutines, and is called for each message."""
        self._inner.adapt(concurrency=concurrency)
        self._wrap = wrap or self._wrap

    def run(self) -> None:
        """Consume with all registered handlers until `stop` is called. Ctrl-C stops and is raised again.

        Raises:
            ExceptionGroup: containing ClientFailed, if a background task of a consumer failed.
        """
        with ThreadPoolExecutor(max(1, self._inner.handlers_max), "qmq-handler") as self._threads:
            running = asyncio.run_coroutine_threadsafe(self._inner.run(), _the_loop())
            try:
                running.result()
            except KeyboardInterrupt:
                self.stop()
                running.result()
                raise

    def stop(self) -> None:
        """Make `run` return: running handlers finish, and their acknowledgements are sent. Can be called from a signal handler."""
        _the_loop().call_soon_threadsafe(self._inner.stop)


class DelayedMessages:
    """`qmq.DelayedMessages` without `await`, with the same arguments."""

    def __init__(self, url: str, **options: Any) -> None:
        async def make() -> delayed.DelayedMessages:
            return delayed.DelayedMessages(url, **options)

        self._inner = _run(make())

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        _run(self._inner.close())

    def find(self, message_id: str, *, subject: str = "", due: datetime | None = None) -> Found:
        """Return all copies of a message with their current states. The due time makes the lookup faster."""
        return _run(self._inner.find(message_id, subject=subject, due=due))

    def list(self, subject: str, **options: Any) -> Iterator[DelayedMessage]:
        """Yield a subject's delayed messages by due time; the options are those of `qmq.DelayedMessages.list`."""
        messages = self._inner.list(subject, **options)

        async def following() -> DelayedMessage | None:
            return await anext(messages, None)

        while (found := _run(following())) is not None:
            yield found

    def calendar(self, subject: str = "", *, begin: datetime | None = None, end: datetime | None = None) -> Calendar:
        """Count the pending messages of one subject, or of all, by hour of due time."""
        return _run(self._inner.calendar(subject, begin=begin, end=end))

    def cancel(self, message_id: str, **known: Any) -> DelayedChange:
        """Cancel a message; `known` are `subject`, `due` and `delay_group`, as far as they are known."""
        return _run(self._inner.cancel(message_id, **known))

    def reschedule(
        self, message_id: str, *, to: datetime | None = None, delay: timedelta | None = None, **known: Any
    ) -> DelayedChange:
        """Reschedule a message to `to`, or to `delay` from now."""
        return _run(self._inner.reschedule(message_id, to=to, delay=delay, **known))

    def deliver(self, message_id: str, **known: Any) -> DelayedChange:
        """Make a message due now."""
        return _run(self._inner.deliver(message_id, **known))

    def cancel_matching(
        self,
        subject: str,
        *,
        match: Mapping[str, str] | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        dry_run: bool = False,
    ) -> BulkCancel:
        """Cancel all pending messages of a subject in a range of due times, or those with these properties."""
        return _run(self._inner.cancel_matching(subject, match=match, begin=begin, end=end, dry_run=dry_run))
