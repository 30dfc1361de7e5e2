"""Handlers behind a decorator that needs their delivery: what they are called with, and what they are declared to take."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from qmq.client import delivery
from qmq.client.handlers import Handler, handler_name, is_coroutine_handler, positional_parameters, signature_of
from qmq.errors import LocalProtocolError
from qmq.sync.consumer import Delivery as SyncDelivery

AnyDelivery = delivery.Delivery | SyncDelivery
W = TypeVar("W", bound=Callable[..., Any])

_DELIVERIES = (inspect.Parameter.empty, delivery.Delivery, SyncDelivery, Any, object)


class Decorated:
    """A handler that a decorator runs in a transaction or under a lease.

    Consumers call what `wraps` returns, always with the delivery as the last argument. It is declared to take that, and the body as
    the handler does, so bodies are decoded as before.

    Args:
        injected: name of a keyword-only argument that the decorator gives to the handler; "": none.
        is_sync: reject coroutine functions; the text says why and what to use instead.

    Raises LocalProtocolError: the handler is a coroutine function and must not be, or takes other arguments.
    """

    def __init__(self, handler: Handler, *, injected: str = "", is_sync: str = "") -> None:
        name = handler_name(handler)
        if is_sync and is_coroutine_handler(handler):
            raise LocalProtocolError(f"handler {name} is a coroutine function; {is_sync}")
        signature = signature_of(handler)
        kept = [
            one for one in signature.parameters.values() if one.name != injected or one.kind is not one.KEYWORD_ONLY
        ]
        if injected and len(kept) == len(signature.parameters):
            raise LocalProtocolError(
                f"handler {name} must take `*, {injected}`, and use it for all that must happen once"
            )
        positional = positional_parameters(name, kept)
        self._handler = handler
        self._takes_delivery = not positional or len(positional) == 2 or positional[0].annotation in _DELIVERIES
        if not self._takes_delivery:
            body = positional[0].replace(default=inspect.Parameter.empty, kind=inspect.Parameter.POSITIONAL_ONLY)
            kept = [body, inspect.Parameter(f"delivery_of_{body.name}", body.kind)]
        self._signature = signature.replace(parameters=kept)

    def wraps(self, wrapper: W) -> W:
        """Give the wrapper the handler's name and documentation, and the parameters with which consumers call it."""
        wrapped = functools.wraps(self._handler)(wrapper)
        wrapped.__signature__ = self._signature  # type: ignore[attr-defined]
        return wrapped  # type: ignore[return-value]

    def call(self, arguments: tuple[Any, ...], **injected: Any) -> Any:
        """Call the handler with what the wrapper was called with."""
        return self._handler(*(arguments if self._takes_delivery else arguments[:-1]), **injected)


def delivery_of(arguments: tuple[Any, ...]) -> AnyDelivery:
    """The delivery that a wrapper was called with. Raises LocalProtocolError if there is none."""
    if arguments and isinstance(arguments[-1], AnyDelivery):
        return arguments[-1]
    raise LocalProtocolError(
        "an idempotent handler was called without a delivery; the last argument must be the delivery whose key is marked"
    )
