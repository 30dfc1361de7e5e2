"""A slave, and a master that a test writes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from random import Random

from qmq.errors import LogError
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import Command, FollowResult, ResponseCode
from qmq.protocol.frames import FLAG_ONE_WAY, Frame, encode_request
from qmq.protocol.replication import Commits, Confirm, FollowRequest, FollowResponse, StatedTime, TimedCommits
from qmq.supervisor import Supervisor
from qmq_node.commits.applying import Applying
from qmq_node.log.copied_log import CopiedCommits
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, iter_records
from qmq_node.log.replay import Replay
from qmq_node.replication.group_time import GroupTime
from qmq_node.replication.rules.roles import Copying
from qmq_node.replication.slave.follow_outcomes import (
    FollowerIdentity,
)
from qmq_node.replication.slave.follower import Follower
from qmq_node.server.connection import Connection
from qmq_node.server.connection_auth import ConnectionAuth
from qmq_node.server.server import FrameServer
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import (
    assert_prefix,
    commits_of,
    opened_copy,
    sent,
    slave_copy_of,
)
from tests.support.drivers.in_process import machine
from tests.support.waiting import eventually_async

PROMOTION = "00000000-0000-4000-8000-000000000001"


SECRET = NodeSecret.parse("the secret of this broker group in tests", "test")


EPOCH = 9
"""Above those of the commits."""


class ScriptedMaster:
    """Answers FOLLOW as told, and sends what a test says."""

    def __init__(self, log: SegmentedLog) -> None:
        self.log = log
        self.requests: list[FollowRequest] = []
        self.confirmed: list[Confirm] = []
        self.on_confirm: Callable[[], None] = lambda: None
        self.connection: Connection | None = None
        self.session = 0
        self.time: StatedTime | None = None
        """What is stated in each frame; None: nothing, as by a master that has no such time, or does not know of it."""
        self._sessions = count(100)
        self.answer: Callable[[FollowRequest, FollowResponse], FollowResponse] = lambda request, answer: answer
        self.auth = ConnectionAuth(SECRET, check=lambda connection, purpose: "")
        self.server = FrameServer("127.0.0.1", 0, self._handle, clock=machine().clock, listen=machine().listen)

    @property
    def address(self) -> str:
        host, port = self.server.address
        return f"{host}:{port}"

    def _handle(self, connection: Connection, frame: Frame) -> None:
        if frame.code == Command.CONFIRM:
            self.confirmed.append(Confirm.decode(frame.body))
            self.on_confirm()
            return
        if frame.code == Command.AUTHENTICATE:
            self.auth.handle(connection, frame)
            return
        request = FollowRequest.decode(frame.body)
        self.requests.append(request)
        self.connection, self.session = connection, next(self._sessions)
        keep_to = min(request.end, self.log.written_end)
        segments = tuple((info.base, info.bytes) for info in self.log.stored.segments())
        answer = FollowResponse(
            FollowResult.ACCEPTED, "", self.session, keep_to, self.crc_at(keep_to), 0, self.log.written_end, segments,
            states_time=request.requests_time and self.time is not None,
        )  # fmt: skip
        connection.reply(frame, ResponseCode.SUCCESS, self.answer(request, answer).encode())

    def crc_at(self, end: int) -> int:
        return (self.log.stored.read_crc_at(end) or 0) if end else 0

    def send(self, commits: CopiedCommits, **changes: object) -> None:
        """Send commits, with some fields changed."""
        is_first = commits.offset == commits.segment_base
        frame = Commits(
            self.session, EPOCH, PROMOTION, 0, 0, commits.offset, commits.segment_base,
            commits.segment_bytes if is_first else 0, -1, commits.index_entries, commits.data,
        )  # fmt: skip
        self.push(replace(frame, **changes))  # type: ignore[arg-type]

    def heartbeat(self, offset: int, high_watermark: int) -> None:
        self.push(Commits(self.session, EPOCH, PROMOTION, high_watermark, 0, offset, 0, 0, -1, b"", b""))

    def push(self, commits: Commits) -> None:
        self.push_body(commits.encode() if self.time is None else TimedCommits(self.time, commits).encode())

    def push_body(self, body: bytes, command: Command = Command.COMMITS) -> None:
        """Send a frame with any body."""
        assert self.connection is not None
        self.connection.push(encode_request(command, 0, body, flag=FLAG_ONE_WAY))

    def send_all(self, rng: Random, begin: int = 0) -> None:
        for commits in sent(self.log, rng, begin):
            self.send(commits)


class Payloads(Replay):
    """A store that keeps all records."""

    def __init__(self) -> None:
        super().__init__()
        self.payloads: list[bytes] = []
        self.refuses = False

    def apply_record(self, offset: int, kind: int, payload: memoryview) -> None:
        if self.refuses:
            raise LogError("no record that this version knows")
        self.payloads.append(bytes(payload))

    def finish(self) -> None:
        pass


class Slave:
    """A follower with its log."""

    def __init__(
        self,
        master: ScriptedMaster,
        log: SegmentedLog,
        copying: Copying | None = None,
        group_time: GroupTime | None = None,
    ) -> None:
        self.log = log
        self.store = Payloads()
        self.failures: list[BaseException] = []
        clock = machine().clock
        self.supervisor = Supervisor(clock, logger=logging.getLogger("qmq.test"), on_failure=self._task_failed)
        identity = FollowerIdentity("g", "b", "boot", SECRET, EPOCH, PROMOTION, "")
        copy, self.replica = slave_copy_of(log, EPOCH, PROMOTION, clock, copying)
        self.follower = Follower(
            log,
            copy,
            identity,
            Applying(log, self.store),
            clock,
            self.supervisor,
            machine().start_thread,
            self.failures.append,
            group_time,
        )
        self.task = asyncio.create_task(self.follower.run(master.address))

    def _task_failed(self, name: str, error: BaseException) -> None:
        self.failures.append(error)

    async def ended(self) -> BaseException:
        """The exception that ended it."""
        await asyncio.wait([self.task])
        error = self.task.exception()
        assert error is not None
        return error


@asynccontextmanager
async def following(
    master: ScriptedMaster,
    log: SegmentedLog | None = None,
    *,
    waits: bool = True,
    copying: Copying | None = None,
    group_time: GroupTime | None = None,
) -> AsyncIterator[Slave]:
    """A slave that has sent FOLLOW, and if it `waits`, is in a session."""
    await master.server.start()
    slave = Slave(master, log or opened_copy(MemoryDisk())[0], copying, group_time)
    try:
        if waits:
            await eventually_async(lambda: bool(master.confirmed))
        yield slave
    finally:
        slave.task.cancel()
        await asyncio.wait([slave.task])
        await master.server.close(0)
        await slave.supervisor.close()


def payloads_of(log: SegmentedLog) -> list[bytes]:
    """All records of a log."""
    return [
        bytes(payload)
        for commit in commits_of(log)
        for _, _, payload in iter_records(commit.data[HEADER_BYTES:], commit.offset + HEADER_BYTES)
    ]


async def following_again(master: ScriptedMaster, slave: Slave) -> None:
    """The slave has begun another session where its log ends, and gets the rest of the master's log."""
    await eventually_async(lambda: len(master.requests) == 2)
    assert master.requests[1].end == slave.log.written_end
    await eventually_async(lambda: master.confirmed[-1].session == master.session)
    master.send_all(Random(3), slave.log.written_end)
    await eventually_async(lambda: slave.log.synced_end == master.log.synced_end)
    assert_prefix(slave.log, master.log)
    assert not slave.failures
