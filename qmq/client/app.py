"""App and @app.consumer: handlers stay plain functions; options are checked when they are declared."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.consumer import Consumer, check_concurrency
from qmq.client.handlers import Handler, arguments_of
from qmq.client.middleware import Middleware
from qmq.errors import LocalProtocolError

F = TypeVar("F", bound=Handler)


@dataclass(frozen=True, slots=True)
class _Declared:
    handler: Handler
    subject: str
    group: str
    concurrency: int
    options: dict[str, Any]


class App:
    """The consumers of one application. `run` runs them until it is cancelled or `stop` is called.

    Args:
        url: address of the metaserver, `host:port` or the URL of its address page; several are separated by commas.
        app: name of the application, shown to operators.
        middleware: hooks of all consumers, see `qmq.client.middleware`.
    """

    def __init__(self, url: str, *, app: str = "", middleware: Sequence[Middleware] = ()) -> None:
        self._url = url
        self._app = app
        self._middleware = tuple(middleware)
        self._declared: list[_Declared] = []
        self._stop: asyncio.Event | None = None
        self._close_timeout: float | None = None

    def consumer(self, subject: str, *, group: str, concurrency: int = 16, **options: Any) -> Callable[[F], F]:
        """Register a function as the handler of a subject's messages and return it unchanged.

        A message is acknowledged when the handler returns and retried when it raises. The handler is an `async def`, or a `def`,
        which runs in a thread; what it is called with follows from its annotations, see `Consumer.run`.

        Args:
            concurrency: handlers that run at the same time.
            options: arguments of `Consumer`. Without `limits`, it holds at most twice as many messages as handlers, and at least
                as many as one pull requests.

        Raises:
            LocalProtocolError: an option is not one of `Consumer`'s, or the handler can't be called with a delivery or a body.
        """
        known = set(inspect.signature(Consumer.__init__).parameters) - {"self", "url", "subject", "group", "app"}
        unknown = sorted(set(options) - known)
        if unknown:
            raise LocalProtocolError(
                f"{unknown[0]!r} is not an option of Consumer; allowed: {', '.join(sorted(known))}"
            )
        check_concurrency(concurrency)

        def declare(handler: F) -> F:
            # Made once here so that a handler with wrong parameters fails at the declaration.
            arguments_of(handler)
            self._declared.append(_Declared(handler, subject, group, concurrency, options))
            return handler

        return declare

    @property
    def handlers_max(self) -> int:
        """The most handlers that run at the same time, of all registered consumers together."""
        return sum(declared.concurrency for declared in self._declared)

    def adapt(self, *, wrap: Callable[[Handler], Handler] | None = None, concurrency: int | None = None) -> None:
        """Change the consumers registered so far, for programs that run apps which others have written. Call it before `run`.

        Args:
            wrap: returns what runs instead of a handler; the registered functions stay as they are.
            concurrency: handlers of each consumer that run at the same time, 1 to CONCURRENCY_MAX.
        """
        if concurrency is not None:
            check_concurrency(concurrency)
        self._declared = [
            replace(
                declared,
                handler=declared.handler if wrap is None else wrap(declared.handler),
                concurrency=declared.concurrency if concurrency is None else concurrency,
            )
            for declared in self._declared
        ]

    def stop(self, timeout: float | None = None) -> None:
        """Make `run` return: running handlers finish, and their acknowledgements are sent. `timeout`: as for `Consumer.close`."""
        self._close_timeout = timeout
        if self._stop is not None:
            self._stop.set()

    async def run(self) -> None:
        """Consume with all registered handlers. Raises ExceptionGroup of ClientFailed; all consumers are closed."""
        self._stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for declared in self._declared:
                tasks.create_task(self._serve(declared, self._stop))

    async def _serve(self, declared: _Declared, stop: asyncio.Event) -> None:
        options = {
            "limits": Limits(prefetch_messages=max(DEFAULT_LIMITS.pull_messages, 2 * declared.concurrency)),
            **declared.options,
            "middleware": (*self._middleware, *declared.options.get("middleware", ())),
        }
        consumer = Consumer(self._url, declared.subject, declared.group, app=self._app, **options)
        async with consumer, asyncio.TaskGroup() as tasks:
            closing = tasks.create_task(self._close_after(stop, consumer))
            await consumer.run(declared.handler, concurrency=declared.concurrency)
            if not stop.is_set():  # it was closed by a handler
                closing.cancel()

    async def _close_after(self, stop: asyncio.Event, consumer: Consumer) -> None:
        await stop.wait()
        await consumer.close(self._close_timeout)
