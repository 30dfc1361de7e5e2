"""Consumer, Delivery, Batch and App without `await`. Handlers run in threads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from qmq.client import app as client
from qmq.client import consumer, delivery
from qmq.client.handlers import arguments_of, is_coroutine_handler
from qmq.client.middleware import Middleware
from qmq.errors import LocalProtocolError
from qmq.protocol.messages import Message
from qmq.sync.loop import Client, blocking, iterate, run, run_until_stopped, shared_loop

T = TypeVar("T")
Handler = Callable[..., object]
"""A function with the delivery, or the decoded body and optionally the delivery, as arguments."""


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

    def __init__(self, inner: delivery.Delivery) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def decode(self, type_: type[T]) -> T:
        return self._inner.decode(type_)

    ack = blocking(delivery.Delivery.ack)
    retry = blocking(delivery.Delivery.retry)

    def __enter__(self) -> Self:
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


class Batch(list[Delivery]):
    """Deliveries of `Consumer.batches`, in the order in which they arrived."""

    def __init__(self, inner: delivery.Batch) -> None:
        super().__init__(map(Delivery, inner))
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    ack = blocking(delivery.Batch.ack)

    def retry(self, deliveries: Iterable[Delivery] | None = None, *, cause: str = "") -> None:
        chosen = None if deliveries is None else [each._inner for each in deliveries]
        run(self._inner.retry(chosen, cause=cause))


class Consumer(Client[consumer.Consumer]):
    """`qmq.Consumer` without `await`, with the same arguments."""

    def __init__(self, url: str, subject: str, group: str = "", **options: Any) -> None:
        super().__init__(partial(consumer.Consumer, url, subject, group, **options))

    start = blocking(consumer.Consumer.start)
    close = blocking(consumer.Consumer.close)

    def __iter__(self) -> Iterator[Delivery]:
        return map(Delivery, iterate(aiter(self._inner)))

    def batches(self, max_messages: int = 500, max_seconds: float = 0.1) -> Iterator[Batch]:
        return map(Batch, iterate(self._inner.batches(max_messages, max_seconds)))

    def run(self, handler: Handler, *, concurrency: int = 1) -> None:
        """Process messages with a handler, in `concurrency` threads, until the consumer is closed. As `qmq.Consumer.run`.

        The handler gets a `qmq.sync.Delivery`. Ctrl-C closes the consumer, waits for running handlers, and is raised again.
        """
        run_until_stopped(self._inner.run(Handled(handler), concurrency=concurrency), self.close)

    def pull(self, messages_max: int = 1, timeout: float = 1.0) -> list[Delivery]:
        return [Delivery(inner) for inner in run(self._inner.pull(messages_max, timeout))]

    def pause(self) -> None:
        self._inner.check_process()
        shared_loop().call_soon_threadsafe(self._inner.pause)

    def resume(self) -> None:
        self._inner.check_process()
        shared_loop().call_soon_threadsafe(self._inner.resume)


class Handled:
    """A handler as the asynchronous client calls it, in a thread. Raises LocalProtocolError for one that can't be called so."""

    def __init__(self, handler: Handler) -> None:
        if is_coroutine_handler(handler):
            raise LocalProtocolError(
                f"{handler!r} is a coroutine function; handlers of qmq.sync are plain functions: use `def`"
            )
        self.handler = handler
        self._arguments = arguments_of(handler, Delivery)

    def __call__(self, delivery: delivery.Delivery) -> None:
        self.handler(*self._arguments(delivery))


H = TypeVar("H", bound=Handler)


class App:
    """`qmq.App` for functions that are not coroutines: each runs in a thread. The arguments are the same."""

    def __init__(self, url: str, *, app: str = "", middleware: Sequence[Middleware] = ()) -> None:
        self._inner = client.App(url, app=app, middleware=middleware)

    def consumer(self, subject: str, *, group: str, concurrency: int = 16, **options: Any) -> Callable[[H], H]:
        """Register a function as the handler of a subject's messages and return it unchanged. As `qmq.App.consumer`.

        It gets a `qmq.sync.Delivery`, or the decoded body, by its annotations, and runs in `concurrency` threads.
        """
        register = self._inner.consumer(subject, group=group, concurrency=concurrency, **options)

        def declare(handler: H) -> H:
            register(Handled(handler))
            return handler

        return declare

    def adapt(self, *, wrap: Callable[[Handler], Handler] | None = None, concurrency: int | None = None) -> None:
        """`qmq.App.adapt`; `wrap` gets and returns functions that are not coroutines."""

        def wrap_handled(handled: Handler) -> Handler:
            assert wrap is not None
            assert isinstance(handled, Handled)
            return Handled(wrap(handled.handler))

        self._inner.adapt(wrap=None if wrap is None else wrap_handled, concurrency=concurrency)

    def run(self) -> None:
        """Consume with all registered handlers until `stop` is called. Ctrl-C stops and is raised again. As `qmq.App.run`."""
        run_until_stopped(self._inner.run(), self.stop)

    def stop(self, timeout: float | None = None) -> None:
        """Make `run` return, as `qmq.App.stop`. Can be called from a signal handler."""
        shared_loop().call_soon_threadsafe(self._inner.stop, timeout)
