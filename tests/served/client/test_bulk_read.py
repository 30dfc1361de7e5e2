"""The blocking client for reads in bulk: pages without holes, one request ahead, and connections that break on the way."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qmq.errors import CallTimeout, ConnectionLost, ProtocolError, ReadRefused
from qmq.protocol import bulk_read
from qmq.protocol.bulk_read import EntriesPage, ReadRequest
from qmq.protocol.codes import ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame, FrameReader
from spark_analytics.source.node_reader import ATTEMPTS_MAX, BUSY_ATTEMPTS_MAX, NodeReader, metaserver_address
from tests.support.drivers.feeding import feed
from tests.support.drivers.in_process import running_broker
from tests.support.drivers.wire import encode_response

STORED = 1_000
PAGE = 100


def entries(begin: int, end: int) -> bytes:
    """Entries that tell their numbers."""
    return b"".join(n.to_bytes(32, "big") for n in range(begin, end))


def numbers(pages: list[EntriesPage]) -> list[int]:
    data = b"".join(bytes(page.data) for page in pages)
    return [int.from_bytes(data[at : at + 32], "big") for at in range(0, len(data), 32)]


class Script:
    """A node of one subject, on a real socket; `on_request` decides what becomes of each request, in order."""

    def __init__(self) -> None:
        self.begin = 0
        self.asked: list[int] = []
        self.connections = 0
        self.on_request: Callable[[int], str] = lambda _number: "answer"

    def answer(self, frame: Frame) -> bytes:
        request = ReadRequest.decode(frame.body)
        first = max(request.begin, min(self.begin, request.end))
        last = max(first, min(request.end, STORED, first + PAGE))
        page = EntriesPage(self.begin, STORED, first, entries(first, last))
        return encode_response(frame, ResponseCode.SUCCESS, page.encode())

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                self.talk(connection)

    def talk(self, connection: socket.socket) -> None:
        frames = FrameReader()
        while True:
            try:
                data = connection.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            for frame in feed(frames, data):
                self.asked.append(ReadRequest.decode(frame.body).begin)
                match self.on_request(len(self.asked) - 1):
                    case "answer":
                        connection.sendall(self.answer(frame))
                    case "half":
                        connection.sendall(self.answer(frame)[:500])
                        return
                    case "close":
                        return
                    case "busy":
                        body = Refusal(bulk_read.BUSY, "too many").encode()
                        connection.sendall(encode_response(frame, ResponseCode.PARAM_ERROR, body))
                    case "forbidden":
                        body = Refusal(bulk_read.FORBIDDEN, "wrong token").encode()
                        connection.sendall(encode_response(frame, ResponseCode.PARAM_ERROR, body))
                    case "unknown":
                        connection.sendall(encode_response(frame, ResponseCode.UNKNOWN_CODE))
                    case "backward":
                        page = EntriesPage(0, STORED, 0, entries(0, 1))
                        connection.sendall(encode_response(frame, ResponseCode.SUCCESS, page.encode()))
                    case "rubbish":
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 2)


@contextmanager
def scripted() -> Iterator[tuple[Script, NodeReader, list[float]]]:
    """A node by script, a reader of it, and how long it waited between attempts."""
    script, waits = Script(), list[float]()
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=script.serve, args=(listener,))
    thread.start()
    try:
        with NodeReader(f"127.0.0.1:{listener.getsockname()[1]}", answer_seconds=5.0, wait=waits.append) as reader:
            yield script, reader, waits
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def test_a_range_comes_in_pages_without_holes() -> None:
    with scripted() as (script, reader, waits):
        pages = list(reader.index("orders", 30, 5_000))
        assert numbers(pages) == list(range(30, STORED))
        assert script.asked == [*range(30, STORED, PAGE), STORED]
        assert next(reader.index("orders", 7, 9)).data == entries(7, 9)
        assert list(reader.index("orders", 9, 9)) == []
        assert not waits
        assert script.connections == 1


def test_the_next_page_is_asked_for_before_this_one_is_decoded() -> None:
    with scripted() as (script, reader, _):
        came = threading.Event()
        script.on_request = lambda number: came.set() or "answer" if number == 1 else "answer"
        pages = reader.index("orders", 0, STORED)
        next(pages)
        assert came.wait(5), "nothing was asked ahead"
        pages.close()
        # What was asked ahead and is not wanted any more does not disturb later questions.
        assert numbers(list(reader.index("orders", 500, 510))) == list(range(500, 510))
        assert script.connections == 1


def test_two_ranges_may_be_read_in_turns() -> None:
    with scripted() as (_, reader, waits):
        one, other = reader.index("orders", 0, 300), reader.index("orders", 500, 800)
        pairs = list(zip(one, other, strict=True))
        assert numbers([page for page, _ in pairs]) == list(range(300))
        assert numbers([page for _, page in pairs]) == list(range(500, 800))
        assert not waits, "an answer was waited for that had come before"


@pytest.mark.parametrize("how", ["close", "half", "busy"])
def test_what_is_lost_on_the_way_is_asked_for_again(how: str) -> None:
    with scripted() as (script, reader, waits):
        script.on_request = lambda number: how if number in (0, 2, 3, 7) else "answer"
        assert numbers(list(reader.index("orders", 0, STORED))) == list(range(STORED))
        assert waits
        assert script.connections == (1 if how == "busy" else 5)


def test_attempts_end_and_their_pauses_grow() -> None:
    with scripted() as (script, reader, waits):
        script.on_request = lambda _number: "close"
        with pytest.raises(ConnectionLost):
            list(reader.index("orders", 0, STORED))
        assert script.connections == ATTEMPTS_MAX
        assert len(waits) == ATTEMPTS_MAX - 1
        assert waits[0] < waits[2] < waits[4] <= 3.0


def test_a_busy_node_is_asked_for_longer_than_a_lost_one_and_not_for_ever() -> None:
    with scripted() as (script, reader, waits):
        script.on_request = lambda _number: "busy"
        with pytest.raises(ReadRefused) as refused:
            list(reader.index("orders", 0, STORED))
        assert refused.value.code == bulk_read.BUSY
        assert (len(script.asked), script.connections) == (BUSY_ATTEMPTS_MAX, 1)
        assert 60 < sum(waits) < 180


def test_a_node_that_is_silent_is_given_up_in_time() -> None:
    with scripted() as (script, reader, _):
        script.on_request = lambda _number: "silence"
        short = NodeReader(reader.address, answer_seconds=0.05, attempts_max=2, wait=lambda _seconds: None)
        with short, pytest.raises(CallTimeout, match=r"0\.05 s"):
            list(short.index("orders", 0, STORED))
        assert len(script.asked) >= 1


@pytest.mark.parametrize(("how", "code"), [("forbidden", "reading.forbidden"), ("unknown", "reading.unsupported")])
def test_a_refusal_is_not_asked_again(how: str, code: str) -> None:
    with scripted() as (script, reader, waits):
        script.on_request = lambda _number: how
        with pytest.raises(ReadRefused) as refused:
            list(reader.index("orders", 0, STORED))
        assert refused.value.code == code
        assert (len(script.asked), waits) == (1, [])


@pytest.mark.parametrize("how", ["backward", "rubbish"])
def test_answers_that_can_not_be_are_refused(how: str) -> None:
    with scripted() as (script, reader, _):
        script.on_request = lambda _number: how
        with pytest.raises(ProtocolError):
            list(reader.index("orders", 50, STORED))


def test_what_retention_took_shows_in_the_pages() -> None:
    with scripted() as (script, reader, _):
        script.begin = 250
        pages = list(reader.index("orders", 100, 400))
        assert [page.first for page in pages] == [250, 350]
        gone = list(reader.index("orders", 100, 200))
        assert [(page.first, len(page.data), page.begin) for page in gone] == [(200, 0, 250)]


def test_nobody_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    reader = NodeReader(f"127.0.0.1:{port}", attempts_max=2, wait=lambda _seconds: None)
    with pytest.raises(ConnectionLost, match="can't be reached"):
        reader.nodes()
    with pytest.raises(ConnectionLost, match="can't be reached"):
        metaserver_address(f"127.0.0.1:{port}")
    with pytest.raises(ReadRefused, match="not the address of a node"):
        NodeReader("nowhere")


async def test_a_page_that_is_no_address_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        with pytest.raises(ConnectionLost, match="a metaserver returns host:port"):
            await asyncio.to_thread(metaserver_address, "http://{}:{}/stats".format(*broker.admin.address))
        with (
            pytest.raises(ReadRefused, match="LIST_NODES"),
            NodeReader("{}:{}".format(*broker.server.address)) as reader,
        ):
            await asyncio.to_thread(reader.nodes)
