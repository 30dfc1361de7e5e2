"""class Leading: what a master runs from its promotion to its end as master: sessions of slaves, and what they confirm."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qmq.clock import Clock
from qmq.errors import LogError, ReadRefused
from qmq.protocol.codes import FollowResult, FollowState
from qmq.protocol.replication import (
    COPY_FORBIDDEN,
    DAMAGED_MAX,
    Confirm,
    FollowRequest,
    FollowResponse,
    ReadCopyRequest,
    ReadCopyResponse,
)
from qmq.supervisor import Supervisor
from qmq_node.commits.committer import Committer
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.log import SegmentedLog
from qmq_node.replication.counters import ReplicationCounters
from qmq_node.replication.group_time import GroupTime
from qmq_node.replication.master.candidates import Candidates
from qmq_node.replication.master.feed import Feed
from qmq_node.replication.master.following_slaves import FollowRejected, FollowRules
from qmq_node.replication.master.in_sync_set import InSyncSet
from qmq_node.replication.master.master_state import MasterState
from qmq_node.replication.master.membership_changes import MembershipChanges, RequestChange
from qmq_node.replication.master.retention_holds import RetentionHolds
from qmq_node.replication.master.sender import CommitSource, Sender
from qmq_node.replication.master.sessions import Sessions
from qmq_node.replication.master.slave_report import SlaveReport
from qmq_node.replication.master.state_reads import StateReads
from qmq_node.replication.rate_limit import RateLimit
from qmq_node.replication.rules.master import Master, SessionRejected
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.state_files import StateFiles
from qmq_node.server.connection import Connection

if TYPE_CHECKING:
    from random import Random

CHECK_SECONDS = 0.1
"""How often slaves are checked for progress, and heartbeats are sent."""
PAUSE_SECONDS = 1.0
"""If two checks are further apart, the process stood still, and the time between them does not count against slaves."""


@dataclass(eq=False, repr=False)
class Leading:
    """One epoch of a master.

    A send is answered when the high watermark passes it, so whatever fails here delays answers and loses nothing: a slave that
    was in the in-sync set counts until the membership without it is stored.
    """

    node_id: str
    membership: Membership
    """With this node as master."""
    log: SegmentedLog
    committer: Committer
    clock: Clock
    supervisor: Supervisor
    rng: "Random"
    request: RequestChange
    checkpoints: CheckpointStore
    """Of the state that belongs to the log."""
    files: StateFiles | None
    """As `StateReads` takes them."""
    copy_bytes_per_second: int
    """As `CommitSource` takes it; reads of the state have the same limit."""
    log_id: str
    """That slaves have to store."""
    on_newer_epoch: Callable[[int], None]
    """Called when a member or a metaserver knows a newer epoch: the node is to step down. It may be called repeatedly."""
    counters: ReplicationCounters = field(default_factory=ReplicationCounters)
    on_checked: Callable[[], None] = lambda: None
    """Called every CHECK_SECONDS: what `master.send_refusal` returns may have changed."""
    database_responds: Callable[[], bool] = lambda: True
    """As `MembershipChanges` takes it."""
    group_time: GroupTime | None = None
    """As `CommitSource` takes it."""
    _checks: "asyncio.Task[None] | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        log = self.log
        # A seal behind the last record is not synced, so no slave confirms it.
        begin = min(log.written_end, log.gather.records_end)
        value = Master(self.node_id, self.membership, begin, log.synced_end, log.high_watermark)
        observe = self.counters.confirm_seconds.observe
        self.master = MasterState(value, self.committer, self.clock, self._high_watermark_rose, observe)
        """Every send asks it."""
        self._feed = Feed(log, self.clock, self.supervisor, self._pump)
        self.in_sync = InSyncSet(self.master, self.clock)
        self._changes = MembershipChanges(
            self.in_sync, self.request, self.learned, self.clock, self.supervisor, self.counters,
            self.database_responds,
        )  # fmt: skip
        follow_rules = FollowRules(self.master, log, self._feed)
        self.candidates = Candidates(follow_rules, self.counters, self.clock, self.on_newer_epoch)
        self._source = CommitSource(
            self.membership.epoch, self.membership.promotion_id, log, self._feed, self.clock, self.supervisor, self.counters,
            lambda: self.master.value.high_watermark, self.copy_bytes_per_second, self.group_time,
        )  # fmt: skip
        self._holds = RetentionHolds()
        self._state_reads = StateReads(
            self.checkpoints, self.files, follow_rules, self._holds, self.clock,
            RateLimit(self.clock, self.copy_bytes_per_second), self.log_id, lambda: log.begin,
            lambda: log.stored.damaged_end,
        )  # fmt: skip
        # Sessions of an earlier process, or an earlier epoch, have other numbers.
        number = self.rng.randrange(1, 1 << 62)
        self._sessions = Sessions(self.master, self.in_sync, self.counters, self.clock, number)
        self._checked_at = self.clock.monotonic()

    def start(self) -> None:
        """Begin to lead: the committer's high watermark follows the in-sync set from now on. No commit may be being written.

        Raises ValueError if one is: it would not be sent to slaves.
        """
        if self.committer.is_writing:
            raise ValueError(
                f"replication can't start: a commit behind log offset {self.log.written_end} is being written"
            )
        self._feed.start()
        self.master.start()
        self.committer.on_stored = self._stored
        self._checked_at = self.clock.monotonic()
        self._checks = self.supervisor.every(CHECK_SECONDS, "replication_checks", self._check)

    def stop(self) -> None:
        """Send slaves nothing more. The high watermark stays where it is: what they confirm does not move it."""
        self.master.stop()
        self._feed.stop()

    async def close(self) -> None:
        """As `stop`, and end all sessions."""
        self.stop()
        if self._checks is not None:
            await self.supervisor.cancel(self._checks)
        await self._changes.stop()
        await self._sessions.close()

    # --- for the send path and the node ----------------------------------------------------------------------------

    @property
    def current_membership(self) -> Membership:
        """The newest membership of this epoch that is known to be stored."""
        return self.master.value.membership

    @property
    def counted(self) -> tuple[str, ...]:
        """The members that have to sync a commit before it is acknowledged, in the order of the membership."""
        master = self.master.value
        return tuple(member for member in master.membership.members if member in master.counted)

    @property
    def retained_from(self) -> int:
        """From this log offset on, retention may remove nothing: a slave in sync may still need it, or one that follows or copies
        and made progress within HOLD_SECONDS, or is building indexes of what it copied. One that makes none can't hold up
        retention; it may have to copy later."""
        behind = [sender.confirmed_end for sender in self._sessions if self.in_sync.makes_progress(sender.slave)]
        return min([self.master.value.high_watermark, *behind, *self._holds.offsets(self.clock.monotonic())])

    @property
    def holds_files(self) -> bool:
        """As `StateReads` has it."""
        return self._state_reads.holds_files

    def slaves(self) -> list[SlaveReport]:
        """Return the slaves that follow, in the order of the membership's members."""
        # A seal behind the last record is not synced, so no slave has to confirm it.
        end = min(self.log.written_end, self.log.gather.records_end)
        return [SlaveReport.of(sender, end) for sender in self._sessions]

    def learned(self, membership: Membership) -> None:
        """A membership is stored: the answer to a request, or what a metaserver sent."""
        if membership.epoch > self.membership.epoch:
            # The only member continues: it learns that with the next heartbeat at the latest.
            if membership.members != (self.node_id,):
                self.on_newer_epoch(membership.epoch)
            return
        self.master.set(self.master.value.learned(membership))
        self.in_sync.members_changed()
        self._sessions.end_of_others()
        self._holds.keep_only(membership.members)
        self._sessions.end_of_leaving()
        self._changes.advance()

    # --- sessions --------------------------------------------------------------------------------------------------

    async def follow(self, connection: Connection, request: FollowRequest) -> FollowResponse:
        """Return the answer to a slave. If it is accepted, `begin` has to follow once the answer was queued."""
        try:
            keep_to = await self.candidates.place(connection, request)
        except FollowRejected as rejected:
            return FollowResponse.rejection(rejected.result, str(rejected))
        number = self._sessions.new_number()
        sender = Sender(request, number, connection, self._source, keep_to, self._log_unreadable)
        self._sessions.begin(sender)
        self._holds.hold(sender.slave, sender.confirmed_end, self.clock.monotonic())
        segments = tuple((info.base, info.bytes) for info in self.log.stored.segments())
        high_watermark = self.master.value.high_watermark
        return FollowResponse(
            FollowResult.ACCEPTED, "", number, keep_to.offset, keep_to.chain, self.log.begin, high_watermark, segments,
            self.log_id, sender.states_time,
            tuple((damage.begin, damage.end) for damage in self.log.stored.damaged)[-DAMAGED_MAX:],
        )  # fmt: skip

    async def read_copy(self, request: ReadCopyRequest) -> ReadCopyResponse:
        """Return a piece of this node's state to a slave that copies it. Raises ReadRefused."""
        try:
            answer = await self._state_reads.read(request)
        except FollowRejected as rejected:
            if rejected.result is FollowResult.NEWER_EPOCH:
                self.on_newer_epoch(request.epoch)
            raise ReadRefused(f"{rejected.result.name}: {rejected}", code=COPY_FORBIDDEN) from rejected
        self.counters.sent_bytes["state"] += len(answer.data)
        return answer

    def begin(self, connection: Connection) -> None:
        """The answer of an accepted slave is queued: commits may follow it."""
        sender = self._sessions.on(connection)
        if sender is not None:
            sender.pump()

    def confirm(self, connection: Connection, confirm: Confirm) -> None:
        """Take a confirmation. One that does not count ends its session, and closes the connection."""
        sender = self._sessions.on(connection)
        if sender is None:
            self.counters.rejected_confirmations["no_session"] += 1
            connection.abort()
            return
        try:
            self._confirm(sender, confirm)
        except SessionRejected as rejected:
            self.counters.rejected_confirmations[rejected.code] += 1
            if rejected.is_alarm:
                self.counters.alarms += 1
            self._sessions.fail(sender, "rejected", rejected)
            return
        self.counters.confirmations += 1

    def _confirm(self, sender: Sender, confirm: Confirm) -> None:
        slave, end, state = sender.slave, confirm.synced_end, FollowState(confirm.state)
        if confirm.epoch != self.membership.epoch:
            raise SessionRejected(f"node {slave!r} confirmed epoch {confirm.epoch}", "other_epoch")
        if end < sender.last_confirmed:
            # Whatever its CRC is: that of an earlier end is not known any more.
            raise SessionRejected(
                f"node {slave!r} confirmed log offset {end} after {sender.last_confirmed}", "below_last", is_alarm=True
            )
        own_crc = 0 if end == 0 else sender.crc_at(end)
        if own_crc is None and end < sender.keep_to:
            # Equal to the master's log, and too old to be checked: newer ones follow before anything depends on it.
            return
        changed = self.master.value.confirmed(slave, confirm.session, end, confirm.crc, own_crc)
        self.in_sync.confirmed(slave, end, state)
        if state is not FollowState.COPYING:
            # What is copied is synced many commits at a time, so a part of it may still be lost.
            self.master.set(changed)
        sender.confirmed(end, confirm.applied_end, state)
        to_rebuild = max(0, end - self.log.begin) if state is FollowState.COPYING else 0
        self._holds.hold(slave, sender.confirmed_end, self.clock.monotonic(), to_rebuild=to_rebuild)
        if state is FollowState.LEAVING:
            self._sessions.end_of_leaving()
        if not state.is_following or end < changed.high_watermark or slave not in changed.membership.in_sync:
            self._changes.advance()

    def _log_unreadable(self, sender: Sender, error: LogError) -> None:
        self._sessions.fail(sender, "log_unreadable", error)

    # --- what moves it ---------------------------------------------------------------------------------------------

    def _stored(self, end: int) -> None:
        self.in_sync.stored(end)
        self.master.stored(end)

    def _pump(self) -> None:
        """There is a new commit."""
        for sender in self._sessions:
            self.supervisor.call("replication_send", sender.pump)

    def _high_watermark_rose(self) -> None:
        """Slaves apply up to the high watermark. It goes with the next commit, or with the next check."""
        master = self.master.value
        self._feed.release(min([master.high_watermark, *(session.confirmed for session in master.sessions)]))

    def _check(self) -> None:
        now = self.clock.monotonic()
        gap, self._checked_at = now - self._checked_at, now
        if gap > PAUSE_SECONDS:
            self.in_sync.skip(gap)
            self.master.skip(gap)
        for sender in self._sessions:
            # It may have failed before.
            sender.pump()
            sender.state_high_watermark()
            sender.heartbeat()
        self.master.check_stalled(2 * CHECK_SECONDS)
        self._state_reads.expire()
        self.in_sync.check()
        self._changes.advance()
        self.on_checked()
