"""The hub and websockets of one uvicorn with the test as the collector: what is published, and when, is known exactly."""

import asyncio
import contextlib
import json
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis

from console.collector.messages import messages_of
from console.live.sockets import CLIENT_QUEUE_MAX, SEND_SECONDS
from console.snapshot.bus import PREFIX, Publisher
from console.snapshot.state import State, delta, empty
from console.times import rfc3339
from tests.support.console.live import LiveClient, open_feed
from tests.support.servers.shared import PEOPLE, NewSystems
from tests.support.servers.system import System
from tests.support.waiting import eventually_async

SLOW_BUFFER_BYTES = 4_096
LARGE_CHARS = 400_000


@pytest.fixture(scope="module")
def running_web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The console and a Redis, without nodes and collectors."""
    with NewSystems(tmp_path_factory.mktemp("web")) as create:
        found = create(groups=0, console=True, collectors=0, people=PEOPLE)
        found.start_control()
        yield found


@pytest.fixture
def web(running_web: System) -> System:
    """The same with an empty Redis."""
    with redis_of(running_web) as cache:
        cache.flushall()
    return running_web


def redis_of(web: System) -> redis.Redis:
    return redis.Redis.from_url(web.redis.url)


class Beats:
    """Publishes states as the collector does."""

    def __init__(self, url: str) -> None:
        self._publisher = Publisher(url, "test")
        self.state: State = empty()
        self.version = 0
        self.stream = uuid.uuid4().hex

    async def publish(self, text: str, *, is_lost: bool = False) -> None:
        """A beat whose one subject says `text`; a lost one is stored and nobody is told."""
        new = {**self.state, "subjects": {"s": {"subject": "s", "text": text}}}
        self.version += 1
        now_ms = time.time_ns() // 1_000_000
        head = {"stream": self.stream, "version": self.version, "at": rfc3339(now_ms)}
        listened = await self._publisher.listened()
        change = delta(self.state, new)
        messages = [] if is_lost else messages_of(change, head, listened)
        write = await self._publisher.store(self.stream, self.version, new, change)
        assert await self._publisher.publish(write, head, now_ms, "{}", messages)
        self.state = new

    async def close(self) -> None:
        await self._publisher.close()


@pytest.fixture
async def beats(web: System) -> AsyncIterator[Beats]:
    found = Beats(web.redis.url)
    try:
        yield found
    finally:
        await found.close()


def text_of(client: LiveClient) -> Any:
    return (client.state or {}).get("subjects", {}).get("s", {}).get("text")


async def joined(web: System, client: LiveClient) -> None:
    """Its snapshot came."""
    assert (await client.next())["type"] == "snapshot"


async def test_a_missed_version_is_a_reset_and_a_new_snapshot(web: System, beats: Beats) -> None:
    await beats.publish("one")
    async with open_feed(web, "/ws/lag/?subject=s") as client:
        await joined(web, client)
        assert text_of(client) == "one"
        await beats.publish("two")
        assert (await client.next())["type"] == "delta"
        assert text_of(client) == "two"
        await beats.publish("lost", is_lost=True)
        await beats.publish("four")
        assert [(await client.next())["type"] for _ in range(2)] == ["reset", "snapshot"]
        assert (text_of(client), client.version) == ("four", 4)
        # Another collector took over: its versions begin anew.
        beats.stream, beats.version = "s2", 4
        await beats.publish("five")
        assert [(await client.next())["type"] for _ in range(2)] == ["reset", "snapshot"]
        assert (text_of(client), client.contents[-1]["stream"]) == ("five", "s2")


async def test_many_clients_are_one_subscription_and_get_the_same_text(web: System, beats: Beats) -> None:
    await beats.publish("one")
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(open_feed(web, "/ws/lag/?subject=s")) for _ in range(10)]
        await asyncio.gather(*(joined(web, client) for client in clients))
        with redis_of(web) as cache:
            channels = cache.pubsub_channels(f"{PREFIX}*")
            assert sorted(channels) == [f"{PREFIX}beat".encode(), f"{PREFIX}lag.subject.cw".encode()]
            assert [count for _, count in cache.pubsub_numsub(*channels)] == [1, 1]
        await beats.publish("two")
        texts = {await client.socket.recv() for client in clients}
        assert len(texts) == 1
    with redis_of(web) as cache:
        await eventually_async(lambda: not cache.pubsub_channels(f"{PREFIX}*"), what="the channel has no subscribers")


async def test_without_a_snapshot_a_client_is_told_that_nothing_is_known(web: System, beats: Beats) -> None:
    async with open_feed(web, "/ws/lag/?subject=s") as client:
        stale = await client.until(lambda message: message["type"] == "stale")
        assert stale["reason"] == "the collector is not running"
        await beats.publish("one")
        # The hub hears the beat and reads the snapshot on two connections: either may come first.
        await client.until(lambda _: len(client.seen) == 3)
        assert {message["type"] for message in client.seen} == {"stale", "fresh", "snapshot"}
        assert text_of(client) == "one"


async def test_a_client_of_rows_gets_what_it_shows_and_learns_of_silence(web: System, beats: Beats) -> None:
    async with open_feed(web, "/ws/lag/") as client:
        await client.show(subjects=["s"])
        await client.until(lambda message: message["type"] == "stale")
        await beats.publish("one")
        await client.until(lambda _: text_of(client) == "one")
        await client.until(lambda _: "fresh" in {message["type"] for message in client.seen})
        with redis_of(web) as cache:
            assert cache.pubsub_channels(f"{PREFIX}*") == [f"{PREFIX}beat".encode()], "nothing is published for it"
        await client.show(subjects=["other"])
        await client.until(lambda _: text_of(client) is None)
        await beats.publish("two")
        assert (await client.next())["delta"] == {}
        await client.show(subjects=["s", "other"])
        await client.until(lambda _: text_of(client) == "two")


async def test_invalid_messages_on_the_channel_have_no_effect(web: System, beats: Beats) -> None:
    await beats.publish("one")
    async with open_feed(web, "/ws/lag/?subject=s") as client:
        await joined(web, client)
        with redis_of(web) as cache:
            head = f'"stream":"{beats.stream}","version":2,"at":""'
            nonsense = ["", "[]", "{", "1", '{"stream":1}', '{"stream":"s9"}', "{" + head + "}", "\xff"]
            for part in (
                "1",
                '{"other":{}}',
                '{"groups":1}',
                '{"groups":{"gone":[[]],"set":{}}}',
                '{"groups":{"gone":[],"set":{"a":1}}}',
            ):
                nonsense.append(f'{{{head},"delta":{part}}}')
            for text in nonsense:
                cache.publish(f"{PREFIX}lag.subject.cw", text)
                cache.publish(f"{PREFIX}beat", text)
        await beats.publish("two")
        await client.until(lambda _: text_of(client) == "two")
        assert [message["type"] for message in client.contents] == ["snapshot", "delta"]
    assert "the live hub failed" not in web.console.log()


async def test_a_slow_client_is_dropped_while_others_go_on(web: System, beats: Beats) -> None:
    await beats.publish("one")
    # A small receive buffer and a client library that reads no more than one message ahead.
    slow_socket = socket.socket()
    slow_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER_BYTES)
    slow_socket.connect(("127.0.0.1", web.port))
    async with (
        open_feed(web, "/ws/lag/?subject=s", "operator", sock=slow_socket, max_queue=1, close_timeout=0.1) as slow,
        open_feed(web, "/ws/lag/?subject=s") as quick,
    ):
        await joined(web, slow)
        await joined(web, quick)
        for number in range(CLIENT_QUEUE_MAX + 20):
            await beats.publish(f"{number}" + "x" * LARGE_CHARS)
            await quick.until(lambda _, number=number: str(text_of(quick)).startswith(f"{number}x"))
            assert quick.seen.pop()["type"] == "delta"
        await eventually_async(
            lambda: f"operator is closed: 4408 {CLIENT_QUEUE_MAX} messages" in web.console.log(),
            what="it is dropped",
        )
        await beats.publish("still there")
        await quick.until(lambda _: text_of(quick) == "still there")
        assert "viewer is closed" not in web.console.log()


async def test_a_client_that_takes_one_message_too_long_is_dropped(web: System, beats: Beats) -> None:
    await beats.publish("one")
    slow_socket = socket.socket()
    slow_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER_BYTES)
    slow_socket.connect(("127.0.0.1", web.port))
    async with open_feed(
        web, "/ws/lag/?subject=s", "operator", sock=slow_socket, max_queue=1, close_timeout=0.1
    ) as slow:
        await joined(web, slow)
        began = time.monotonic()
        for number in range(12):
            await beats.publish(f"{number}" + "x" * LARGE_CHARS * 4)
        await eventually_async(
            lambda: f"a message could not be sent within {SEND_SECONDS:g} s" in web.console.log(), what="dropped"
        )
        assert time.monotonic() - began >= SEND_SECONDS


async def test_one_text_for_json_and_python(web: System, beats: Beats) -> None:
    await beats.publish("\u4e3b\u9898 \U0001f600 \u2028")
    async with open_feed(web, "/ws/lag/?subject=s") as client:
        await joined(web, client)
        assert text_of(client) == "\u4e3b\u9898 \U0001f600 \u2028"
        assert json.dumps(client.state)
