"""Handlers: functions that process one message, and what they are called with."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import Any

from qmq.client.delivery import Delivery
from qmq.client.threads import DaemonThreads
from qmq.errors import LocalProtocolError

Handler = Callable[..., object]
"""`async def` or `def`, with the delivery, or the decoded body and optionally the delivery, as arguments."""
Arguments = Callable[[Delivery], tuple[Any, ...]]
Invoke = Callable[[Delivery], Awaitable[object]]

THREAD_NAME = "qmq-handler"
_PASSED_AS_IT_IS = (inspect.Parameter.empty, Delivery, Any, object)


def arguments_of(handler: Handler, wrap: Callable[[Delivery], object] | None = None) -> Arguments:
    """Return the function that makes a handler's arguments from a delivery, by the annotations of its parameters.

    The first parameter gets the delivery if it has no annotation or is annotated with `Delivery`, else the body decoded as the
    annotated type (`Delivery.decode`). The second, if there is one without a default, gets the delivery.

    Args:
        wrap: makes what the handler gets as the delivery; a class with which its parameters may be annotated.

    Raises LocalProtocolError for a handler that can't be called with such arguments.
    """
    if wrap is None:
        return _arguments(handler, _PASSED_AS_IT_IS)
    found = _arguments(handler, (*_PASSED_AS_IT_IS, wrap))
    return lambda delivery: tuple(wrap(each) if each is delivery else each for each in found(delivery))


def _arguments(handler: Handler, as_it_is: tuple[object, ...]) -> Arguments:
    name = handler_name(handler)
    positional = positional_parameters(name, list(signature_of(handler).parameters.values()))
    if not positional:
        return lambda delivery: (delivery,)
    body_type = positional[0].annotation
    if len(positional) == 2 and positional[1].annotation not in as_it_is:
        raise LocalProtocolError(
            f"the second parameter of handler {name} gets the delivery: annotate it with qmq.Delivery"
        )
    if body_type in as_it_is:
        return lambda delivery: (delivery,) * len(positional)
    if len(positional) == 1:
        return lambda delivery: (delivery.decode(body_type),)
    return lambda delivery: (delivery.decode(body_type), delivery)


def signature_of(handler: Handler) -> inspect.Signature:
    """Return the parameters of a handler with their annotations as objects. Raises LocalProtocolError if they can't be resolved."""
    try:
        return inspect.signature(handler, eval_str=True)
    except (NameError, SyntaxError, TypeError, ValueError) as error:
        raise LocalProtocolError(
            f"the annotations of handler {handler_name(handler)} can't be resolved: {error}. Import their types at run time,"
            " not only under TYPE_CHECKING"
        ) from error


def positional_parameters(name: str, parameters: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return the parameters that get the body and the delivery: two at most; none if the handler takes any arguments.

    Raises LocalProtocolError, which names the handler, if it can't be called with them.
    """
    positional = [
        one
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        and (one.default is one.empty or one is parameters[0])
    ]
    accepts_any = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    needs_names = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if (not positional and not accepts_any) or len(positional) > 2 or needs_names:
        raise LocalProtocolError(
            f"handler {name} must take the delivery; or the decoded body and, if needed, the delivery"
        )
    return positional


def is_coroutine_handler(handler: Handler) -> bool:
    """Whether a handler runs on the event loop; another one runs in a thread."""
    call = getattr(handler, "__call__", None)  # noqa: B004 - of an instance whose __call__ is a coroutine function
    found: bool = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)
    return found


def invoker(handler: Handler, threads: DaemonThreads | None) -> Invoke:
    """Return the function that calls a handler with a delivery and waits for its end. Raises LocalProtocolError.

    A handler that is not a coroutine function runs in `threads`, in a copy of the caller's context.
    """
    arguments = arguments_of(handler)
    if threads is None:

        async def invoke(delivery: Delivery) -> None:
            await handler(*arguments(delivery))  # type: ignore[misc]  # a coroutine function

        return invoke

    async def invoke_in_thread(delivery: Delivery) -> None:
        call = functools.partial(copy_context().run, handler, *arguments(delivery))
        result = await asyncio.get_running_loop().run_in_executor(threads, call)
        if inspect.isawaitable(result):  # a coroutine function behind a wrapper
            await result

    return invoke_in_thread


def handler_name(handler: Handler) -> str:
    """The name of a handler for texts."""
    return str(getattr(handler, "__qualname__", repr(handler)))
