"""A node that answers nonsense is missing; the others are read (F-7)."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from qmq.protocol.bulk_read import NodeLine, RangesPage, SubjectRange
from qmq.protocol.codes import ResponseCode
from qmq.protocol.frames import FLAG_RESPONSE, encode_request
from spark_analytics.jobs.sampling import Brokers, look, sampled_ranges
from spark_analytics.schemas import SEQUENCES_PER_LOG
from spark_analytics.source.listing import Listing

Answer = Callable[[int], bytes]
"""The bytes that a node sends for a request with this number."""


def _frame(body: bytes, code: int = ResponseCode.SUCCESS) -> Answer:
    return lambda opaque: encode_request(code, opaque, body, flag=FLAG_RESPONSE)


GOOD = RangesPage("g", "g-a", 1_700_000_000_000, (), "", "folder-1").encode()
FORGED: dict[str, Answer] = {
    "closes": lambda opaque: b"",
    "no frame": lambda opaque: b"HTTP/1.1 200 OK\r\n\r\n",
    "half a frame": lambda opaque: _frame(GOOD)(opaque)[:-1],
    "a frame of 2 GiB": lambda opaque: struct.pack(">i", (1 << 31) - 1) + b"x" * 100,
    "an unknown code": _frame(b"", 77),
    "a refusal": _frame(b"\xff\xfe", ResponseCode.BROKER_ERROR),
    "an empty body": _frame(b""),
    "no UTF-8": _frame(GOOD.replace(b"folder-1", b"\xff" * 8)),
    "a body that ends early": _frame(GOOD[:-3]),
    "a length beyond the body": _frame(b"\x7f\xff" + GOOD[2:]),
    "noise": _frame(bytes(range(256))),
}


class FakeNode:
    """Answers every request of every connection with the same bytes, then closes the connection."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(1 << 16)
                if len(request) < 20:
                    continue
                # Size, header size, magic, code, version, opaque.
                (opaque,) = struct.unpack_from(">i", request, 14)
                connection.sendall(self._answer(opaque))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def start() -> Iterator[Callable[[Answer], FakeNode]]:
    nodes: list[FakeNode] = []

    def start_one(answer: Answer) -> FakeNode:
        nodes.append(FakeNode(answer))
        return nodes[-1]

    yield start_one
    for node in nodes:
        node.close()


def line(group: str, address: str) -> NodeLine:
    return NodeLine(group, f"{group}-a", "broker", "master", address, "", "read_write", 1, 0, 1)


@pytest.mark.parametrize("what", FORGED)
def test_f7_a_node_that_answers_nonsense_is_missing_and_the_others_are_read(
    start: Callable[[Answer], FakeNode], what: str
) -> None:
    good, forged = start(_frame(GOOD)), start(FORGED[what])
    found = look([line("evil", forged.address), line("g1", good.address)], "")
    assert found.logs == {"g1": "folder-1"}
    assert found.names == {"evil", "g1"}
    assert set(found.missing) == {"evil"}
    assert forged.address in found.missing["evil"]


@pytest.mark.parametrize(
    "address", ["", "evil", "evil:x", "127.0.0.1:1", "127.0.0.1:99999", "[::1", "a..b:1", "x" * 80 + ":1"]
)
def test_f7_a_node_with_an_unusable_address_is_missing(start: Callable[[Answer], FakeNode], address: str) -> None:
    good = start(_frame(GOOD))
    found = look([line("evil", address), line("g1", good.address)], "")
    assert found.logs == {"g1": "folder-1"}
    assert found.names == {"evil", "g1"}
    assert set(found.missing) == {"evil"}


def test_a_subject_is_sampled_again_when_something_was_removed() -> None:
    at = datetime(2026, 11, 21, 9, tzinfo=UTC)

    def held(**begins: int) -> list[SubjectRange]:
        return [SubjectRange(name, begin, 50, begin, 50) for name, begin in begins.items()]

    # A subject with many groups comes in parts; it may have grown meanwhile.
    parts = [*held(a=1, b=2), SubjectRange("b", 2, 51, 2, 51)]
    brokers = Brokers(
        frozenset({"g1", "g2"}),
        [Listing(line("g1", "x:1"), 5, "second", tuple(parts)), Listing(line("g2", "y:1"), 5, "", tuple(held(a=3)))],
    )
    logs = {"g1": ["first", "second"]}
    shift = SEQUENCES_PER_LOG
    rows = [("g1", "a", shift + 1, shift + 50), ("g1", "b", shift + 2, shift + 50), ("g2", "a", 3, 50)]
    assert sorted(row[1:] for row in sampled_ranges(brokers, logs, at, {})) == rows
    before = {("g1", "a"): shift + 1, ("g1", "b"): shift + 1, ("g2", "a"): 3}
    assert list(sampled_ranges(brokers, logs, at, before)) == [(at, "g1", "b", shift + 2, shift + 50)]
