"""Every name of `qmq` without `await`. All clients of a process share one event loop in a thread of its own.

with Producer("localhost:8080") as producer:
    producer.send("order.paid", {"order": 17})

Middleware and callbacks of futures run in that thread: they must not block, and a method that would wait there raises
LocalProtocolError. `before_process` and `after_process` run in the thread that processes the delivery.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from qmq.client import app as async_app
from qmq.client import batch as async_batch
from qmq.client import consumer as async_consumer
from qmq.client import delayed
from qmq.client import message as async_message
from qmq.client import producer as async_producer
from qmq.client.bodies import Json
from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.delayed import BulkCancel, Calendar, DelayedMessage, Found
from qmq.client.handlers import arguments_of, is_coroutine_handler
from qmq.client.message import Body
from qmq.client.middleware import Middleware, OutgoingMessage
from qmq.client.receipt import Receipt
from qmq.errors import (
    BodyUndecodable,
    ClientClosed,
    LocalProtocolError,
    QmqError,
    QueueFull,
    SendFailed,
    SendManyFailed,
)
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.delayed import DelayedChange
from qmq.protocol.messages import Message

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "App",
    "Backoff",
    "Batch",
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
Handler = Callable[..., object]
"""A function with the delivery, or the decoded body and optionally the delivery, as arguments."""
H = TypeVar("H", bound=Handler)
HANDED_OVER_AT_ONCE = 500
"""Messages of `send_soon` that the event loop takes over before other tasks have their turn."""

_END = object()
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def _the_loop() -> asyncio.AbstractEventLoop:
    """The one loop of this process, in a thread of its own."""
    global _loop, _thread
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=loop.run_forever, name="qmq-sync", daemon=True)
            _thread.start()
            _loop = loop
        return _loop


def _forget_loop() -> None:
    """In a forked child: the loop's thread runs in the parent only, so the child makes its own."""
    global _loop, _lock, _thread
    _lock, _loop, _thread = threading.Lock(), None, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loop)


def _is_on_loop() -> bool:
    return threading.current_thread() is _thread


def _start(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run a coroutine on the loop.

    Raises:
        LocalProtocolError: the caller is on the loop's thread and would wait for itself.
    """
    if _is_on_loop():
        work.close()
        raise LocalProtocolError(
            "this method of qmq.sync waits, and was called on the thread of the event loop, in middleware or in a callback of a"
            " future. Call it from another thread"
        )
    return asyncio.run_coroutine_threadsafe(work, _the_loop())


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop and wait for its result. Ctrl-C cancels it."""
    future = _start(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _each(source: AsyncIterator[T]) -> Iterator[T]:
    """Iterate on the loop."""

    async def following() -> T | object:
        return await anext(source, _END)

    while (found := _run(following())) is not _END:
        yield found  # type: ignore[misc]  # the end is excluded


def _size_of(body: Body) -> int:
    """About the number of bytes of a body. Of a model it is not known before it is encoded; it counts as nothing."""
    if isinstance(body, str | bytes | bytearray):
        return len(body)
    if isinstance(body, memoryview):
        return body.nbytes
    if isinstance(body, Mapping):
        return sum(len(value) for value in body.values() if isinstance(value, str))
    return 0


class _Room:
    """Limits the messages that threads have handed over to the loop and that have no outcome yet.

    Args:
        limits: `queue_messages` and `queue_bytes` count.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._messages = 0
        self._bytes = 0

    def take(self, messages: int, size: int) -> None:
        """Wait until there is room. What is alone always has room.

        Raises:
            QueueFull: there is none, and the caller is on the loop's thread, which must not wait.
        """
        limits = self._limits
        with self._changed:
            while self._messages and (
                self._messages + messages > limits.queue_messages or self._bytes + size > limits.queue_bytes
            ):
                if _is_on_loop():
                    raise QueueFull(
                        f"{self._messages} messages of about {self._bytes} bytes have no outcome yet, the limits are"
                        f" {limits.queue_messages} and {limits.queue_bytes}: send from another thread, which waits"
                    )
                self._changed.wait()
            self._messages += messages
            self._bytes += size

    def give_back(self, messages: int, size: int) -> None:
        """Count messages that have an outcome."""
        with self._changed:
            self._messages -= messages
            self._bytes -= size
            self._changed.notify_all()

    def give_back_when_done(self, messages: int, size: int, _future: "Future[list[Receipt]]") -> None:
        """As `give_back`, as the callback of a future."""
        self.give_back(messages, size)


@dataclass(eq=False, slots=True)
class _Handed:
    """A message of `send_soon`."""

    subject: str
    body: Body
    tags: Sequence[str]
    message_id: str | None
    size: int
    future: "Future[Receipt]"


class Producer:
    """`qmq.Producer` without `await`, with the same arguments. Its methods may be called from several threads."""

    def __init__(self, url: str, **options: Any) -> None:
        async def make() -> async_producer.Producer:
            return async_producer.Producer(url, **options)

        self._inner = _run(make())
        self._limits: Limits = options.get("limits", DEFAULT_LIMITS)
        self._room = _Room(self._limits)
        self._lock = threading.Lock()
        self._handed: deque[_Handed] = deque()

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
        size = _size_of(body)
        self._room.take(1, size)
        handed = _Handed(subject, body, tags, message_id, size, Future())
        with self._lock:
            self._handed.append(handed)
            is_first = len(self._handed) == 1
        if is_first:
            _the_loop().call_soon_threadsafe(self._take_over)
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
        _the_loop().call_soon(self._take_over)

    def _send_soon(self, handed: _Handed) -> None:
        try:
            self._inner.send_soon(
                handed.subject, handed.body, tags=handed.tags, message_id=handed.message_id,
                callback=partial(self._settle, handed),
            )  # fmt: skip
        except QueueFull:
            # By messages of other threads, or by models, whose size was not known.
            work = self._inner.send(handed.subject, handed.body, tags=handed.tags, message_id=handed.message_id)
            waiting = asyncio.run_coroutine_threadsafe(work, _the_loop())
            waiting.add_done_callback(lambda done: self._settle(handed, done.exception() or done.result()))
        except Exception as error:  # noqa: BLE001 - the caller gets it from the future
            self._settle(handed, error)

    def _settle(self, handed: _Handed, outcome: Receipt | BaseException) -> None:
        self._room.give_back(1, handed.size)
        if isinstance(outcome, BaseException):
            handed.future.set_exception(outcome)
        else:
            handed.future.set_result(outcome)

    def send_many(self, subject: str, bodies: Iterable[Body], *, tags: Sequence[str] = ()) -> list[Receipt]:
        """Send many messages of one subject and return when all are on disk: the fastest way to send.

        Takes the bodies in the caller's thread, so that `bodies` may be a generator of any length that blocks, and hands them over
        to the event loop in chunks of at most `Limits.batch_messages`, or about `batch_bytes` of texts and bytes. Waits while
        `Limits.queue_messages` or `queue_bytes` messages have no outcome yet. If it is interrupted, or `bodies` raises, the
        chunks that are already handed over are still sent. If the producer is closed meanwhile, no more bodies are taken.

        Args:
            bodies: they must not be changed before this returns.
            tags: of each message.

        Returns:
            The receipts, in the order of the bodies.

        Raises:
            SendManyFailed: some messages were not stored or their bodies are invalid; `outcomes` has the receipt or error of each.
            IllegalName, ClientClosed: as for `send`. Nothing is sent.
        """
        # Without bodies this checks the subject and whether the producer is open.
        outcomes: list[Receipt | QmqError] = [*_run(self._inner.send_many(subject, (), tags=tags))]
        handed: deque[tuple[int, Future[list[Receipt]]]] = deque()
        is_closed = False
        for chunk, size in self._chunks(bodies):
            self._room.take(len(chunk), size)
            future = _start(self._inner.send_many(subject, chunk, tags=tags))
            future.add_done_callback(partial(self._room.give_back_when_done, len(chunk), size))
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
        """Parts of the bodies and their sizes."""
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

    def flush(self) -> None:
        """Wait until every message queued so far has been stored or has failed."""
        _run(self._inner.flush())

    def close(self, timeout: float | None = None) -> list[str]:
        """Send queued messages and close; return the IDs of messages that were not stored."""
        return _run(self._inner.close(timeout))


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

    message: Message
    message_id: str
    subject: str
    group: str
    broker_group: str
    pull_sequence: int
    received_at_ms: int
    properties: dict[str, str]
    body: str | None
    content: bytes | None
    tags: tuple[str, ...]
    attempt: int
    retry_cause: str
    created_at: datetime
    is_settled: bool

    def __init__(self, inner: async_message.Delivery) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def decode(self, type_: type[T]) -> T:
        """Return the body as an instance of a type, as `qmq.Delivery.decode`."""
        return self._inner.decode(type_)

    def ack(self) -> None:
        """Acknowledge the message."""
        _run(self._inner.ack())

    def retry(self, *, cause: str = "") -> None:
        """Retry the message later; `cause` is a short label such as "PaymentDeclined"."""
        _run(self._inner.retry(cause=cause))

    def __enter__(self) -> "Self":
        # In this thread, as the handler: a span that it starts is the current one there.
        if (middleware := self._inner._pulled.middleware) is not None:
            middleware.before_process(self._inner)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (middleware := self._inner._pulled.middleware) is not None:
            middleware.after_process(self._inner, error)
        if self.is_settled:
            return
        if kind is None:
            self.ack()
        else:
            self.retry(cause=kind.__name__)


class Batch(Sequence[Delivery]):
    """Deliveries of `Consumer.batches`, in the order in which they arrived."""

    def __init__(self, inner: async_batch.Batch) -> None:
        self._inner = inner
        self._deliveries = [Delivery(each) for each in inner]

    def __len__(self) -> int:
        return len(self._deliveries)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...

    @overload
    def __getitem__(self, index: slice) -> list[Delivery]: ...

    def __getitem__(self, index: int | slice) -> Delivery | list[Delivery]:
        return self._deliveries[index]

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries)

    def __repr__(self) -> str:
        return repr(self._inner)

    def ack(self) -> None:
        """Acknowledge all deliveries that are not settled."""
        _run(self._inner.ack())

    def retry(self, deliveries: Iterable[Delivery] | None = None, *, cause: str = "") -> None:
        """Retry deliveries of this batch; those that are settled are skipped, the others stay open.

        Args:
            deliveries: which to retry; None: all that are not settled.
            cause: as for `Delivery.retry`.

        Raises:
            SendFailed: the next attempt of at least one is not stored; these stay unsettled.
        """
        chosen = None if deliveries is None else [each._inner for each in deliveries]
        _run(self._inner.retry(chosen, cause=cause))


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
        """Receive deliveries until the consumer is closed."""
        return map(Delivery, _each(aiter(self._inner)))

    def batches(self, max_messages: int = 500, max_seconds: float = 0.1) -> Iterator[Batch]:
        """Receive deliveries in batches, until the consumer is closed: much faster than one by one.

        Args:
            max_messages, max_seconds: as for `qmq.Consumer.batches`.

        Raises:
            LocalProtocolError: an argument is out of range.
            ClientFailed: while iterating: a background task failed; the message names it.
        """
        return map(Batch, _each(self._inner.batches(max_messages, max_seconds)))

    def run(self, handler: Handler, *, concurrency: int = 1) -> None:
        """Process messages with a handler, which runs in threads, until the consumer is closed.

        Ctrl-C closes the consumer, waits for running handlers as `close` does, and is raised again.

        Args:
            handler: as for `qmq.Consumer.run`; it gets a `qmq.sync.Delivery`.
            concurrency: threads that run the handler at the same time.

        Raises:
            LocalProtocolError: the handler or the concurrency is invalid.
            ClientClosed: the consumer is not started or already closed.
            ClientFailed: a background task failed; the message names it.
        """
        running = _start(self._inner.run(_Handled(handler), concurrency=concurrency))
        try:
            running.result()
        except KeyboardInterrupt:
            self.close()
            running.result()
            raise

    def pull(self, messages_max: int = 1, timeout: float = 1.0) -> list[Delivery]:
        """Return up to `messages_max` deliveries. Waits up to `timeout` seconds for the first one."""
        return [Delivery(inner) for inner in _run(self._inner.pull(messages_max, timeout))]

    def pause(self) -> None:
        """Stop pulling until `resume`."""
        _the_loop().call_soon_threadsafe(self._inner.pause)

    def resume(self) -> None:
        """Continue pulling."""
        _the_loop().call_soon_threadsafe(self._inner.resume)

    def close(self, timeout: float | None = None) -> list[str]:
        """Stop pulling, let handlers of `run` finish, send pending acknowledgements, return unprocessed messages to the group,
        and close. Do not call it in a handler of `run`, for whose end it waits.

        Args:
            timeout: seconds after which it returns at the latest, as for `qmq.Consumer.close`.

        Returns:
            IDs of the messages that were pulled and neither acknowledged nor retried.
        """
        return _run(self._inner.close(timeout))


class _Handled:
    """A handler as the asynchronous client calls it, in a thread.

    Raises:
        LocalProtocolError: the handler is a coroutine function, or can't be called with a delivery or a body.
    """

    def __init__(self, handler: Handler) -> None:
        if is_coroutine_handler(handler):
            raise LocalProtocolError(
                f"{handler!r} is a coroutine function; handlers of qmq.sync are plain functions: use `def`"
            )
        self.handler = handler
        self._arguments = arguments_of(handler, Delivery)

    def __call__(self, delivery: async_message.Delivery) -> None:
        self.handler(*self._arguments(delivery))


class App:
    """`qmq.App` for functions that are not coroutines: each runs in a thread.

    Args:
        url: address of the metaserver, `host:port` or the URL of its address page.
        app: name of the application, shown to operators.
        middleware: hooks of all consumers.
    """

    def __init__(self, url: str, *, app: str = "", middleware: Sequence[Middleware] = ()) -> None:
        self._inner = async_app.App(url, app=app, middleware=middleware)

    def consumer(self, subject: str, *, group: str, concurrency: int = 16, **options: Any) -> Callable[[H], H]:
        """Register a function as the handler of a subject's messages and return it unchanged.

        It gets a `qmq.sync.Delivery`, or the decoded body, by its annotations, as for `qmq.Consumer.run`.

        Args:
            concurrency: threads that run the handler at the same time.
            options: arguments of `Consumer`.

        Raises:
            LocalProtocolError: an option is not one of `Consumer`'s, or the handler can't be called with a delivery or a body.
        """
        register = self._inner.consumer(subject, group=group, concurrency=concurrency, **options)

        def declare(handler: H) -> H:
            register(_Handled(handler))
            return handler

        return declare

    def adapt(self, *, wrap: Callable[[Handler], Handler] | None = None, concurrency: int | None = None) -> None:
        """`qmq.App.adapt`; `wrap` gets and returns functions that are not coroutines."""

        def wrap_handled(handled: Handler) -> Handler:
            assert wrap is not None
            assert isinstance(handled, _Handled)
            return _Handled(wrap(handled.handler))

        self._inner.adapt(wrap=None if wrap is None else wrap_handled, concurrency=concurrency)

    def run(self) -> None:
        """Consume with all registered handlers until `stop` is called. Ctrl-C stops and is raised again.

        Raises:
            ExceptionGroup: containing ClientFailed, if a background task of a consumer failed.
        """
        running = _start(self._inner.run())
        try:
            running.result()
        except KeyboardInterrupt:
            self.stop()
            running.result()
            raise

    def stop(self, timeout: float | None = None) -> None:
        """Make `run` return: running handlers finish, and their acknowledgements are sent. Can be called from a signal handler.

        Args:
            timeout: seconds after which `run` returns at the latest, as for `qmq.App.stop`.
        """
        _the_loop().call_soon_threadsafe(self._inner.stop, timeout)


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
        return _each(self._inner.list(subject, **options))

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
