"""A master as a component, with a real log, committer and sync port; its slaves are scripted and speak frames."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from qmq.errors import AuthenticationFailed
from qmq.net.caller import Caller
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import Command, FollowResult, FollowState
from qmq.protocol.frames import FLAG_ONE_WAY, Frame, encode_request
from qmq.protocol.group_memberships import MembershipResult
from qmq.protocol.replication import Commits, Confirm, FollowRequest, FollowResponse, StatedTime, TimedCommits
from qmq.supervisor import Job, Supervisor
from qmq_node.commits.committer import Committer
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.commit import FlushPolicy
from qmq_node.log.disk import Disk
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, Position, decode_header, is_whole
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.master.listener import SyncListener
from qmq_node.replication.rules.membership import ChangeInSync, ChangeRejected, Membership
from qmq_node.replication.slave_claim import SlaveClaim, prove
from tests.sim.world.loop import SimulatedClock, running_loop
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.breaking import Injected
from tests.support.drivers.in_process import machine
from tests.support.drivers.logs import open_log
from tests.support.drivers.no_ranges import no_ranges
from tests.support.waiting import eventually_async

SEGMENT_BYTES = 8 << 10
SECRET = NodeSecret.parse("the secret of this broker group in tests", "test")
EPOCH = 1
PROMOTION = "00000000-0000-0000-0000-000000000001"
MEMBERS = ("m", "a", "b")


class BreakableSupervisor(Supervisor):
    """Jobs named in `broken` raise."""

    broken: frozenset[str] = frozenset()

    def _begin(self, record: Job) -> None:
        super()._begin(record)
        if record.name in self.broken:
            raise Injected(f"{record.name} is broken")


class MembershipStore:
    """The stored membership of the group, and what becomes of requests to change it."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.requests: list[ChangeInSync] = []
        self.outcomes: list[str] = []
        """Of the next requests: "lost" (done, the answer is lost), "away" (not done, unknown), "broken" (raises), "refused", "held"
        (waits for `release`)."""
        self.release = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None

    async def request(self, change: ChangeInSync, reason: str) -> tuple[MembershipResult, Membership | None]:
        assert reason
        self.requests.append(change)
        await asyncio.sleep(0.01)
        outcome = self.outcomes.pop(0) if self.outcomes else "done"
        if outcome == "held":
            await self.release.wait()
        if outcome == "broken":
            raise Injected("no answer")
        if outcome == "away":
            return MembershipResult.UNAVAILABLE, None
        if outcome == "refused":
            return MembershipResult.REFUSED, self.membership
        try:
            changed = change.applied_to(self.membership)
        except ChangeRejected as rejected:
            if not rejected.is_stale:
                raise
            return MembershipResult.STALE, self.membership
        self.membership = changed
        self.on_change()
        return (MembershipResult.UNAVAILABLE, None) if outcome == "lost" else (MembershipResult.DONE, self.membership)


@dataclass(frozen=True)
class Held:
    """A commit on a slave's disk."""

    offset: int
    end: int
    crc: int
    epoch: int
    data: bytes


class ScriptedSlave:
    """A slave that does what the rules say, unless a test has it do otherwise."""

    def __init__(self, scene: "Scene", node_id: str) -> None:
        self.scene = scene
        self.node_id = node_id
        self.commits: list[Held] = []
        self.segment_sizes: dict[int, int] = {}
        self.synced_end = 0
        self.confirmed_ends: list[int] = []
        self.heads: list[Commits] = []
        """The frames of this session."""
        self.times: list[StatedTime] = []
        """The times of this session, with each frame one, if the master has agreed on that."""
        self.answer: FollowResponse | None = None
        self.caller: Caller | None = None
        self.is_stalled = False
        """It receives, and syncs nothing."""
        self.sync_seconds = 0.002
        self.state = FollowState.FOLLOWING
        self.secret = scene.secret
        self._early: list[Frame] = []
        """Frames that arrived together with the answer."""
        self._syncing: asyncio.TimerHandle | None = None

    @property
    def end(self) -> Position:
        return Position(self.commits[-1].end, self.commits[-1].crc) if self.commits else Position(0, 0)

    @property
    def is_connected(self) -> bool:
        return self.caller is not None and self.caller.is_connected

    @property
    def in_sync(self) -> bool:
        return self.node_id in self.scene.leading.current_membership.in_sync

    @property
    def has_all(self) -> bool:
        """Whether it has synced the master's whole log."""
        return self.synced_end == self.scene.log.written_end

    @property
    def high_watermark(self) -> int:
        return self.heads[-1].high_watermark if self.heads else 0

    def request(self, **changes: Any) -> FollowRequest:
        chain: list[tuple[int, int]] = []
        previous = 0
        for commit in self.commits:
            if not chain or chain[-1][0] != commit.epoch:
                chain.append((commit.epoch, previous))
            previous = commit.end
        plain = FollowRequest(
            "g1",
            self.node_id,
            "boot",
            EPOCH,
            PROMOTION,
            self.end.offset,
            self.end.chain,
            1 << 20,
            0,
            tuple(chain),
        )
        return replace(plain, **changes)

    async def connect(self) -> Caller:
        self.caller = caller = Caller(*self.scene.listener.server.address)
        caller.on_push = lambda frame: self._received(frame) if caller is self.caller else None
        await caller.connect()
        return caller

    async def ask(self, **changes: Any) -> FollowResponse:
        """Send a FOLLOW on a new connection; the answer."""
        # Frames behind the answer may arrive with it.
        self.answer, self._early = None, []
        self.heads.clear()
        self.times.clear()
        caller, request = await self.connect(), self.request(**changes)
        try:
            await prove(caller, self.secret, SlaveClaim.of(request))
        except AuthenticationFailed as refused:
            self.scene.unproven += 1
            name, _, reason = str(refused).removeprefix(f"{caller.address}: ").partition(": ")
            return FollowResponse.rejection(FollowResult[name], reason)
        frame = await caller.call(Command.FOLLOW, request.encode(), timeout_s=5)
        return FollowResponse.decode(frame.body)

    async def follow(self, **changes: Any) -> FollowResponse:
        """Follow, truncate the log to what the master says, and confirm that."""
        answer = await self.ask(**changes)
        assert answer.result == FollowResult.ACCEPTED, answer
        assert answer.session
        self.answer = answer
        self._truncate(answer)
        held, self._early = self._early, []
        for frame in held:
            self._received(frame)
        self._sync_soon()
        return answer

    def _truncate(self, answer: FollowResponse) -> None:
        while self.commits and self.commits[-1].end > answer.keep_to:
            self.commits.pop()
        assert self.end == Position(answer.keep_to, answer.keep_to_crc)
        self.synced_end = min(self.synced_end, answer.keep_to)

    def _received(self, frame: Frame) -> None:
        assert frame.code == Command.COMMITS
        assert frame.flag == FLAG_ONE_WAY
        if self.answer is None:
            self._early = [*self._early, frame]
        elif self.answer.states_time:
            timed = TimedCommits.decode(frame.body)
            self.times.append(timed.time)
            self._take(timed.commits)
        else:
            self._take(Commits.decode(frame.body))

    def _take(self, commits: Commits) -> None:
        assert self.answer is not None
        assert (commits.session, commits.epoch, commits.promotion_id) == (self.answer.session, EPOCH, PROMOTION)
        assert commits.high_watermark >= self.high_watermark
        self.heads.append(replace(commits, index_entries=b"", commits=b""))
        if not commits.commits:
            assert commits.offset == self.end.offset
            return
        base = commits.segment_base
        assert (commits.segment_bytes > 0) == (commits.offset == base)
        if commits.segment_bytes:
            assert self.segment_sizes.setdefault(base, commits.segment_bytes) == commits.segment_bytes
        else:
            assert base in self.segment_sizes
        assert commits.offset in (self.end.offset, base)
        data, at = bytes(commits.commits), 0
        while at < len(data):
            header = decode_header(data[at:], commits.offset + at, base)
            assert header is not None
            whole = data[at : header.end - commits.offset]
            assert is_whole(header, whole)
            assert header.previous_crc == self.end.chain
            self.commits.append(Held(header.offset, header.end, header.crc, header.epoch, whole))
            at += len(whole)
        self._sync_soon()

    def _sync_soon(self) -> None:
        if self._syncing is None:
            self._syncing = asyncio.get_running_loop().call_later(self.sync_seconds, self._sync)

    def _sync(self) -> None:
        self._syncing = None
        if self.is_stalled or not self.is_connected or self.answer is None:
            return
        self.synced_end = self.end.offset
        self.confirm()

    def resume(self) -> None:
        """End a stall."""
        self.is_stalled = False
        self._sync_soon()

    def confirm(self, **changes: Any) -> None:
        """Confirm what is synced, or something else."""
        assert self.answer is not None
        crc = next((commit.crc for commit in self.commits if commit.end == self.synced_end), 0)
        plain = Confirm(
            self.answer.session, EPOCH, self.synced_end, crc, min(self.high_watermark, self.synced_end), self.state
        )
        body = replace(plain, **changes).encode()
        self.confirmed_ends.append(self.synced_end)
        assert self.caller is not None
        self.caller.send_frame(encode_request(Command.CONFIRM, 0, body, flag=FLAG_ONE_WAY))

    async def disconnect(self) -> None:
        assert self.caller is not None
        await self.caller.close()

    def check_log(self) -> None:
        """The slave has the master's log, byte for byte."""
        log = self.scene.log
        assert self.end.offset == log.written_end
        for commit in (commit for commit in self.commits if commit.offset >= log.begin):
            assert log.stored.read(commit.offset, len(commit.data)) == commit.data
        sizes = {info.base: info.bytes for info in log.stored.segments()}
        assert all(sizes.get(base, size) == size for base, size in self.segment_sizes.items())


@dataclass
class Scene:
    """One master and what its tests need."""

    log: SegmentedLog
    committer: Committer
    supervisor: "BreakableSupervisor"
    store: MembershipStore
    disk: Disk
    newer_epochs: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    """Records whose answers would have been sent, in order."""
    sent: int = 0
    secret: NodeSecret | None = None
    unproven: int = 0
    """Slaves that were refused with their proof, before FOLLOW."""
    expected_failures: set[str] = field(default_factory=set)
    """Jobs that a test makes fail."""
    slaves: dict[str, ScriptedSlave] = field(default_factory=dict)
    leading: Leading = field(init=False)
    listener: SyncListener = field(init=False)

    def slave(self, node_id: str) -> ScriptedSlave:
        self.slaves[node_id] = slave = ScriptedSlave(self, node_id)
        return slave

    async def following(self, node_id: str) -> ScriptedSlave:
        """A slave that is in sync."""
        slave = self.slave(node_id)
        await slave.follow()
        await eventually_async(lambda: slave.in_sync)
        return slave

    def append(self, size: int = 100) -> int:
        """Append a record; its number."""
        number = self.sent
        offset = self.log.gather.append(1, number.to_bytes(4, "big") + bytes(size))
        self.committer.when_synced(offset, lambda: self.answered.append(number))
        self.sent += 1
        return number

    async def write(self, size: int = 100) -> int:
        """Append a record in a commit of its own, and wait until this disk has it; the end of the commit."""
        self.append(size)
        end = self.log.gather.records_end
        await eventually_async(lambda: self.log.synced_end >= end)
        return self.log.synced_end

    async def wait(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    def applied(self, high_watermark: int) -> None:
        """Every member that the stored membership names has synced everything below the high watermark, by its own account."""
        assert high_watermark <= self.log.synced_end
        for member in self.store.membership.in_sync:
            if member != "m":
                assert member in self.slaves, f"{member} has nothing"
                assert self.slaves[member].synced_end >= high_watermark, f"{member} lacks confirmed commits"

    def new_supervisor(self) -> Supervisor:
        """The supervisor of another process."""
        return Supervisor(SimulatedClock(running_loop()), logger=logging.getLogger("test"), on_failure=lambda *_: None)

    def new_leading(self, **changes: Any) -> Leading:
        loop = running_loop()
        arguments = {
            "node_id": "m", "membership": self.store.membership, "log": self.log, "committer": self.committer,
            "clock": SimulatedClock(loop), "supervisor": self.supervisor, "rng": loop.rng("sessions"),
            "request": self.store.request, "on_newer_epoch": self.newer_epochs.append,
            "checkpoints": CheckpointStore(self.disk, "checkpoint", "test"), "files": None, "copy_bytes_per_second": 0,
            "log_id": "",
        }  # fmt: skip
        return Leading(**{**arguments, **changes})


def membership(*in_sync: str, members: tuple[str, ...] = MEMBERS, in_sync_min: int = 2) -> Membership:
    """The membership of group g1 with master m."""
    return Membership("g1", members, "m", in_sync or ("m",), EPOCH, 7, PROMOTION, in_sync_min)


@asynccontextmanager
async def leading(
    stored_membership: Membership | None = None,
    *,
    commits_before: int = 0,
    disk: MemoryDisk | None = None,
    secret: NodeSecret | None = SECRET,
    **changes: Any,
) -> AsyncIterator[Scene]:
    """A master with an empty log, or one with commits and seals of before its promotion."""
    on = machine(disk=disk)
    clock = SimulatedClock(running_loop())
    failures: list[BaseException] = []
    supervisor = BreakableSupervisor(
        clock, logger=logging.getLogger("test"), on_failure=lambda _, error: failures.append(error)
    )
    log = open_log(on.disk, "log", segment_bytes=SEGMENT_BYTES)
    store = MembershipStore(stored_membership or membership())
    scene: Scene
    committer = Committer(
        log,
        clock,
        lambda end: scene.applied(end),
        failures.append,
        supervisor,
        FlushPolicy.ALWAYS,
        1.0,
        on.start_thread,
    )
    scene = Scene(log, committer, supervisor, store, on.disk, secret=secret)
    applied, scene.applied = scene.applied, lambda _: None  # type: ignore[method-assign]
    committer.start()
    for _ in range(commits_before):
        await scene.write()
        await scene.wait(0.1)
    scene.applied = applied  # type: ignore[method-assign]
    scene.leading = scene.new_leading(**changes)
    store.on_change = lambda: scene.applied(committer.high_watermark)
    scene.leading.start()
    scene.listener = SyncListener(
        "127.0.0.1",
        0,
        lambda: scene.leading,
        no_ranges(clock),
        secret,
        clock=clock,
        supervisor=supervisor,
        listen=on.listen,
    )
    await scene.listener.start()
    try:
        yield scene
        assert not failures
    finally:
        for slave in scene.slaves.values():
            if isinstance(slave, ScriptedSlave) and slave.caller is not None:
                await slave.caller.close()
        await scene.leading.close()
        await scene.listener.close()
        await committer.stop()
        await supervisor.close()
        log.close()
    assert {job.name for job in supervisor.status() if job.failures} <= scene.expected_failures


def commit_bytes(size: int) -> int:
    """Bytes of a commit with one record of `append(size)`."""
    return HEADER_BYTES + 8 + 4 + size
