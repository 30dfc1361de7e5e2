"""What a handler is called with follows from its annotations."""

import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, cast

import pytest

from qmq.client.app import App
from qmq.client.delivery import Delivery
from qmq.client.handlers import arguments_of, invoker, is_coroutine_handler
from qmq.client.threads import DaemonThreads
from qmq.errors import LocalProtocolError


class FakeDelivery:
    """Decodes itself into the name of the type."""

    def decode(self, type_: Any) -> object:
        return f"decoded as {getattr(type_, '__name__', type_)}"


DELIVERY = cast(Delivery, FakeDelivery())


def plain(delivery) -> None: ...  # type: ignore[no-untyped-def]
def annotated(delivery: Delivery) -> None: ...
def by_name(delivery: "Delivery") -> None: ...
def anything(delivery: Any) -> None: ...
def with_default(delivery: Delivery, retries: int = 3, *, log: bool = False) -> None: ...
def starred(*arguments: Any) -> None: ...
def decoded(order: dict[str, int]) -> None: ...
def decoded_by_name(text: "bytes") -> None: ...
def both(text: str, delivery: Delivery) -> None: ...
def both_plain(text: str, delivery) -> None: ...  # type: ignore[no-untyped-def]
def optional_body(text: str = "") -> None: ...


class Method:
    def handle(self, text: str) -> None: ...
    async def __call__(self, delivery: Delivery) -> None: ...


@functools.wraps(both)
def wrapped(*arguments: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "arguments"),
    [
        (plain, (DELIVERY,)),
        (annotated, (DELIVERY,)),
        (by_name, (DELIVERY,)),
        (anything, (DELIVERY,)),
        (with_default, (DELIVERY,)),
        (starred, (DELIVERY,)),
        (decoded, ("decoded as dict",)),
        (decoded_by_name, ("decoded as bytes",)),
        (both, ("decoded as str", DELIVERY)),
        (both_plain, ("decoded as str", DELIVERY)),
        (wrapped, ("decoded as str", DELIVERY)),
        (optional_body, ("decoded as str",)),
        (Method().handle, ("decoded as str",)),
        (Method(), (DELIVERY,)),
        (functools.partial(both, delivery=DELIVERY), ("decoded as str",)),
    ],
)
def test_arguments_follow_from_annotations(handler: Callable[..., object], arguments: tuple[object, ...]) -> None:
    found = arguments_of(handler)(DELIVERY)
    assert [item if item is DELIVERY else str(item).partition("[")[0] for item in found] == list(arguments)


class Wrapped:
    def __init__(self, inner: Delivery) -> None:
        self.inner = inner


def with_wrapped(text: str, delivery: Wrapped) -> None: ...
def only_wrapped(delivery: "Wrapped") -> None: ...


def test_a_delivery_can_be_wrapped_for_the_handler() -> None:
    for handler, places in (
        (with_wrapped, (1,)),
        (only_wrapped, (0,)),
        (annotated, (0,)),
        (plain, (0,)),
        (decoded, ()),
    ):
        found = arguments_of(handler, Wrapped)(DELIVERY)
        wrapped = [place for place, each in enumerate(found) if isinstance(each, Wrapped)]
        assert wrapped == list(places)
        assert all(found[place].inner is DELIVERY for place in places)
        assert DELIVERY not in found


def no_arguments() -> None: ...
def three(text: str, delivery: Delivery, more: int) -> None: ...
def keyword_only(delivery: Delivery, *, log: bool) -> None: ...
def two_bodies(text: str, number: int) -> None: ...
def unknown(order: "Order") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (no_arguments, "must take the delivery"),
        (three, "must take the delivery"),
        (keyword_only, "must take the delivery"),
        (two_bodies, "annotate it with qmq.Delivery"),
        (unknown, "TYPE_CHECKING"),
        (3, "can't be resolved"),
    ],
)
def test_a_handler_that_cannot_be_called_fails_when_declared(handler: Any, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        App("localhost:8080").consumer("s", group="g")(handler)


async def test_a_coroutine_function_runs_here_and_another_one_in_a_thread_with_the_same_context() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="")
    seen: list[tuple[str, str, str]] = []

    async def here(text: str) -> None:
        seen.append((text, variable.get(), threading.current_thread().name))

    def there(text: str) -> None:
        seen.append((text, variable.get(), threading.current_thread().name))
        variable.set("changed")

    assert is_coroutine_handler(here)
    assert is_coroutine_handler(Method())
    assert not is_coroutine_handler(there)
    variable.set("mine")
    with DaemonThreads(1, "handlers") as threads:
        await invoker(here, None)(DELIVERY)
        await invoker(there, threads)(DELIVERY)
        await invoker(lambda text: here(text), threads)(DELIVERY)  # a coroutine function that does not look like one
    assert seen == [
        ("decoded as str", "mine", "MainThread"),
        ("decoded as str", "mine", "handlers_0"),
        (DELIVERY, "mine", "MainThread"),  # type: ignore[comparison-overlap]
    ]
    assert variable.get() == "mine"
