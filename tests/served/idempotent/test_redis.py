"""Marks in a real Redis: once without failures, a retry while another consumer has the lease, never a skip without a mark."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import redis
import redis.asyncio

from qmq.errors import KeyInvalid, LeaseHeld, SettingError
from qmq.idempotent.redis import PREFIX, once
from qmq_testing import delivery
from tests.support.servers.services import Server
from tests.support.waiting import eventually, eventually_async

MESSAGE = partial(delivery, "order 17", subject="order.paid", group="billing")
KEY = f"{PREFIX}order.paid%billing%m1"


class Refused(Exception):
    """A handler's own error."""


@pytest.fixture(params=[False, True], ids=["bytes", "texts"])
def client(redis_server: Server, request: pytest.FixtureRequest) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(redis_server.url, decode_responses=request.param, socket_timeout=5, retry=None) as found:
        found.flushdb()
        yield found


@pytest.fixture
async def async_client(redis_server: Server) -> AsyncIterator["redis.asyncio.Redis"]:
    async with redis.asyncio.Redis.from_url(redis_server.url, socket_timeout=5, retry=None) as found:
        await found.flushdb()
        yield found


def test_a_message_that_was_processed_is_skipped(client: "redis.Redis") -> None:
    effects: list[str] = []

    @once(client)
    def bill(what: str) -> str:
        effects.append(what)
        return what

    assert bill("a", MESSAGE(message_id="m1")) == "a"
    assert bill("b", MESSAGE(message_id="m1")) is None
    assert bill("c", MESSAGE(message_id="M1")) == "c"
    assert effects == ["a", "c"]
    assert 6.9 < client.ttl(KEY) / 86400 <= 7


def test_an_exception_releases_the_lease(client: "redis.Redis") -> None:
    failures = [Refused]

    @once(client)
    def bill(what: str) -> str:
        if failures:
            raise failures.pop()
        return what

    with pytest.raises(Refused):
        bill("a", MESSAGE(message_id="m1"))
    assert not client.exists(KEY)
    assert bill("b", MESSAGE(message_id="m1")) == "b"


def test_while_another_consumer_has_the_lease_the_message_is_retried(client: "redis.Redis") -> None:
    @once(client)
    def bill(delivery: Any) -> str:
        with pytest.raises(LeaseHeld) as raised:
            bill(MESSAGE(message_id="m1"))
        assert (raised.value.code, raised.value.retriable) == ("idempotent.lease_held", True)
        assert 50 < client.ttl(KEY) <= 60
        return "done"

    assert bill(MESSAGE(message_id="m1")) == "done"
    assert bill(MESSAGE(message_id="m1")) is None


def test_a_lease_expires_when_its_holder_has_ended(client: "redis.Redis") -> None:
    client.set(KEY, "token of a process that has ended", px=50)
    bill = once(client)(lambda delivery: "done")

    def is_done() -> bool:
        try:
            return bill(MESSAGE(message_id="m1")) == "done"
        except LeaseHeld:
            return False

    eventually(is_done, what="the message is processed")


def test_a_holder_whose_lease_was_taken_over_marks_its_effect_and_leaves_the_others_lease_when_it_fails(
    client: "redis.Redis",
) -> None:
    @once(client)
    def bill(what: str) -> None:
        client.set(KEY, "token of another")
        if what == "fails":
            raise Refused

    with pytest.raises(Refused):
        bill("fails", MESSAGE(message_id="m1"))
    assert client.get(KEY) in (b"token of another", "token of another")
    client.delete(KEY)
    bill("works", MESSAGE(message_id="m1"))
    assert client.get(KEY) in (b"done", "done")


def test_a_command_that_the_client_repeated_does_not_hold_its_own_lease_against_itself(client: "redis.Redis") -> None:
    """The answer to the first SET was lost, so the second one finds its own token."""

    class Repeating:
        def execute_command(self, *arguments: Any) -> Any:
            if arguments[0] == "SET" and "NX" in arguments:
                client.execute_command(*arguments)
            return client.execute_command(*arguments)

    bill = once(Repeating())(lambda delivery: "done")
    assert [bill(MESSAGE(message_id="m1")) for _ in range(2)] == ["done", None]


def test_an_error_of_redis_is_an_error(redis_server: Server) -> None:
    called: list[str] = []
    with redis.Redis.from_url(redis_server.url, socket_timeout=5, retry=None) as client:
        bill = once(client)(lambda delivery: called.append(delivery.message_id))
        with redis_server.stopped(), pytest.raises(redis.ConnectionError):
            bill(MESSAGE(message_id="m1"))
        assert not called

        @once(client)
        def bill_and_lose(delivery: Any) -> None:
            called.append(delivery.message_id)
            redis_server.stop()

        try:
            with pytest.raises(redis.ConnectionError):
                bill_and_lose(MESSAGE(message_id="m2"))
        finally:
            redis_server.start()
        assert called == ["m2"]


def test_keys_prefix_and_times(client: "redis.Redis") -> None:
    bill = once(client, key="order", prefix="shop:", retention=timedelta(seconds=100))(lambda delivery: "done")
    assert [bill(delivery({"order": "1"}, message_id=name)) for name in ("m1", "m2")] == ["done", None]
    assert 90 < client.ttl("shop:test%test%1") <= 100
    with pytest.raises(KeyInvalid):
        bill(delivery({}))
    for wrong in ("lease", "retention"):
        with pytest.raises(SettingError, match=f"{wrong} is 0:00:00"):
            once(client, **{wrong: timedelta(0)})


async def test_a_coroutine_function(async_client: "redis.asyncio.Redis") -> None:
    effects: list[str] = []
    release = asyncio.Event()

    @once(async_client)
    async def bill(what: str) -> str:
        effects.append(what)
        if what == "fails":
            raise Refused
        if what == "waits":
            await release.wait()
        return what

    with pytest.raises(Refused):
        await bill("fails", MESSAGE(message_id="m1"))
    first = asyncio.create_task(bill("waits", MESSAGE(message_id="m1")))
    await eventually_async(lambda: "waits" in effects)
    with pytest.raises(LeaseHeld):
        await bill("held", MESSAGE(message_id="m1"))
    release.set()
    assert await first == "waits"
    assert await bill("again", MESSAGE(message_id="m1")) is None
    assert effects == ["fails", "waits"]


async def test_a_coroutine_that_is_cancelled_releases_the_lease(async_client: "redis.asyncio.Redis") -> None:
    started = asyncio.Event()

    @once(async_client)
    async def bill(delivery: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(bill(MESSAGE(message_id="m1")))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not await async_client.exists(KEY)
