"""App and @app.consumer: handlers stay plain functions; options are checked when they are declared."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.consumer import Consumer
from qmq.client.message import Delivery
from qmq.errors import LocalProtocolError

Handler = Callable[[Delivery], Awaitable[None]]
F = TypeVar("F", bound=Callable[[Delivery], Awaitable[None]])

CONCURRENCY_MAX = 10_000
logger = logging.getLogger("qmq.client")


@dataclass(frozen=True, slots=True)
class _Declared:
    handler: Handler
    subject: str
    group: str
    concurrency: int
    options: dict[str, Any]


class App:
    """The consumers of one application. `run` runs them until it is cancelled or `stop` is called."""

    def __init__(self, url: str, *, app: str = "") -> None:
        self._url = url
        self._app = app
        self._declared: list[_Declared] = []
        self._stop: asyncio.Event | None = None

    def consumer(self, subject: str, *, group: str, concurrency: int = 16, **options: Any) -> Callable[[F], F]:
        """Register a coroutine function as the handler of a subject's messages and return it unchanged.

        A message is acknowledged when the handler returns and retried when it raises.

        Args:
            concurrency: handlers that run at the same time.
            options: arguments of `Consumer`.

        Raises:
            LocalProtocolError: an option is not one of `Consumer`'s, or the handler is no coroutine function.
        """
        known = set(inspect.signature(Consumer.__init__).parameters) - {
            "self",
            "url",
            "subject",
            "group",
            "app",
            "limits",
        }
        unknown = sorted(set(options) - known)
        if unknown:
            raise LocalProtocolError(
                f"{unknown[0]!r} is not an option of Consumer; allowed: {', '.join(sorted(known))}"
            )
        _check_concurrency(concurrency)

        def declare(handler: F) -> F:
            is_coroutine_function: bool = inspect.iscoroutinefunction(handler)
            if not is_coroutine_function:
                raise LocalProtocolError(f"{handler!r} is not a coroutine function: use `async def`")
            # Made once here so that wrong names and values fail at the declaration.
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
            concurrency: handlers of each consumer that run at the same time.

        Raises:
            LocalProtocolError: the concurrency is not in 1 to CONCURRENCY_MAX.
        """
        if concurrency is not None:
            _check_concurrency(concurrency)
        self._declared = [
            replace(
                declared,
                handler=declared.handler if wrap is None else wrap(declared.handler),
                concurrency=declared.concurrency if concurrency is None else concurrency,
            )
            for declared in self._declared
        ]

    def stop(self) -> None:
        """Make `run` return: running handlers finish, and their acknowledgements are sent."""
        if self._stop is not None:
            self._stop.set()

    async def run(self) -> None:
        """Consume with all registered handlers.

        Raises:
            ExceptionGroup: containing ClientFailed, if a background task of a consumer failed. All consumers are closed.
        """
        self._stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for declared in self._declared:
                tasks.create_task(self._serve(declared, self._stop))

    async def _serve(self, declared: _Declared, stop: asyncio.Event) -> None:
        limits = Limits(prefetch_messages=max(DEFAULT_LIMITS.pull_messages, 2 * declared.concurrency))
        consumer = Consumer(
            self._url, declared.subject, declared.group, app=self._app, limits=limits, **declared.options
        )
        slots = asyncio.Semaphore(declared.concurrency)
        async with consumer, asyncio.TaskGroup() as running:
            while not stop.is_set():
                await slots.acquire()
                deliveries = await consumer.pull(1, timeout=0.2)
                if not deliveries:
                    slots.release()
                    continue
                task = running.create_task(_handle(declared.handler, deliveries[0]))
                task.add_done_callback(lambda _: slots.release())


def _check_concurrency(concurrency: int) -> None:
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise LocalProtocolError(f"concurrency={concurrency}: must be 1 to {CONCURRENCY_MAX}")


async def _handle(handler: Handler, delivery: Delivery) -> None:
    try:
        async with delivery:
            await handler(delivery)
    except Exception:
        logger.exception("handling message %s failed, it is retried", delivery.message_id)
