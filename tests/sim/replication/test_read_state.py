"""How a slave reads its master's state: a scripted master, and what it must not answer."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker_node.recovery.checkpoint import CHECKPOINT_NAME
from broker_node.recovery.checkpoint_reading import DerivedStateWrong, state_of_copy
from qmq.errors import ConnectionLost, LogError, ProtocolError
from qmq.net.caller import Caller
from qmq.protocol.codes import ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame
from qmq.protocol.replication import (
    COPY_BEYOND,
    COPY_BUSY,
    COPY_NO_FILE,
    COPY_REMOVED,
    READ_COPY_BYTES_MAX,
    ReadCopyRequest,
    ReadCopyResponse,
)
from qmq_node.log.checkpoint import CheckpointStore, save_copied
from qmq_node.log.record import Position
from qmq_node.replication.slave import state_copy
from qmq_node.replication.slave.follow_outcomes import FollowerIdentity
from qmq_node.replication.slave.state_copy import StateRemoved, read_file, read_state
from qmq_node.replication.state_files import WantedBytes
from qmq_node.server.connection import Connection
from qmq_node.server.server import FrameServer
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import machine

IDENTITY = FollowerIdentity("g1", "b", "boot", None, 3, "00000000-0000-4000-8000-000000000003", "")
STATE = bytes(range(250)) * 4
LOG_ID = "0123456789abcdef"
Answer = Callable[[ReadCopyRequest], ReadCopyResponse | Refusal]


def good(request: ReadCopyRequest) -> ReadCopyResponse:
    """300 bytes at a time."""
    return ReadCopyResponse(77, len(STATE), STATE[request.begin : request.begin + 300], LOG_ID)


async def read(answer: Answer) -> tuple[tuple[bytes, str], list[tuple[int, int]], list[ReadCopyRequest]]:
    """What is read from a master that answers like this, the progress, and the requests."""
    progress: list[tuple[int, int]] = []
    async with answering(answer) as (caller, requests):
        return await read_state(caller, IDENTITY, lambda *sizes: progress.append(sizes)), progress, requests


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[tuple[Caller, list[ReadCopyRequest]]]:
    """A connection to a master that answers like this, and the requests."""
    requests: list[ReadCopyRequest] = []

    def handle(connection: Connection, frame: Frame) -> None:
        requests.append(ReadCopyRequest.decode(frame.body))
        body = answer(requests[-1])
        code = ResponseCode.PARAM_ERROR if isinstance(body, Refusal) else ResponseCode.SUCCESS
        connection.reply(frame, code, body.encode())

    server = FrameServer("127.0.0.1", 0, handle, clock=machine().clock, listen=machine().listen)
    await server.start()
    caller = Caller(*server.address)
    await caller.connect()
    try:
        yield caller, requests
    finally:
        await caller.close()
        await server.close(0)


async def test_a_state_is_read_piece_by_piece() -> None:
    (data, log_id), progress, requests = await read(good)
    assert (data, log_id) == (STATE, LOG_ID)
    assert progress == [(300, 1000), (600, 1000), (900, 1000), (1000, 1000)]
    assert [(request.position, request.begin) for request in requests] == [(0, 0), (77, 300), (77, 600), (77, 900)]
    assert {(r.broker_group, r.node_id, r.epoch, r.promotion_id) for r in requests} == {
        ("g1", "b", 3, IDENTITY.promotion_id)
    }


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (lambda r: Refusal(COPY_REMOVED, "gone"), ConnectionLost, "the master's state can't be read: gone"),
        (lambda r: ReadCopyResponse(77, 1000, b""), ProtocolError, "answered with 0 bytes"),
        (lambda r: ReadCopyResponse(0, 1000, b"x"), ProtocolError, "of the state at 0"),
        (lambda r: ReadCopyResponse(77 + r.begin, 1000, b"x"), ProtocolError, "of the state at 78"),
        (lambda r: ReadCopyResponse(77, 10_001, b"x"), ProtocolError, "has 10001 bytes, the limit is 10000"),
    ],
    ids=["removed", "no data", "no position", "another state", "too large"],
)
async def test_bad_answers_end_the_session(
    answer: Answer, error: type[Exception], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_copy, "STATE_BYTES_MAX", 10_000)
    with pytest.raises(error, match=why):
        await read(answer)


def test_a_state_that_is_damaged_is_not_saved() -> None:
    disk = MemoryDisk()
    source, files = (CheckpointStore(disk, folder, CHECKPOINT_NAME) for folder in ("source", "copy"))
    source.save([b'{"format": 3, "records_end": 900, "subjects": 0}\n'], Position(700, 5), 600)
    newest = source.open_newest()
    assert newest is not None
    data = newest.read(0, newest.size)
    for at in range(len(data)):
        with pytest.raises(LogError, match="the checkpoint of the master"):
            save_copied(files, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], state_of_copy)
        with pytest.raises(LogError, match="the checkpoint of the master"):
            save_copied(files, data[:at], state_of_copy)
    assert files.load() is None
    assert save_copied(files, data, state_of_copy) == (700, 900)
    found = files.load()
    assert found is not None
    assert (found.log_position, found.synced_to) == (Position(700, 5), 600)
    # Written by a version without replication.
    source.save([b'{"format": 3, "subjects": 0}\n'], Position(700, 5), 600)
    newest = source.open_newest()
    assert newest is not None
    with pytest.raises(DerivedStateWrong, match="can't be read: 'records_end'"):
        save_copied(files, newest.read(0, newest.size), state_of_copy)


NAME = "schedule/2026112913.data"
WANTED = WantedBytes(NAME, 300, 500, 1_000, 0, 1_000)


async def test_a_piece_of_a_file_may_be_shorter_than_what_is_wanted() -> None:
    async with answering(lambda r: ReadCopyResponse(77, 1_000, STATE[r.begin : r.begin + 400])) as (caller, requests):
        assert await read_file(caller, IDENTITY, 77, WANTED) == STATE[300:700]
        assert (requests[0].file, requests[0].position, requests[0].begin, requests[0].bytes_max) == (
            NAME,
            77,
            300,
            500,
        )
        large = replace(WANTED, begin=0, bytes=1 << 40, file_bytes=1_000)
        await read_file(caller, IDENTITY, 77, large)
        assert requests[1].bytes_max == READ_COPY_BYTES_MAX


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (lambda r: Refusal(COPY_REMOVED, "gone"), StateRemoved, "can't be read: gone"),
        (lambda r: Refusal(COPY_NO_FILE, "no such file"), StateRemoved, "no such file"),
        (lambda r: Refusal(COPY_BEYOND, "it has less"), StateRemoved, "it has less"),
        (lambda r: Refusal(COPY_BUSY, "later"), ConnectionLost, "later"),
        (lambda r: ReadCopyResponse(77, 1_000, b""), ProtocolError, "answered with 0 bytes"),
        (lambda r: ReadCopyResponse(78, 1_000, b"x"), ProtocolError, "of the state at 78"),
        (lambda r: ReadCopyResponse(77, 999, b"x"), ProtocolError, "1 of 999 bytes of schedule/2026112913.data"),
        (lambda r: ReadCopyResponse(77, 1_001, b"x"), ProtocolError, "1 of 1001 bytes"),
        (lambda r: ReadCopyResponse(77, 1_000, bytes(501)), ProtocolError, "501 of 1000 bytes"),
    ],
    ids=["removed", "no file", "beyond", "busy", "no data", "another state", "cut", "too long", "more than requested"],
)
async def test_bad_answers_for_a_file_end_the_session(answer: Answer, error: type[Exception], why: str) -> None:
    async with answering(answer) as (caller, _):
        with pytest.raises(error, match=why) as raised:
            await read_file(caller, IDENTITY, 77, WANTED)
        assert type(raised.value) is error
