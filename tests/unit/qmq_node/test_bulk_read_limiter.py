"""Who may read in bulk, how many at a time, and how fast."""

import asyncio
import logging
from typing import Any, cast

import pytest

from qmq.errors import LogError, ReadRefused
from qmq.protocol import bulk_read
from qmq.protocol.codes import CURRENT_VERSION, Command, ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor
from qmq_node.requests.bulk_read_limiter import PIECE_BYTES_MIN, BulkReadLimiter
from qmq_node.server.connection import Connection
from tests.support.manual_clock import ManualClock


class Peer:
    """Takes answers down in place of a connection."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.is_closed = False
        self.peer = "test"
        self.answer_room = 64 << 20

    def reply(self, frame: Frame, code: int, *parts: bytes) -> None:
        self.answers.append((code, b"".join(parts)))

    @property
    def codes(self) -> list[str]:
        """What was answered: "" or the code of a refusal."""
        return [Refusal.decode(body).code if code == ResponseCode.PARAM_ERROR else "" for code, body in self.answers]


def frame(token: str = "") -> Frame:
    body = memoryview(bulk_read.ListNodesRequest(token).encode())
    return Frame(Command.LIST_NODES, CURRENT_VERSION, 1, 0, Command.LIST_NODES, body, bytearray(), 0)


def make(clock: ManualClock | None = None, **changes: Any) -> BulkReadLimiter:
    clock = clock or ManualClock()
    supervisor = Supervisor(clock, logger=logging.getLogger("test"), on_failure=lambda name, error: None)
    return BulkReadLimiter(clock, supervisor, **{"token": "", "bytes_per_second": 0, **changes})


def serve(gate: BulkReadLimiter, peer: Peer, token: str = "", parts: Any = lambda: [b"x"]) -> None:
    async def work(_: bulk_read.ListNodesRequest) -> list[bytes]:
        return cast(list[bytes], parts())

    gate.handler(bulk_read.ListNodesRequest, work)(cast(Connection, peer), frame(token))


async def finished(gate: BulkReadLimiter) -> None:
    await asyncio.gather(*gate._tasks, return_exceptions=True)
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("token", "given", "code"),
    [
        ("", "", ""),
        ("", "anything", ""),
        ("secret", "secret", ""),
        ("secret", "", bulk_read.FORBIDDEN),
        ("secret", "secre", bulk_read.FORBIDDEN),
        ("secret", "sécret", bulk_read.FORBIDDEN),
        ("sécret", "sécret", ""),
    ],
)
async def test_a_token_opens(token: str, given: str, code: str) -> None:
    gate, peer = make(token=token), Peer()
    serve(gate, peer, given)
    await finished(gate)
    assert peer.codes == [code]
    assert gate.counters.refused.total() == (1 if code else 0)


async def test_only_so_many_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmq_node.requests.bulk_read_limiter.READS_MAX", 2)
    gate, peer = make(), Peer()
    for _ in range(3):
        serve(gate, peer)
    assert peer.codes == [bulk_read.BUSY]
    await finished(gate)
    assert peer.codes == [bulk_read.BUSY, "", ""]
    serve(gate, peer)
    await finished(gate)
    assert peer.codes[-1] == ""
    assert gate.counters.bytes == 3


async def test_readers_get_the_rate_together_and_no_more() -> None:
    clock, waited = ManualClock(), list[float]()

    async def pause(seconds: float) -> None:
        waited.append(seconds)
        clock.advance(seconds)

    gate, peer = make(clock, bytes_per_second=1_000_000, pause=pause), Peer()
    for _ in range(10):
        serve(gate, peer, parts=lambda: [bytes(200_000), bytes(50_000)])
    await finished(gate)
    assert len(peer.answers) == 10
    # The first is free, and what the last took is owed by the next.
    assert sum(waited) == pytest.approx(9 * 0.25)
    assert gate.counters.waited_seconds == pytest.approx(9 * 0.25)
    clock.advance(60)
    serve(gate, peer)
    await finished(gate)
    assert sum(waited) == pytest.approx(9 * 0.25), "a gate that was idle owes nothing"


def test_answers_are_pieces_of_what_the_rate_allows() -> None:
    assert make(bytes_per_second=0).piece_bytes(1 << 30) == bulk_read.READ_BYTES_MAX
    assert make(bytes_per_second=100 << 20).piece_bytes(1 << 30) == 3 << 20
    assert make(bytes_per_second=1 << 30).piece_bytes(1 << 30) == bulk_read.READ_BYTES_MAX
    assert make(bytes_per_second=1).piece_bytes(1 << 30) == PIECE_BYTES_MIN
    assert make(bytes_per_second=4 << 20).piece_bytes(100) == 100
    assert make().piece_bytes(-5) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ReadRefused("gone", code=bulk_read.UNKNOWN_SUBJECT), bulk_read.UNKNOWN_SUBJECT),
        (LogError("disk"), bulk_read.UNREADABLE),
    ],
)
async def test_what_goes_wrong_is_said(error: Exception, code: str) -> None:
    def fails() -> None:
        raise error

    gate, peer = make(), Peer()
    serve(gate, peer, parts=fails)
    await finished(gate)
    assert peer.codes == [code]


async def test_an_unforeseen_failure_is_answered_and_does_not_block_the_next() -> None:
    gate, peer = make(), Peer()
    serve(gate, peer, parts=lambda: 1 // 0)
    serve(gate, peer)
    await finished(gate)
    assert sorted(code for code, _ in peer.answers) == [ResponseCode.SUCCESS, ResponseCode.BROKER_ERROR]


async def test_a_stop_tells_those_who_wait_to_come_back() -> None:
    gate, peer = make(), Peer()
    began = asyncio.Event()

    async def never(_: bulk_read.ListNodesRequest) -> list[bytes]:
        began.set()
        await asyncio.Event().wait()
        return []

    gate.handler(bulk_read.ListNodesRequest, never)(cast(Connection, peer), frame())
    serve(gate, peer)
    await began.wait()
    await gate.close()
    await finished(gate)
    serve(gate, peer)
    assert peer.codes == [bulk_read.BUSY] * 3


async def test_who_hung_up_is_not_read_for() -> None:
    gate, peer = make(), Peer()
    peer.is_closed = True
    serve(gate, peer, parts=lambda: pytest.fail("read for nobody"))
    await finished(gate)
    assert not peer.answers
