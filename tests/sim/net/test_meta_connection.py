"""A client with several metaservers: which one it uses, when it gives one up, and what that costs."""

import asyncio
import logging

import pytest

from qmq.clock import SYSTEM_CLOCK
from qmq.errors import ConnectionLost
from qmq.net.discovery import METASERVERS_MAX
from qmq.net.meta_connection import ANSWER_SECONDS, CONNECT_SECONDS, PING_SECONDS, LastGood, MetaConnection
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF, DEFAULT_TIMEOUTS
from qmq.protocol.codes import BrokerGroupState, ClientType, Command, ResponseCode
from qmq.protocol.commands import BrokerGroupRoute, ClientRegisterRequest, ClientRegisterResponse
from qmq.protocol.frames import Frame, encode_request
from qmq_node.server.connection import Connection
from qmq_node.server.server import FrameServer
from tests.sim.world.network import SimulatedListener


class Fake:
    """A metaserver that answers what its fields say. `url` is the key under which `find` finds it."""

    def __init__(self, name: str) -> None:
        self.url = f"http://{name}/meta/address"
        self.server = FrameServer("127.0.0.1", 0, self.handle, clock=SYSTEM_CLOCK, listen=SimulatedListener)
        self.is_found = True
        self.answers = self.answers_pings = True
        self.timestamp_ms = 1_000
        self.online = True
        self.registered: list[str] = []
        self.pings = 0

    def handle(self, connection: Connection, frame: Frame) -> None:
        if frame.code == Command.HEARTBEAT:
            self.pings += 1
            if self.answers_pings:
                connection.reply(frame, Command.HEARTBEAT)
            return
        request = ClientRegisterRequest.decode(frame.body)
        self.registered.append(request.subject)
        if self.answers:
            routes = (BrokerGroupRoute("g1", "h:1", 0, BrokerGroupState.READ_WRITE),)
            answer = ClientRegisterResponse(
                self.timestamp_ms, request.subject, request.group, self.online, request.client_type, routes
            )
            connection.reply(frame, ResponseCode.SUCCESS, answer.encode())


class Fakes:
    """Metaservers a, b and so on, and the address pages of all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.all = [Fake(name) for name in "abcde"[:count]]
        self.asked: list[str] = []
        monkeypatch.setattr("qmq.net.meta_connection.find_metaserver", self.find)

    @property
    def urls(self) -> list[str]:
        return [fake.url for fake in self.all]

    async def find(self, url: str) -> tuple[str, int]:
        self.asked.append(url)
        (fake,) = [fake for fake in self.all if fake.url == url]
        if not fake.is_found:
            raise ConnectionLost(f"{url} can't be reached")
        return fake.server.address

    async def start(self) -> None:
        for fake in self.all:
            await fake.server.start()

    async def close(self) -> None:
        for fake in self.all:
            await fake.server.close(0)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    return Fakes(monkeypatch, 2)


def session_of(fakes: Fakes) -> MetaSession:
    return MetaSession(fakes.urls, app="", client_id="c", timeouts=DEFAULT_TIMEOUTS, backoff=DEFAULT_BACKOFF)


def test_the_last_good_one_is_the_first_of_the_next_turn() -> None:
    urls = LastGood(["a", "b", "c"])
    assert list(urls.candidates()) == ["a", "b", "c"]
    for url in urls.candidates():
        if url == "b":
            break
    assert list(urls.candidates()) == ["b", "c", "a"]
    urls.skip()
    assert list(urls.candidates()) == ["c", "a", "b"]
    assert str(urls) == "a, b, c"


async def test_the_first_that_can_be_reached_is_used_and_stays_in_use(two: Fakes) -> None:
    a, b = two.all
    await two.start()
    a.is_found = False
    session = session_of(two)
    session.start()
    assert await session.wait_routes("orders", ClientType.PRODUCER)
    assert (a.registered, b.registered) == ([], ["orders"])
    a.is_found = True
    for connection in list(b.server.connections):
        connection.abort()
    two.asked.clear()
    assert await session.wait_routes("payments", ClientType.PRODUCER)
    assert two.asked == [b.url], "the last good one first"
    assert sorted(b.registered) == ["orders", "orders", "payments"], "all are registered again"
    await session.close()
    await two.close()


async def test_none_that_can_be_reached_is_an_error_that_names_all(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = Fakes(monkeypatch, METASERVERS_MAX)
    for fake in fakes.all:
        fake.is_found = False
    connection = MetaConnection(fakes.urls, on_push=lambda frame: None, on_lost=lambda: None, connect_seconds=5.0)
    with pytest.raises(ConnectionLost) as caught:
        await connection.open()
    assert str(caught.value) == "; ".join(f"{url} can't be reached" for url in fakes.urls)
    assert fakes.asked == fakes.urls
    with pytest.raises(ConnectionLost, match="not connected to a metaserver"):
        connection.send(b"")


async def test_one_that_accepts_and_never_answers_costs_seconds_and_known_routes_stay(two: Fakes) -> None:
    a, b = two.all
    await two.start()
    session = session_of(two)
    session.start()
    assert await session.wait_routes("known", ClientType.PRODUCER)
    a.answers = a.answers_pings = False
    began = now()
    waiting = asyncio.ensure_future(session.wait_routes("new", ClientType.PRODUCER))
    await asyncio.sleep(ANSWER_SECONDS / 2)
    assert session.routes("known", ClientType.PRODUCER)
    assert await waiting
    # It is looked at once a second.
    assert ANSWER_SECONDS * 2 <= now() - began < ANSWER_SECONDS * 2 + 1 + DEFAULT_BACKOFF.first + 0.05
    assert sorted(b.registered) == ["known", "new"]
    await session.close()
    await two.close()


async def test_one_that_holds_an_answer_back_is_kept_as_long_as_it_answers_pings(two: Fakes) -> None:
    a, b = two.all
    a.answers = False
    await two.start()
    session = session_of(two)
    session.start()
    session.register("held", ClientType.PRODUCER)
    await asyncio.sleep(30)
    assert 30 / (PING_SECONDS + 1) - 1 <= a.pings <= 30 / PING_SECONDS + 1
    assert (a.registered, b.registered) == (["held"], [])
    a.answers_pings = False
    await asyncio.sleep(PING_SECONDS + 1 + ANSWER_SECONDS + 1)
    assert b.registered == ["held"]
    await session.close()
    await two.close()


async def test_a_single_metaserver_is_never_pinged_or_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = Fakes(monkeypatch, 1)
    (a,) = fakes.all
    a.answers = a.answers_pings = False
    await fakes.start()
    session = session_of(fakes)
    session.start()
    session.register("held", ClientType.PRODUCER)
    await asyncio.sleep(30)
    assert (a.pings, a.registered) == (0, ["held"])
    assert len(a.server.connections) == 1
    await session.close()
    await fakes.close()


async def test_times_of_two_metaservers_are_not_compared(two: Fakes) -> None:
    a, b = two.all
    a.timestamp_ms, b.timestamp_ms = 3_600_000, 1_000
    await two.start()
    session = session_of(two)
    session.start()
    assert await session.wait_routes("orders", ClientType.CONSUMER, "g")
    assert session.is_online("orders", "g")
    a.is_found, b.online = False, False
    for connection in list(a.server.connections):
        connection.abort()
    await asyncio.sleep(2)
    assert b.registered == ["orders"]
    assert not session.is_online("orders", "g"), "b's clock is an hour behind that of a"
    await session.close()
    await two.close()


async def test_opening_a_connection_to_one_of_several_takes_seconds_at_most(
    two: Fakes, caplog: pytest.LogCaptureFixture
) -> None:
    one = MetaConnection(two.urls[:1], on_push=lambda frame: None, on_lost=lambda: None, connect_seconds=5.0)
    several = MetaConnection(two.urls, on_push=lambda frame: None, on_lost=lambda: None, connect_seconds=5.0)
    assert (one._connect_seconds, several._connect_seconds) == (5.0, CONNECT_SECONDS)
    await two.start()
    with caplog.at_level(logging.INFO, "qmq.client"):
        await several.open()
        two.all[0].is_found = False
        await several.close()
        await several.open()
    assert f"using metaserver {two.urls[1]} instead of {two.urls[0]}" in caplog.text
    several.send(encode_request(Command.HEARTBEAT, 0, b""))
    await several.close()
    await two.close()
