"""class MemberShell: what a member does with its node when its role changes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qmq.protocol.group_rows import RowResult
from qmq.protocol.reasons import Reason
from qmq_node.log.record import EPOCH_KIND, FIRST_EPOCH, encode_epoch
from qmq_node.log.truncation import Truncation
from qmq_node.replication.flush_check import flush_problem
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.rules.roles import Copying, CopyPhase, Identity, ReplicaState
from qmq_node.replication.rules.row import ChangeInSync, GroupRow
from qmq_node.replication.slave.follow_outcomes import FollowerIdentity
from qmq_node.replication.slave.follower import Follower
from qmq_node.replication.slave.slave_copy import SlaveCopy
from qmq_node.replication.slave.state_copy import wait_for_state
from qmq_node.replication.switch_over.held_clients import HeldClients
from qmq_node.replication.switch_over.planned_switch_overs import PlannedSwitchOvers
from qmq_node.replication.switch_over.switch_over import SwitchOver

if TYPE_CHECKING:
    from qmq_node.member.member_node import MemberNode


@dataclass(eq=False, repr=False)
class MemberShell:
    """Opens, writes, truncates and serves as `Member` says: a `Shell` around one node."""

    _node: "MemberNode"
    switch_overs: PlannedSwitchOvers | None = field(default=None, init=False)
    """Of a node that leads."""
    _stores: int = field(default=0, init=False)
    """How often the state of the replica was to be stored."""
    write_under_way: int | None = field(default=None, init=False)
    """Identifies the write of that state that is under way; None: none is."""

    @property
    def identity(self) -> Identity:
        return Identity(self._node.node_id, self._node.boot_id, self._node.incarnation)

    @property
    def replica_state(self) -> ReplicaState:
        return self._node.replica.state

    async def store_replica_state(self, state: ReplicaState) -> None:
        if state != self._node.replica.state:
            self._stores += 1
            self.write_under_way = self._stores
            try:
                await asyncio.to_thread(self._node.replica.save_role, state)
            finally:
                self.write_under_way = None

    def _identity(self) -> FollowerIdentity:
        state, options = self._node.replica.state, self._node.options
        return FollowerIdentity(
            options.broker_group,
            self._node.node_id,
            self._node.boot_id,
            self._node.sync_secret,
            state.epoch,
            state.promotion_id,
            self._node.incarnation,
        )

    def new_follower(self) -> Follower:
        assert self._node.applying is not None
        return Follower(
            self._node.log,
            SlaveCopy(
                self._node.replica,
                self._node.log,
                self._node.replica.copied_log(self._node.log),
                self._node.clock,
                self._node.save_copied_state,
            ),
            self._identity(),
            self._node.applying,
            self._node.clock,
            self._node.supervisor,
            self._node.machine.start_thread,
            self._node.end,
        )

    async def begin_epoch(self, row: GroupRow) -> tuple[Leading, int]:
        await self._begin_writing()
        leading = self._new_leading(row)
        leading.start()
        offset = self.append_epoch()
        return leading, offset

    async def begin_alone(self) -> None:
        await self._begin_writing()
        if self._node.log.epoch > FIRST_EPOCH:
            self.append_epoch()

    async def begin_replicating(self, row: GroupRow) -> Leading:
        done = asyncio.get_running_loop().create_future()

        def begin() -> None:
            try:
                leading = self._new_leading(row)
                leading.start()
            except Exception as error:  # noqa: BLE001 - raised below
                done.set_exception(error)
            else:
                done.set_result(leading)

        self._node.committer.between_commits(begin)
        leading: Leading = await done
        return leading

    @property
    def log_problem(self) -> str:
        return self._node.log_problem

    async def wait_for_state(self, address: str, on_problem: Callable[[str], None]) -> None:
        await wait_for_state(address, self._identity(), on_problem)

    def replication_problem(self) -> str:
        return flush_problem(self._node.options.broker_group, self._node.options.flush)

    async def _begin_writing(self) -> None:
        """Apply the whole log, and write to it from now on."""
        assert self._node.applying is not None
        # A checkpoint that was begun before holds nothing that is not confirmed; from now on each waits until all that it holds is.
        async with self._node.checkpoints.lock:
            self._node.checkpoints.is_suspended = True
            await self._node.applying.apply_all()
            await self._node.prepare_to_lead()
            await self.begin_epoch_on_disk()
            await asyncio.to_thread(self._node.identify_log)
            self._node.make_committer()
            self._node.checkpoints.committer = self._node.committer
            self._node.checkpoints.is_suspended = False
        self._node.committer.start()

    async def begin_epoch_on_disk(self) -> None:
        """Have further commits written in the epoch on disk; nothing is being written."""
        node = self._node
        if node.replica.state.copying is not None:
            # An operator promoted it although it lacks acknowledged messages. What it has was synced when it was opened.
            await asyncio.to_thread(node.log.writer.sync)
            await asyncio.to_thread(node.replica.end_copying, node.log)
        node.replica.begin_epoch(node.log)

    def _new_leading(self, row: GroupRow) -> Leading:
        leading = Leading(
            self._node.node_id,
            row,
            self._node.log,
            self._node.committer,
            self._node.clock,
            self._node.supervisor,
            self._node.machine.rng,
            self._request_row_change,
            self._node.checkpoint_store,
            self._node.options.copy_bytes_per_second,
            self._node.replica.state.log_id,
            self._node.member.newer_epoch,
        )
        leading.on_checked = self._node.sends_checked
        leading.database_responds = self._node.database_responds
        clients = HeldClients(self._node.server, lambda: self._node.handlers)
        switch_over = SwitchOver(leading, clients, self._node.request_resignation, self._node.clock)
        self.switch_overs = PlannedSwitchOvers(
            self._node.node_id,
            switch_over,
            self._node.checkpoints.make,
            self._node.member.learned,
            self._node.clock,
            self._node.supervisor,
        )
        return leading

    async def _request_row_change(self, change: ChangeInSync, reason: Reason) -> tuple[RowResult, GroupRow | None]:
        """Request a change of the row. The answered row is on disk before the master acts on it, and waits for a slave no longer:
        then it knows also after a restart that the row of a restored database is older."""
        result, row = await self._node.request_row_change(change, reason)
        state = self.replica_state
        if row is not None and (row.epoch, row.promotion_id) == (state.epoch, state.promotion_id):
            await self.store_replica_state(state.for_row(row))
        return result, row

    def append_epoch(self) -> int:
        """Append the record of the epoch on disk; its log offset."""
        state = self._node.replica.state
        offset = self._node.log.gather.append(EPOCH_KIND, encode_epoch(state.epoch, state.promotion_id))
        self._node.committer.kick()
        return offset

    async def wait_confirmed(self, offset: int) -> None:
        await self._node.committer.synced(offset)

    async def truncate(self, to: Truncation) -> None:
        assert self._node.applying is not None
        known = min(self._node.applying.known_high_watermark, self._node.log.written_end)
        await self._node.segment_removal.close()
        async with self._node.checkpoints.lock:
            at = self._node.checkpoints.last_position.offset
            await asyncio.to_thread(lambda: self._node.log.truncate(to, high_watermark=known, checkpoint_offset=at))

    async def discard_log(self) -> None:
        await self._node.segment_removal.close()
        async with self._node.checkpoints.lock:
            await asyncio.to_thread(self._node.replica.set_copying, Copying(0, 0, CopyPhase.CLEARING))

    async def serve_clients(self) -> None:
        await self._node.serve_clients()

    def end(self, error: BaseException) -> None:
        self._node.end(error)
