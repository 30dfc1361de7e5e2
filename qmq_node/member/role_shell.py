"""class MemberShell: what a member does with its node when its role changes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from qmq.net.node_secret import NodeSecret
from qmq.protocol.group_memberships import MembershipResult
from qmq.protocol.reasons import Reason
from qmq_node.commits.applying import Applying
from qmq_node.log.record import EPOCH_KIND, FIRST_EPOCH, encode_epoch
from qmq_node.log.truncation import Truncation
from qmq_node.member.member_store import MemberStore
from qmq_node.member.membership_client import MembershipClient
from qmq_node.node.node import Node
from qmq_node.replication.flush_check import flush_problem
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.rules.membership import ChangeInSync, Membership
from qmq_node.replication.rules.roles import Copying, CopyPhase, Identity, ReplicaState
from qmq_node.replication.slave.follow_outcomes import FollowerIdentity
from qmq_node.replication.slave.follower import Follower, nothing_elsewhere
from qmq_node.replication.slave.slave_copy import SlaveCopy
from qmq_node.replication.slave.state_copy import wait_for_state
from qmq_node.replication.state_files import WantedBytes
from qmq_node.replication.switch_overs import SwitchOvers

if TYPE_CHECKING:
    from qmq_node.member.role import Member


@dataclass(eq=False, repr=False)
class MemberShell:
    """Opens, writes, truncates and serves as `Member` says."""

    boot_id: str
    """Identifies this life."""
    _node: Node
    _store: MemberStore
    _sync_secret: NodeSecret | None
    membership_client: MembershipClient
    _: KW_ONLY
    serve_clients: Callable[[], Coroutine[Any, Any, None]]
    """Lets clients connect."""
    sends_checked: Callable[[], None]
    """Called when sends may be accepted again, or no longer."""
    is_damaged: Callable[[], bool] = lambda: False
    """Whether the disk has damage that is not repaired."""
    may_be_repaired: Callable[[], bool] = lambda: False
    """Whether damage is about to be repaired for the first time."""
    read_elsewhere: Callable[[WantedBytes], Awaitable[bytes]] = nothing_elsewhere
    """As `MemberRepairs.read_elsewhere`."""
    member: "Member" = field(init=False)
    """The role of the node, which this is the shell of."""
    applying: Applying | None = field(default=None, init=False)
    """Of a member that does not write to its log; None: the log was opened as that of the only member."""
    has_ended: bool = field(default=False, init=False)
    """Whether this life ended, so that the process makes a new one."""
    log_problem: str = field(default="", init=False)
    """Why the log that was opened can't be used, so that it has to be replaced by a copy of the master's; "" if it can. A log that
    fails later is opened again by the next start."""
    switch_overs: SwitchOvers | None = field(default=None, init=False)
    """Of a node that leads."""
    _stores: int = field(default=0, init=False)
    """How often the state of the replica was to be stored."""
    write_under_way: int | None = field(default=None, init=False)
    """Identifies the write of that state that is under way; None: none is."""

    def __post_init__(self) -> None:
        self._options, self._folder, self._storage = self._node.options, self._node.folder, self._node.storage

    @property
    def identity(self) -> Identity:
        return Identity(self._node.node_id, self.boot_id, self._folder.incarnation)

    @property
    def replica_state(self) -> ReplicaState:
        """What is on disk."""
        return self._folder.replica.state

    async def store_replica_state(self, state: ReplicaState) -> None:
        """Make it durable. Raises OSError, or ValueError for an older epoch."""
        if state != self._folder.replica.state:
            self._stores += 1
            self.write_under_way = self._stores
            try:
                await asyncio.to_thread(self._folder.replica.save_role, state)
            finally:
                self.write_under_way = None

    def _identity(self) -> FollowerIdentity:
        state, options = self._folder.replica.state, self._options
        return FollowerIdentity(
            options.broker_group,
            self._node.node_id,
            self.boot_id,
            self._sync_secret,
            state.epoch,
            state.promotion_id,
            self._folder.incarnation,
        )

    def new_follower(self, why_kept: Callable[[], str]) -> Follower:
        """A follower in the epoch on disk, with `why_kept` as `SlaveCopy` takes it."""
        assert self.applying is not None
        return Follower(
            self._storage.log,
            SlaveCopy(
                self._folder.replica,
                self._storage.log,
                self._folder.replica.copied_log(self._storage.log),
                self._node.clock,
                self._store.save_copied_state,
                why_kept,
                self._store.state_files,
                self._node.machine.copy_counters,
            ),
            self._identity(),
            self.applying,
            self._node.clock,
            self._node.supervisor,
            self._node.machine.start_thread,
            self.end,
            self._store.group_time,
            lambda: self.is_damaged(),
            self.read_elsewhere,
        )

    async def begin_epoch(self, membership: Membership) -> tuple[Leading, int]:
        """Lead the epoch on disk: apply the whole log, and append the record of the epoch; its log offset."""
        await self._begin_writing(membership)
        leading = self._new_leading(membership)
        leading.start()
        offset = self.append_epoch()
        return leading, offset

    async def begin_alone(self, membership: Membership) -> None:
        """Write to the log from now on, in the epoch on disk, without slaves: apply the whole log."""
        await self._begin_writing(membership)
        if self._storage.log.epoch > FIRST_EPOCH:
            self.append_epoch()

    async def begin_replicating(self, membership: Membership) -> Leading:
        """Lead the epoch on disk, which this node has served alone until now, while clients are connected."""
        done = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if done.cancelled():
                return  # the node stops, and would not end what begins here
            try:
                leading = self._new_leading(membership)
                leading.start()
            except Exception as error:  # noqa: BLE001 - raised below
                done.set_exception(error)
            else:
                done.set_result(leading)

        self._storage.committer.between_commits(begin)
        leading: Leading = await done
        return leading

    async def continue_alone(self, leading: Leading) -> None:
        """Lead the epoch on disk as the only member, while clients are connected. What waits for slaves is answered."""
        done = asyncio.get_running_loop().create_future()
        committer = self._storage.committer

        def begin() -> None:
            if done.cancelled() or self.has_ended:
                return  # the node stops, or opens its log again
            try:
                leading.stop()
                committer.on_stored = None
                self._folder.replica.begin_epoch(self._storage.log, keeps_records=True)
                # What waits to be written is written in the new epoch; what is written is on every disk that counts.
                committer.confirm(leading.master.value.synced_end)
                self.append_epoch()
            except Exception as error:  # noqa: BLE001 - raised below
                done.set_exception(error)
            else:
                done.set_result(None)

        committer.between_commits(begin)
        await done
        self.switch_overs = None
        await leading.close()

    async def wait_for_state(self, address: str, on_problem: Callable[[str], None]) -> None:
        """As `qmq_node.replication.slave.state_copy.wait_for_state`."""
        await wait_for_state(address, self._identity(), on_problem)

    def replication_problem(self) -> Reason:
        """Why this node can't have slaves; "" if it can."""
        return flush_problem(self._options.broker_group, self._options.flush)

    @property
    def has_own_damage(self) -> bool:
        """Whether the log has damage that the broker group is not known to have lost."""
        return bool(self._storage.log.stored.own_damage)

    def may_lead_damaged(self, membership: Membership) -> bool:
        """Whether this node can lead although its log takes nothing, because that is only damaged, and an operator has accepted its
        loss, by this promotion or by an earlier one."""
        log = self._storage.log
        return log.is_refused_for_damage and (membership.accepts_loss or not log.stored.own_damage)

    async def _begin_writing(self, membership: Membership) -> None:
        """Apply the whole log, and write to it from now on."""
        assert self.applying is not None
        log = self._storage.log
        # A checkpoint that was begun before holds nothing that is not confirmed; from now on each waits until all that it holds is.
        async with self._storage.checkpoints.lock:
            self._storage.checkpoints.is_suspended = True
            if membership.accepts_loss or log.is_refused_for_damage:
                await asyncio.to_thread(log.accept_damage)
                self._store.accept_damage()
                self.log_problem = ""
            await self.applying.apply_all()
            await asyncio.to_thread(log.continue_behind_damage)
            await self._store.prepare_to_lead()
            await self.begin_epoch_on_disk()
            await asyncio.to_thread(self._storage.identify_log)
            self._storage.make_committer()
            self._storage.checkpoints.committer = self._storage.committer
            self._storage.checkpoints.is_suspended = False
        self._storage.committer.start()

    async def begin_epoch_on_disk(self) -> None:
        """Have further commits written in the epoch on disk; nothing is being written."""
        replica, log = self._folder.replica, self._storage.log
        if replica.state.copying is not None:
            # An operator promoted it although it lacks acknowledged messages. What it has was synced when it was opened.
            await asyncio.to_thread(log.writer.sync)
            await asyncio.to_thread(replica.end_copying, log)
        replica.begin_epoch(log)

    def _new_leading(self, membership: Membership) -> Leading:
        leading = Leading(
            self._node.node_id,
            membership,
            self._storage.log,
            self._storage.committer,
            self._node.clock,
            self._node.supervisor,
            self._node.machine.rng,
            self._change_in_sync,
            self._store.checkpoint_store,
            self._store.state_files,
            self._options.copy_bytes_per_second,
            self._folder.replica.state.log_id,
            self.member.newer_epoch,
            on_checked=self.sends_checked,
            database_responds=self.membership_client.database_responds,
            group_time=self._store.group_time,
        )
        self.switch_overs = SwitchOvers(
            leading,
            self._node.server,
            lambda: self._node.serving.handlers,
            self.membership_client.resign,
            self._storage.checkpoints.make,
            self.member.learned,
            self._node.clock,
            self._node.supervisor,
        )
        return leading

    async def _change_in_sync(self, change: ChangeInSync, reason: Reason) -> tuple[MembershipResult, Membership | None]:
        """Request a change of the membership. The answered membership is on disk before the master acts on it, and
        waits for a slave no longer: then it knows also after a restart that the membership of a restored database is
        older."""
        result, membership = await self.membership_client.change_in_sync(change, reason)
        state = self.replica_state
        if membership is not None and (membership.epoch, membership.promotion_id) == (state.epoch, state.promotion_id):
            await self.store_replica_state(state.for_membership(membership))
        return result, membership

    def append_epoch(self) -> int:
        """Append the record of the epoch on disk; its log offset."""
        state = self._folder.replica.state
        offset = self._storage.log.gather.append(EPOCH_KIND, encode_epoch(state.epoch, state.promotion_id))
        self._storage.committer.kick()
        return offset

    async def wait_confirmed(self, offset: int) -> None:
        """Wait until the record at a log offset is below the high watermark. Raises LogError when the log fails."""
        await self._storage.committer.synced(offset)

    async def truncate(self, to: Truncation) -> None:
        """Truncate the log, which is not used any more. Raises LogError or OSError."""
        assert self.applying is not None
        known = min(self.applying.known_high_watermark, self._storage.log.written_end)
        await self._storage.segment_removal.close()
        async with self._storage.checkpoints.lock:
            at = self._storage.checkpoints.last_position.offset
            await asyncio.to_thread(lambda: self._storage.log.truncate(to, high_watermark=known, checkpoint_offset=at))

    async def discard_log(self) -> None:
        """Record that the log, which is not used any more, is replaced by a copy of the master's. Raises OSError."""
        # What a log lost at its end may have been applied.
        end = 0 if self.log_problem else self._storage.log.written_end
        await self._storage.segment_removal.close()
        async with self._storage.checkpoints.lock:
            await asyncio.to_thread(self._folder.replica.set_copying, Copying(0, end, CopyPhase.CLEARING))

    def end(self, error: BaseException) -> None:
        """End this node with an error; after LifeEnded, the process makes a new one."""
        self.has_ended = True
        self._node.failure.set(error)
