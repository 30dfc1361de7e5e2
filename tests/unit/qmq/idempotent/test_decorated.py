"""A decorated handler is declared so that consumers decode the body as for the handler itself, and pass the delivery."""

import inspect
from typing import Any

import pytest

import qmq
from qmq import sync
from qmq.client.handlers import Handler, arguments_of, is_coroutine_handler
from qmq.errors import LocalProtocolError, SettingError
from qmq.idempotent import dbapi, redis
from qmq.idempotent.handlers import Decorated, delivery_of
from qmq_testing import delivery

MESSAGE = delivery("17")


def body(number: int) -> object:
    return number


def body_and_default(number: int = 3, retries: int = 2, *, log: bool = False) -> object:
    return number


def whole(delivery: qmq.Delivery) -> object:
    return delivery


def plain(delivery) -> object:  # type: ignore[no-untyped-def]
    return delivery


def both(number: int, delivery: qmq.Delivery) -> object:
    return (number, delivery)


def by_name(number: "int", /, delivery: "qmq.Delivery") -> object:
    return (number, delivery)


def anything(*arguments: Any) -> object:
    return arguments[0]


class Callable_:
    def __call__(self, number: int) -> object:
        return number


def wrapped(handler: Handler) -> Any:
    decorated = Decorated(handler)

    def handle(*arguments: Any) -> Any:
        return delivery_of(arguments), decorated.call(arguments)

    return decorated.wraps(handle)


@pytest.mark.parametrize(
    ("handler", "got"),
    [
        (body, 17), (body_and_default, 17), (whole, MESSAGE), (plain, MESSAGE), (both, (17, MESSAGE)), (by_name, (17, MESSAGE)),
        (anything, MESSAGE), (Callable_(), 17),
    ],
)  # fmt: skip
def test_the_wrapper_gets_the_delivery_and_the_handler_what_it_takes(handler: Handler, got: object) -> None:
    found = wrapped(handler)
    assert found(*arguments_of(found)(MESSAGE)) == (MESSAGE, got)


def test_it_works_in_both_kinds_of_apps() -> None:
    for app in (qmq.App("localhost:1"), sync.App("localhost:1")):
        app.consumer("orders", group="billing")(wrapped(both))
    found = wrapped(body)
    got, number = found(*arguments_of(found, sync.Delivery)(MESSAGE))
    assert (type(got), number) == (sync.Delivery, 17)


def sync_only(delivery: sync.Delivery) -> object:
    return delivery


def test_a_handler_annotated_with_the_blocking_delivery_gets_it() -> None:
    found = wrapped(sync_only)
    got, passed = found(*arguments_of(found, sync.Delivery)(MESSAGE))
    assert got is passed


def test_the_wrapper_keeps_name_and_documentation() -> None:
    assert (wrapped(body).__name__, inspect.getdoc(wrapped(body))) == ("body", inspect.getdoc(body))


def test_a_call_without_a_delivery_is_an_error() -> None:
    with pytest.raises(LocalProtocolError, match="without a delivery"):
        wrapped(body)(17)


async def coroutine(number: int, *, connection: Any) -> None: ...
def without_connection(number: int) -> None: ...
def three(number: int, delivery: Any, more: Any, *, connection: Any) -> None: ...
def unresolved(number: "Missing", *, connection: Any) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (coroutine, "coroutine function; use `def`"),
        (without_connection, r"must take `\*, connection`"),
        (three, "must take the delivery"),
        (unresolved, "'Missing' is not defined"),
    ],
)
def test_a_handler_that_can_not_be_decorated_is_an_error_when_it_is_declared(handler: Handler, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        dbapi.once(lambda: None)(handler)


class Client:
    def execute_command(self, *arguments: Any) -> Any: ...


class AsyncClient:
    async def execute_command(self, *arguments: Any) -> Any: ...


def test_the_client_of_redis_is_of_the_handlers_kind() -> None:
    async def handle(number: int) -> None: ...

    assert is_coroutine_handler(redis.once(AsyncClient())(handle))
    with pytest.raises(LocalProtocolError, match="an asynchronous client of Redis can't serve a plain function"):
        redis.once(AsyncClient())(body)
    with pytest.raises(LocalProtocolError, match="a plain client of Redis can't serve a coroutine function"):
        redis.once(Client())(handle)


def test_an_unknown_driver_is_an_error() -> None:
    class Unknown:
        def cursor(self) -> None: ...
        def close(self) -> None: ...

    with pytest.raises(SettingError, match="Unknown are not supported"):
        dbapi.once(Unknown)(lambda delivery, *, connection: None)(MESSAGE)
