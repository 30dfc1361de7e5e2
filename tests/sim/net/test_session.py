"""Registrations of many subjects: when each is sent, and how many in one turn of the event loop."""

import asyncio

import pytest

from qmq.errors import ConnectionLost
from qmq.net import meta_connection
from qmq.net import session as module
from qmq.net.session import REFRESH_INTERVAL_SECONDS, REFRESH_SECONDS, MetaSession
from qmq.net.timing import DEFAULT_BACKOFF, DEFAULT_TIMEOUTS
from qmq.protocol.codes import ClientType, ResponseCode
from qmq.protocol.commands import BrokerGroupRoute, ClientRegisterRequest, ClientRegisterResponse
from qmq.protocol.frames import HEADER_BYTES, Frame


class Line:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.is_closed = False

    def send_frame(self, frame: bytes) -> None:
        if self.is_closed:
            raise ConnectionLost("closed")
        self.sent.append(ClientRegisterRequest.decode(memoryview(frame)[HEADER_BYTES:]).subject)

    def taken(self) -> list[str]:
        sent, self.sent = self.sent, []
        return sent


def session_on(line: Line, count: int) -> MetaSession:
    """A session that is connected, with subjects s0, s1 and so on."""
    session = MetaSession(["unused"], app="app", client_id="c", timeouts=DEFAULT_TIMEOUTS, backoff=DEFAULT_BACKOFF)
    session._connection._caller = line  # type: ignore[assignment]
    for number in range(count):
        session.register(f"s{number}", ClientType.PRODUCER)
    return session


async def test_each_subject_is_registered_once_then_every_minute_and_sooner_on_request() -> None:
    line, names = Line(), [f"s{number}" for number in range(5)]
    session = session_on(line, 5)
    await session._send_requests()
    assert line.taken() == names
    await asyncio.sleep(REFRESH_SECONDS / 2)
    session.register("late", ClientType.PRODUCER)
    session.refresh("s3", ClientType.PRODUCER)
    await session._send_requests()
    assert line.taken() == ["late", "s3"]
    await asyncio.sleep(REFRESH_INTERVAL_SECONDS / 2)
    session.refresh("s3", ClientType.PRODUCER)
    await session._send_requests()
    assert line.taken() == [], "it was asked for a moment ago"
    await asyncio.sleep(REFRESH_SECONDS / 2)
    await session._send_requests()
    assert line.taken() == ["s0", "s1", "s2", "s4"]
    await asyncio.sleep(REFRESH_SECONDS / 2)
    await session._send_requests()
    assert line.taken() == ["late", "s3"]


async def test_a_turn_of_the_loop_sends_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUESTS_PER_BATCH", 10)
    line = Line()
    session = session_on(line, 25)
    sending = asyncio.create_task(session._send_requests())
    counts = []
    for _ in range(4):
        await asyncio.sleep(0)
        counts.append(len(line.sent))
    assert counts == [10, 20, 25, 25]
    await sending


async def test_what_a_lost_connection_left_is_registered_on_the_next_one_with_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REQUESTS_PER_BATCH", 2)
    line = Line()
    session = session_on(line, 5)
    sending = asyncio.create_task(session._send_requests())
    await asyncio.sleep(0)
    line.is_closed = True
    with pytest.raises(ConnectionLost):
        await sending
    assert line.taken() == ["s0", "s1"]
    again = Line()

    async def found(url: str) -> tuple[str, int]:
        return "", 0

    class Caller:
        def __init__(self, *arguments: object, **more: object) -> None:
            self.is_closed, self.send_frame = False, again.send_frame

        async def connect(self) -> None:
            pass

    monkeypatch.setattr(meta_connection, "find_metaserver", found)
    monkeypatch.setattr(meta_connection, "Caller", Caller)
    await session._connect()
    await session._send_requests()
    assert again.taken() == ["s0", "s1", "s2", "s3", "s4"]


async def test_another_master_of_a_broker_group_is_reported_once_also_after_a_route_without_one() -> None:
    session = session_on(Line(), 2)
    changes: list[tuple[str, int, str]] = []
    session.on_master_changed = lambda *change: changes.append(change)

    def push(subject: str, *masters: str) -> None:
        routes = tuple(BrokerGroupRoute(f"g{number}", master, 0, 1) for number, master in enumerate(masters))
        answer = ClientRegisterResponse(1, subject, "", True, ClientType.PRODUCER, routes)
        body = bytearray(answer.encode())
        session._pushed(Frame(ResponseCode.SUCCESS, 9, 0, 0, 0, memoryview(body), body, 0))

    push("s0", "h:1", "h:2")
    push("s1", "h:1")
    push("s0", "h:1", "h:2")
    assert changes == []
    push("s0", "", "h:3")
    push("s0", "h:4", "h:3")
    push("s0", "h:4", "h:3")
    assert changes == [("s0", ClientType.PRODUCER, "h:2"), ("s0", ClientType.PRODUCER, "h:1")]
    push("strange", "h:1")
    push("strange", "h:2")
    assert len(changes) == 2
    assert len(session._masters) == 2, "routes of a subject that is not registered take no memory"
