"""class Follower: a slave's connection to its master: it stores the commits that arrive, confirms and applies them.

A session ends with its connection, when the master sends nothing for SILENCE_SECONDS, and with the first commits that do not fit.
The next one begins with another FOLLOW. What another session can't solve ends the follower with an exception: the log has to be
truncated or copied, or a rule of replication was broken.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from qmq.clock import Clock
from qmq.errors import ConnectionLost, ProtocolError, QmqError
from qmq.net.caller import Caller
from qmq.net.discovery import split_address
from qmq.protocol.codes import Command
from qmq.protocol.frames import Frame
from qmq.protocol.receive_buffers import ReceiveBuffers
from qmq.protocol.replication import (
    COMMITS_BYTES_MAX,
    Commits,
    FollowResponse,
    TimedCommits,
)
from qmq.supervisor import Supervisor
from qmq_node.commits.applying import Applying
from qmq_node.log.copied_log import CopiedCommits, CopyRejected
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import CommitHeader
from qmq_node.process.job_thread import StartThread
from qmq_node.replication.group_time import GroupTime
from qmq_node.replication.rules.slave import CommitsRejected, Slave
from qmq_node.replication.slave.apply_task import ApplyTask
from qmq_node.replication.slave.confirmations import Confirmations, FollowerCounters
from qmq_node.replication.slave.copy_steps import CopySteps
from qmq_node.replication.slave.copy_thread import CopyThread
from qmq_node.replication.slave.follow_outcomes import FollowerIdentity, LogCopied, MustCopy
from qmq_node.replication.slave.follow_retries import FollowRetries
from qmq_node.replication.slave.joining import Joining, check_window
from qmq_node.replication.slave.slave_copy import SlaveCopy
from qmq_node.replication.slave_claim import prove
from qmq_node.replication.state_files import WantedBytes

SILENCE_SECONDS = 3.0
"""Without any frame of the master for this long, the connection is closed: the master sends one every 0.5 s."""
EARLY_FRAMES_MAX = 1_000
"""Frames that are kept from the answer to FOLLOW until the session begins. The window limits their commits."""
CHECK_SECONDS = 0.5
LEAVE_SECONDS = 2.0
"""How long a slave that stops waits until its master has removed it from the in-sync set."""
FRAME_BYTES_MAX = COMMITS_BYTES_MAX + (64 << 10)
BUFFER_BYTES = 8 << 20
"""Size of a receive buffer once large commits have arrived."""
BUFFERS_BYTES_MAX = 32 << 20
"""Receive buffers that are kept after their commits were applied, to be used again."""

logger = logging.getLogger("qmq_node.replication.rules")


async def nothing_elsewhere(_: WantedBytes) -> bytes:
    """Return nothing: no other member is asked."""
    return b""


@dataclass(eq=False, repr=False)
class Follower:
    """Follows one master in one epoch."""

    _log: SegmentedLog
    copy: SlaveCopy
    _identity: FollowerIdentity
    _applying: Applying
    _clock: Clock
    _supervisor: Supervisor
    _start_thread: StartThread
    _on_failed: Callable[[BaseException], None]
    """Called when the log takes no more, or a commit can't be applied: the node has to end."""
    _group_time: GroupTime | None = None
    """What the master is requested to state; None: nothing."""
    _is_damaged: Callable[[], bool] = lambda: False
    _read_elsewhere: Callable[[WantedBytes], Awaitable[bytes]] = nothing_elsewhere
    """As `Confirmations` takes it."""
    counters: FollowerCounters = field(default_factory=FollowerCounters)
    retries: FollowRetries = field(init=False)
    _slave: Slave | None = field(default=None, init=False)
    """None between sessions."""
    _caller: Caller | None = field(default=None, init=False)
    _states_time: bool = field(default=False, init=False)
    """Whether the master has agreed to state the time."""
    _early: deque[Frame] = field(default_factory=deque, init=False)
    """Frames that arrived together with the answer to FOLLOW."""
    _segment: tuple[int, int] | None = field(default=None, init=False)
    """Base and size of the segment that commits arrive of; None until the master has stated it."""
    _ended: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _received_at: float | None = field(default=None, init=False)
    master_begin: int = field(default=0, init=False)
    """Where the master's log begins."""
    problem: str = field(default="not connected yet", init=False)
    """Why there is no session; "" while there is one."""

    def __post_init__(self) -> None:
        self.retries = FollowRetries(self._clock, self.copy.why_kept)
        self._thread = CopyThread(
            self.copy.copied, self._clock, self._start_thread, self._failed, self._synced, self.counters
        )
        self.steps = CopySteps(self.copy, self._thread, self._copy_ended, self._read_elsewhere)
        self._confirmations = Confirmations(self._log, self._applying, self.counters, self._is_damaged)
        self._joining = Joining(self._log, self._identity, self._applying, self.copy, self._group_time is not None)
        self._apply = ApplyTask(self.copy, self._applying, self._high_watermark, self._applied, self._end)

    @property
    def silent_seconds(self) -> float | None:
        """Time since the last frame of the master; None: none has arrived."""
        return None if self._received_at is None else self._clock.monotonic() - self._received_at

    @property
    def write_under_way(self) -> int | None:
        """Identifies the write of commits that is under way; None: none is."""
        return self._thread.write_under_way

    @property
    def shares_syncs(self) -> bool:
        """Whether commits share syncs now, because the disk syncs more slowly than the master writes."""
        return self._thread.shares_syncs

    async def run(self, address: str) -> None:
        """Follow the master whose sync port is at `address`, session after session, until cancelled. No session follows `leave`.

        Raises:
            Diverged, MustCopy, LogCopied: this log has to change, or to be opened again. Nothing is being written any more.
            ReplicationAlarm: a rule was broken, or the log is damaged where it has to be applied.

        MustCopy and MasterAlarm depend on what the master says, so they are raised only when the membership confirms them
        (`SlaveCopy.why_kept`).
        """
        self._thread.start()
        checker = self._supervisor.every(CHECK_SECONDS, "master_silence", self._check)
        applier = self._supervisor.critical("applying", self._apply.run())
        try:
            while not self.copy.is_log_copied and self._apply.alarm is None:
                counters = self.counters
                received = counters.received_bytes, counters.copied_bytes
                try:
                    await self._session(address)
                except (QmqError, OSError, MustCopy) as error:
                    self.problem = self.retries.problem_of(error)
                if self._confirmations.is_leaving:
                    return
                if self.copy.is_log_copied or self._apply.alarm is not None:
                    break
                has_received = (counters.received_bytes, counters.copied_bytes) != received
                await asyncio.sleep(self.retries.pause(address, self.problem, has_received=has_received))
            raise self._apply.alarm or LogCopied()
        finally:
            await self._supervisor.cancel(checker)
            await self._supervisor.cancel(applier)
            await self._thread.stop()

    async def leave(self) -> None:
        """Have the master remove this slave from the in-sync set, so that its answers do not wait for a node that stops.

        What arrives meanwhile is still stored and confirmed. The master ends the session when the membership without
        this slave is stored. Returns then, at once without a session, and after LEAVE_SECONDS at the latest.
        """
        self._confirmations.is_leaving = True
        if self._slave is None:
            return
        self._confirm()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._ended.wait()

    # --- a session -------------------------------------------------------------------------------------------------

    async def _session(self, address: str) -> None:
        host, port = split_address(address)
        self._ended.clear()
        self._early.clear()
        caller = Caller(
            host, port, on_lost=self._ended.set, frame_bytes_max=FRAME_BYTES_MAX,
            buffers=ReceiveBuffers(BUFFERS_BYTES_MAX, BUFFER_BYTES),
        )  # fmt: skip
        await caller.connect()
        try:
            await prove(caller, self._identity.secret, self._identity.claim)
            caller.on_push = self._pushed
            if self.copy.needs_state(self._identity.epoch):
                self._copied(await self.steps.read_state(caller, self._identity))
            if self.copy.needs_files:
                await self.steps.copy_files(caller, self._identity, self._copied)
            answer = await self._joining.follow(caller)
            if self._ended.is_set():
                raise ConnectionLost(self.problem)
            await self._begin(caller, answer)
            await self._ended.wait()
        finally:
            self._slave = self._caller = None
            await caller.close()
            # The end of the log must not move while the next FOLLOW states it.
            await self._thread.drained()
        self.problem = self.problem or "the connection ended"

    def _copied(self, size: int) -> None:
        self.counters.copied_bytes += size

    async def _begin(self, caller: Caller, answer: FollowResponse) -> None:
        """Take commits from the end of the log on."""
        await self._joining.check(answer)
        await asyncio.to_thread(self.copy.store_log_id, answer.log_id)
        await asyncio.to_thread(self._log.stored.note_lost, answer.damaged)
        synced_end = self._log.synced_end
        self._confirmations.begin(synced_end, await self._joining.crc_at(synced_end))
        self._segment = answer.segment_of(answer.keep_to)
        self._slave = self._joining.slave(answer)
        self._states_time = answer.states_time
        if self._group_time is not None:
            self._group_time.session_began()
        self.copy.goal = max(self.copy.goal, answer.high_watermark)
        self._caller, self.problem = caller, ""
        self.counters.sessions += 1
        self._received_at = self._clock.monotonic()
        logger.info("following the master at %s from log offset %d on", caller.address, answer.keep_to)
        self._advance_copy()
        self._confirm()
        while self._early and self._slave is not None:
            self._receive(self._early.popleft())

    def _pushed(self, frame: Frame) -> None:
        if self._slave is not None:
            self._receive(frame)
        elif len(self._early) >= EARLY_FRAMES_MAX:
            self._end(f"the master has sent {EARLY_FRAMES_MAX} frames before the session began")
        elif not self._ended.is_set():
            self._early.append(frame)

    def _receive(self, frame: Frame) -> None:
        try:
            if frame.code != Command.COMMITS:
                raise ProtocolError(f"the master sent command {frame.code} to a slave")
            if self._states_time:
                self._take_timed(TimedCommits.decode(frame.body))
            else:
                self._take(Commits.decode(frame.body))
        except (ProtocolError, CommitsRejected) as error:
            self._reject(error)

    def _take_timed(self, timed: TimedCommits) -> None:
        """As `_take`, and the time of the group with them."""
        assert self._group_time is not None
        received_at = self._clock.monotonic()
        self._take(timed.commits)
        self._group_time.stated(timed.time, received_at)

    def _take(self, commits: Commits) -> None:
        """Have commits written. Raises ProtocolError or CommitsRejected for those that can't follow."""
        assert self._slave is not None
        base, size = commits.segment_base, len(commits.commits)
        if commits.segment_bytes:
            self._segment = base, commits.segment_bytes
        if size and (self._segment is None or base != self._segment[0]):
            raise ProtocolError(f"commits of the segment at {base}, whose size the master has not stated")
        lost_from = commits.lost_from if commits.lost_from >= 0 else None
        check_window(self._thread.pending_bytes + size)
        self._slave = self._slave.received(
            commits.epoch,
            commits.promotion_id,
            commits.session,
            commits.offset,
            commits.offset + size,
            commits.high_watermark,
            begins_segment=commits.offset == base,
            lost_from=lost_from,
            state_offset=self.copy.state_offset,
        )
        self._received_at = self._clock.monotonic()
        self.master_begin = commits.log_begin
        self.copy.goal = max(self.copy.goal, commits.high_watermark)
        self._advance_copy()
        if size:
            assert self._segment is not None
            self.counters.received_bytes += size
            self._copied(size if self.copy.is_copying else 0)
            data, entries = memoryview(commits.commits), commits.index_entries
            copied = CopiedCommits(base, self._segment[1], commits.offset, data, entries, lost_from)
            self._thread.put(copied, partial(self._written, copied), self._reject, is_copying=self.steps.is_copying)
        elif not self._confirmations.are_current:
            # Nothing else would tell the master of it while nothing is written.
            self._confirm()
        self._apply.soon()

    def _written(self, copied: CopiedCommits, headers: Sequence[CommitHeader]) -> None:
        """Commits are in the log: have them applied."""
        if self.copy.applies:
            self._applying.received(copied, headers)
            self._apply.soon()

    def _synced(self) -> None:
        """More of the log may be synced: confirm it."""
        if self._slave is not None:
            # The thread may be ahead of what it has reported.
            self._slave = self._slave.synced(min(self._log.synced_end, self._log.written_end))
            self._apply.soon()
            self._advance_copy()
            self._confirm()

    def _advance_copy(self) -> None:
        slave = self._slave
        assert slave is not None
        is_copying = self.steps.advance(slave.end, self._applying.applied_end)
        if is_copying != slave.is_copying:
            self._slave = replace(slave, is_copying=is_copying)

    def _copy_ended(self) -> None:
        if self.copy.is_log_copied:
            self._end("the log was copied up to the state")
        else:
            logger.info("this slave follows from log offset %d on", self._log.written_end)
            self._synced()

    def _high_watermark(self) -> int:
        return self._applying.known_high_watermark if self._slave is None else self._slave.high_watermark

    def _applied(self) -> None:
        if self._slave is not None:
            self._advance_copy()

    def _confirm(self) -> None:
        assert self._slave is not None
        assert self._caller is not None
        self._confirmations.send(self._slave, self._caller)

    def _reject(self, error: CopyRejected | CommitsRejected | ProtocolError) -> None:
        """End the session: commits did not fit."""
        if self._slave is not None:
            self.counters.rejected_commits += 1
            self.retries.log("rejected commits", f"commits of the master were rejected, the session ends: {error}")
            self._end(str(error))

    def _end(self, why: str) -> None:
        self.problem, self._slave = why, None
        self._ended.set()

    def _check(self) -> None:
        self.copy.sample()
        silent = self.silent_seconds
        if self._slave is not None and silent is not None and silent > SILENCE_SECONDS:
            self._end(f"nothing has arrived from the master for {silent:.1f} s")

    def _failed(self, error: BaseException) -> None:
        self._end(f"this node has failed: {error}")
        self._on_failed(error)
