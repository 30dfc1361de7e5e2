"""Middleware: hooks around sending and processing, for tracing, metrics and logs."""

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from qmq.errors import LocalProtocolError

if TYPE_CHECKING:
    from qmq.client.delivery import Delivery
    from qmq.errors import SendFailed
    from qmq.receipt import Receipt
    from qmq.supervisor import Supervisor

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class OutgoingMessage:
    """A message that is being sent, as middleware sees it. Only `properties` and `state` may be changed."""

    subject: str
    message_id: str
    properties: dict[str, str]
    """All properties, including those of the protocol. `before_send` may change them; later changes have no effect."""
    tags: tuple[str, ...] = ()
    due_ms: int | None = None
    """Due time of a delayed message in milliseconds since the epoch; None: deliver immediately."""
    state: dict[object, object] = field(default_factory=dict)
    """For values that a middleware needs between `before_send` and `after_send`. Use the middleware as the key."""


class Middleware:
    """Base class of middleware: override the hooks that you need.

    Hooks are plain functions that run on the event loop, so they must not block. Hooks `before_...` run in the order in which the
    middleware is passed to the client, hooks `after_...` in the reverse order. An exception of a hook is logged and counted; it
    does not affect the message or the other hooks.
    """

    def before_send(self, message: OutgoingMessage) -> None:
        """Called before a message is encoded and queued. Changes of its properties are sent, unless the hook raises."""

    def after_send(self, message: OutgoingMessage, outcome: "Receipt | SendFailed") -> None:
        """Called once for each `before_send`: with the receipt when the message is stored, else with the error."""

    def after_receive(self, delivery: "Delivery") -> None:
        """Called when a delivery was pulled and is in the consumer's queue."""

    def before_process(self, delivery: "Delivery") -> None:
        """Called before the handler, or at the start of an `async with delivery` block, in the context of the handler."""

    def after_process(self, delivery: "Delivery", error: BaseException | None) -> None:
        """Called once for each `before_process`, in the same context, before the delivery is acknowledged or retried automatically.

        `error` is what the handler or the block raised, including CancelledError; None: it succeeded.
        """

    def before_ack(self, delivery: "Delivery") -> None:
        """Called before an acknowledgement is queued."""

    def after_ack(self, delivery: "Delivery") -> None:
        """Called when an acknowledgement is queued. Not called if that failed."""

    def before_retry(self, delivery: "Delivery", cause: str) -> None:
        """Called before the next attempt is sent. `cause` is the label of the failure; "" if there is none."""

    def after_retry(self, delivery: "Delivery", cause: str, is_dead_letter: bool) -> None:
        """Called when the next attempt, or after the last one the dead letter, is stored. Not called if that failed."""


HOOKS = tuple(name for name in vars(Middleware) if not name.startswith("_"))

_Hook = tuple[str, Callable[..., None]]


class MiddlewareChain(Middleware):
    """The middleware of one client, false when there is none. Raises LocalProtocolError for what is no middleware.

    Args:
        supervisor: counts and logs exceptions of hooks, as jobs named "middleware ClassName.hook"; the second of a class
            is "middleware ClassName#2.hook".
    """

    def __init__(self, middleware: Sequence[Middleware], supervisor: "Supervisor") -> None:
        _check(middleware)
        self._supervisor = supervisor
        self._failing: set[str] = set()
        """Names of hooks whose last call raised."""
        self._has_any = bool(middleware)
        self._before_send = _hooks(middleware, "before_send")
        for name in HOOKS[1:]:
            setattr(self, name, partial(self._call, _hooks(middleware, name)))

    def __bool__(self) -> bool:
        return self._has_any

    def before_send(self, message: OutgoingMessage) -> None:
        for name, hook in self._before_send:
            unchanged = message.properties.copy()
            if not self._succeeds(name, hook, message):
                message.properties = unchanged

    def _call(self, hooks: tuple[_Hook, ...], *arguments: Any) -> None:
        for name, hook in hooks:
            self._succeeds(name, hook, *arguments)

    def _succeeds(self, name: str, hook: Callable[..., None], *arguments: Any) -> bool:
        try:
            hook(*arguments)
        except Exception as error:  # noqa: BLE001 - reported
            self._failing.add(name)
            self._supervisor.report(name, error)
            return False
        # Only the first success after a failure is reported: a report for each message and hook would cost more than the hook.
        if name in self._failing:
            self._failing.discard(name)
            self._supervisor.report(name, None)
        return True


def _check(middleware: Sequence[Middleware]) -> None:
    for each in middleware:
        if not isinstance(each, Middleware):
            raise LocalProtocolError(
                f"middleware {each!r} is not an instance of a subclass of qmq.client.middleware.Middleware"
            )
        for name in HOOKS:
            is_coroutine_function: bool = inspect.iscoroutinefunction(getattr(each, name))
            if is_coroutine_function:
                raise LocalProtocolError(
                    f"{type(each).__name__}.{name} is a coroutine function; hooks of middleware are plain functions: use `def`"
                )


def _job_names(middleware: Sequence[Middleware]) -> list[str]:
    """A name for each, unique among them."""
    found: list[str] = []
    for each in middleware:
        name = type(each).__name__
        same = sum(type(other).__name__ == name for other in middleware[: len(found)])
        found.append(f"middleware {name}{f'#{same + 1}' if same else ''}")
    return found


def _hooks(middleware: Sequence[Middleware], name: str) -> tuple[_Hook, ...]:
    """The overridden hooks in the order in which they run."""
    found = [
        (f"{job}.{name}", getattr(each, name))
        for job, each in zip(_job_names(middleware), middleware, strict=True)
        if getattr(getattr(each, name), "__func__", None) is not getattr(Middleware, name)
    ]
    return tuple(found if name.startswith("before_") else reversed(found))


class ProcessState(Generic[T]):
    """Holds the value of a middleware from `before_process` to `after_process` of a delivery. `name` is for debuggers.

    The value belongs to the context of the handler, so handlers that run concurrently do not see each other's. Tasks that the
    handler starts inherit it.
    """

    __slots__ = ("_open",)

    def __init__(self, name: str) -> None:
        self._open: ContextVar[tuple[tuple[Delivery, T], ...]] = ContextVar(name, default=())

    def begin(self, delivery: "Delivery", value: T) -> None:
        """Store the value of a delivery. Deliveries can be nested."""
        self._open.set((*self._open.get(), (delivery, value)))

    def end(self, delivery: "Delivery") -> T | None:
        """Remove and return the value of a delivery; None if this context has none."""
        open_ = self._open.get()
        for index in range(len(open_) - 1, -1, -1):
            if open_[index][0] is delivery:
                self._open.set(open_[:index] + open_[index + 1 :])
                return open_[index][1]
        return None

    @property
    def current(self) -> "tuple[Delivery, T] | None":
        """The delivery that is being processed in this context and its value; None outside of handlers."""
        open_ = self._open.get()
        return open_[-1] if open_ else None
