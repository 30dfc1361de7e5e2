"""class Storage: the log of a node, what writes to it, and the checkpoints of what is derived from it."""

import asyncio
from collections.abc import Callable, Hashable
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from qmq.errors import CommitNotApplied
from qmq.net.open_files import FileBudget
from qmq.protocol.reasons import Code, Reason
from qmq_node.commits.checkpointing import Checkpointing, CheckpointWriter
from qmq_node.commits.committer import Committer
from qmq_node.commits.log_space import LogSpace, SegmentRemoval
from qmq_node.commits.write_watch import CHECK_SECONDS, WriteWatch
from qmq_node.daemon.part import Part
from qmq_node.log.commit import FlushPolicy
from qmq_node.log.log import SegmentedLog
from qmq_node.log.replay import MemberOpening
from qmq_node.node.reports import log_recovery

if TYPE_CHECKING:
    from qmq_node.node.node import Node

JOB_SECONDS = 1.0
"""Period of a node's jobs: free space, retention, rates."""


class NodeStore(Protocol):
    """What a kind of node derives from its log."""

    def open(self, budget: FileBudget, opening: MemberOpening | None) -> SegmentedLog:
        """Recover the stored data, in a thread; return the log that commits are written to.

        Args:
            opening: how the log of a member is opened; None: as that of the only member.
        """

    @property
    def loaded_offset(self) -> int:
        """The log offset of the checkpoint that the store was opened from; 0 without one."""

    def checkpoint_writer(self) -> CheckpointWriter[Any]:
        """What makes checkpoints of the open store."""


class Storage(Part):
    """Commits are written once it has a committer: an only member's from the start, that of others when they lead."""

    log: SegmentedLog
    space: LogSpace
    segment_removal: SegmentRemoval
    committer: Committer
    checkpoints: Checkpointing[Any]

    def __init__(self, node: "Node", store: NodeStore) -> None:
        self._node, self._options, self._folder = node, node.options, node.folder
        self._store = store
        self.opening: MemberOpening | None = None
        """Set before the log is opened."""
        self.has_committer = False
        self.on_synced: list[Callable[[int], None]] = []
        """Called with the synced end after each commit, in this order."""
        self.is_handed_over: Callable[[], bool] = lambda: False
        """Whether the node resigned and its successor waits for it: there is a checkpoint of a moment ago."""
        self.other_write: Callable[[], Hashable | None] = lambda: None
        """Identifies a write that is under way beside commits; None: none is."""
        self.write_watch = WriteWatch(node.clock, self._write_under_way, lambda: self.report())
        self._segment_watch = WriteWatch(node.clock, self._awaited_segment, self._segment_overdue)
        self.report: Callable[[], None] = lambda: None
        """Lets metaservers know what has changed before the next heartbeat is due."""
        self._is_running = False

    async def open(self, budget: FileBudget) -> None:
        node, began = self._node, self._node.clock.monotonic()
        await asyncio.to_thread(self._open, budget)
        self.segment_removal = SegmentRemoval(self.log, node.clock, node.supervisor)
        log_recovery(self.log, node.clock.monotonic() - began, node.logger)
        if self.opening is None:
            await asyncio.to_thread(self.identify_log)
            self.make_committer()
            self.make_checkpoints()

    def _open(self, budget: FileBudget) -> None:
        options = self._options
        self.log = self._store.open(budget, self.opening)
        self._folder.replica.check_log(self.log.epochs.last_epoch)
        self.space = LogSpace(self.log, self._node.disk, options.data_dir, options.disk_reserve_bytes)
        self.space.measure()

    def identify_log(self) -> None:
        """Give the log an ID if it has none, durably, before this node writes to it; in a thread."""
        if not self._folder.replica.state.log_id:
            self._folder.replica.set_log_id(self._node.machine.rng.randbytes(8).hex())

    def make_committer(self) -> None:
        """Make what writes to the log; it writes once it is started."""
        options, node = self._options, self._node
        self.committer = Committer(
            self.log,
            node.clock,
            self._synced,
            self._log_failed,
            node.supervisor,
            FlushPolicy(options.flush),
            options.flush_interval_seconds,
            node.machine.start_thread,
        )
        self.has_committer = True

    def make_checkpoints(self) -> None:
        """Make what takes checkpoints of the store, as often as the options say."""
        options, node = self._options, self._node
        self.checkpoints = Checkpointing(
            self._store.checkpoint_writer(), self.log, self.committer if self.has_committer else None, node.clock,
            node.supervisor, options.checkpoint_bytes, options.checkpoint_seconds, self._store.loaded_offset,
        )  # fmt: skip

    async def start(self) -> None:
        self.on_synced.append(lambda _: self.checkpoints.maybe())
        if not self.checkpoints.is_started:
            self.checkpoints.start()
        if not self.committer.is_started:
            self.committer.start()
        if self.space.lacks_space():
            await self.committer.segments.check_space()

    def run(self) -> None:
        if self._is_running:
            # A member runs before it serves.
            return
        self._is_running = True
        every = self._node.supervisor.every
        every(JOB_SECONDS, "disk_space", self.space.measure, is_vital=True)
        every(CHECK_SECONDS, "write_watch", self._check_writes)

    async def stop(self) -> None:
        if self.has_committer:
            self.committer.hurry()
        await self.segment_removal.close()

    @property
    def drain_seconds_max(self) -> float:
        return inf if self.has_committer and self.committer.failed is None else 0.0

    async def finish(self) -> None:
        if not self.has_committer:
            if self.log.failed is None:
                await self.checkpoints.finish()
            return
        if self.committer.failed is None and not self.is_handed_over():
            await self.committer.drain()
            await self.checkpoints.finish()
        await self.committer.stop()

    async def release(self) -> None:
        if self._node.is_started:
            await asyncio.to_thread(self.log.close)

    def health(self) -> str:
        """Why the process can't continue; "" when it can. Damage is no reason: a restart would not repair it."""
        if self.has_committer and self.committer.failed is not None:
            return f"the message log failed: {self.committer.failed}"
        return ""

    def awaits_segment(self, reason: Reason) -> bool:
        """Whether sends that are refused for this reason wait instead, because the next segment is being created. After
        STUCK_SECONDS they are rejected, so that producers use other broker groups."""
        return reason.code == Code.NO_SEGMENT and not self._segment_watch.is_stuck

    def _awaited_segment(self) -> int | None:
        """The base of the segment behind the last one, if sends can't continue without it and there may be space for it."""
        if self.has_committer and self.space.lacks_space().code == Code.NO_SEGMENT:
            return self.log.gather.appended_end + self.log.gather.room_bytes
        return None

    def _segment_overdue(self) -> None:
        self.report()
        self.committer.resume_sends()

    def _check_writes(self) -> None:
        self.write_watch.check()
        self._segment_watch.check()

    def _write_under_way(self) -> Hashable | None:
        if self.has_committer and (commit := self.committer.write_under_way) is not None:
            return "commit", commit
        return self.other_write()

    def _synced(self, synced_end: int) -> None:
        for call in self.on_synced:
            call(synced_end)

    def _log_failed(self, error: BaseException) -> None:
        """Stop answering and end, because memory and log may differ: a write, a sync or the application of a commit failed."""
        node = self._node
        if isinstance(error, CommitNotApplied):
            node.logger.critical("this node stops: %s", error, exc_info=error.__cause__)
        else:
            node.logger.critical("the message log failed, this node stops: %s", error)
        node.is_ready = False
        node.server.stop_listening()
        for connection in list(node.server.connections):
            connection.abort()
        node.failure.set(error)
