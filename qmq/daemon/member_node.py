"""class MemberNode: a node whose broker group may have several members.

One object is one life. The only member of a group serves at once, as any node. Otherwise the node opens its log as a member: it
applies nothing above its checkpoint, and clients can't connect. Then it follows a master, or is promoted and serves. A
master that steps down, and a slave whose log is truncated, end with `LifeEnded`: the process makes a new object. So nothing that
runs is taken apart, and what a master kept in memory above the high watermark is dropped as after a crash.
"""

import asyncio
from abc import abstractmethod
from dataclasses import replace
from typing import Any

from prometheus_client.core import Metric

from qmq import __version__
from qmq.daemon.admin_http import AdminPages, JsonPost
from qmq.daemon.applying import Applying
from qmq.daemon.checkpointing import Checkpointing
from qmq.daemon.committer import Committer
from qmq.daemon.node import Node
from qmq.daemon.replication.flush_check import flush_problem
from qmq.daemon.replication.follow_outcomes import FollowerIdentity
from qmq.daemon.replication.follower import Follower
from qmq.daemon.replication.hand_over import HandOver
from qmq.daemon.replication.held_clients import HeldClients
from qmq.daemon.replication.leading import Leading
from qmq.daemon.replication.listener import SyncListener
from qmq.daemon.replication.member import Member
from qmq.daemon.replication.row_client import RowClient
from qmq.daemon.replication.switch_over import SwitchOver, SwitchOverRejected
from qmq.daemon.replication.switch_over_page import switch_over_posts
from qmq.errors import SettingError
from qmq.log.record import EPOCH_KIND, encode_epoch
from qmq.log.replay import MemberOpening, Replay
from qmq.log.truncation import Truncation
from qmq.net.open_files import FileBudget, file_budget
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType, ReplicaRole, Role
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse, SlaveEnd
from qmq.replication.roles import ReplicaState
from qmq.replication.row import GroupRow


class MemberNode(Node):
    """A node with a log that other members of its group may have, too."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.boot_id = f"{self.machine.rng.getrandbits(64):016x}"
        """Identifies this life."""
        self.member: Member | None = None
        """None: it is the only member."""
        self.opening: MemberOpening | None = None
        """How the log is opened; None: as that of the only member."""
        self.applying: Applying | None = None
        self._sync: SyncListener | None = None
        self._has_ended = False
        self.is_serving = False
        """Whether the node has begun to serve clients. From then on it applies each commit of its own."""
        self._accepts_sends = True
        """As metaservers were informed."""
        rows = RowClient(self.options.broker_group, lambda: self.membership.followed if self.membership else None)
        self.request_row_change, self.request_resignation = rows.change_in_sync, rows.resign
        self._hand_over: HandOver | None = None
        """Of a master that serves."""

    @property
    @abstractmethod
    def replay(self) -> Replay:
        """What has applied the log to the store since it was opened."""

    async def prepare_to_lead(self) -> None:
        """Bring what a slave does not keep in its store up to date, now that the whole log is applied."""

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._is_starting = True
        budget = file_budget(self.options.connections_max)
        await asyncio.to_thread(self.open_folder)
        if self.replica.state.is_only_member:
            await self.open_data(budget)
            self.make_committer()
            self.server = self.frame_server(budget)
            self.is_serving = True
            await self.begin_serving()
        else:
            await self._start_as_member(budget)

    async def _start_as_member(self, budget: FileBudget) -> None:
        """Open the log, and wait for the row of the group. Raises SettingError if the node can't be one of several members."""
        options = self.options
        if problem := flush_problem(options.broker_group, options.flush):
            raise SettingError(problem)
        self.opening = MemberOpening(0)
        await self.open_data(budget)
        self.applying = Applying(self.log, self.replay)
        self.checkpoints = self.new_checkpoints(None)
        self.checkpoints.start()
        self.server = self.frame_server(budget)
        await self.server.bind()
        self.member = Member(self.node_id, self, self.supervisor)
        self._sync = SyncListener(
            options.host,
            options.sync_port,
            lambda: self.member.leading if self.member is not None else None,
            clock=self.clock,
            supervisor=self.supervisor,
            listen=self.machine.listen,
        )
        await self._sync.start()
        self.admin = self.admin_server(AdminPages({"/stats": self._stats}, self.member_posts()), self._no_metrics)
        await self.admin.start()
        self.started_at_ms, self._started_at = self.clock.wall_ms(), self.clock.monotonic()
        self._is_started = True
        self.supervisor.critical("member", self.member.run())
        super().join()
        self.logger.info("%s waits for the row of its group, admin on %s:%d", self.title, *self.admin.address)

    async def _stats(self, _: Any) -> dict[str, Any]:
        assert self.member is not None
        assert self.applying is not None
        return {
            "broker_group": self.options.broker_group,
            "node_id": self.node_id,
            "role": self.member.role.name.lower(),
            "role_reason": self.member.reason,
            "epoch": self.replica.state.epoch,
            "version": __version__,
            "log": {
                "begin": self.log.begin,
                "end": self.log.written_end,
                "synced_end": self.log.synced_end,
                "high_watermark": self.applying.known_high_watermark,
                "applied_end": self.applying.applied_end,
            },
        }

    async def _no_metrics(self) -> list[Metric]:
        return []

    def join(self) -> None:
        # A member has joined before it serves.
        if self.member is None:
            super().join()

    def readiness(self) -> str:
        if self.member is not None and not self.is_serving:
            role = self.member.role.name.lower().replace("_", " ")
            return f"{role}: {self.member.reason}" if self.member.reason else f"serves no clients: {role}"
        return super().readiness()

    def health(self) -> str:
        return super().health() if self._has_committer else ""

    def restrictions(self) -> dict[str, str]:
        return super().restrictions() if self.is_serving else {}

    @property
    def _has_committer(self) -> bool:
        return self.member is None or self.member.leading is not None

    def refuse_sends(self) -> str:
        leading = self.member.leading if self.member is not None else None
        return super().refuse_sends() or (leading.send_refusal if leading is not None else "")

    def may_answer_sends(self) -> bool:
        leading = self.member.leading if self.member is not None else None
        return leading is None or leading.accepts_sends

    def _sends_checked(self) -> None:
        """Sends may be accepted again, or no longer: handle those that wait for slaves, and let metaservers know."""
        if self.committer.on_confirmed is not None:
            self.committer.on_confirmed()
        accepts = not self.refuse_sends()
        if accepts != self._accepts_sends and self.membership is not None:
            self.membership.soon()
        self._accepts_sends = accepts

    def _synced(self, synced_end: int) -> None:
        # Before clients can connect, only the record of the epoch is written, and nothing is derived from it.
        if self.is_serving:
            super()._synced(synced_end)

    async def stopping(self) -> None:
        if self.member is not None:
            if not self._has_ended:
                await self.member.leave()
            await self.member.close()
        if self._sync is not None:
            await self._sync.close()
        if self.is_serving:
            await super().stopping()
        elif self.membership is not None:
            await self.membership.close()

    @property
    def drain_seconds(self) -> float:
        # What waits for slaves is not answered any more once this node has stepped down.
        return super().drain_seconds if self._has_committer and not self._has_ended else 0.0

    async def finish(self) -> None:
        if self._hand_over is not None and self._hand_over.is_done:
            # There is a checkpoint of a moment ago, and the successor waits for this node to follow.
            await self.committer.stop()
        elif self._has_committer:
            await super().finish()
        elif self.log.failed is None:
            await self.checkpoints.finish()

    # --- what a member needs ---------------------------------------------------------------------------------------

    @property
    def replica_state(self) -> ReplicaState:
        return self.replica.state

    async def store_replica_state(self, state: ReplicaState) -> None:
        if state != self.replica.state:
            await asyncio.to_thread(self.replica.save, state)

    def new_follower(self) -> Follower:
        assert self.applying is not None
        state, options = self.replica.state, self.options
        identity = FollowerIdentity(
            options.broker_group, self.node_id, self.boot_id, options.sync_token, state.epoch, state.promotion_id
        )
        return Follower(
            self.log,
            self.replica.copied_log(self.log),
            identity,
            self.applying,
            self.clock,
            self.supervisor,
            self.machine.start_thread,
            self.end,
        )

    async def begin_epoch(self, row: GroupRow) -> tuple[Leading, int]:
        assert self.applying is not None
        assert self.member is not None
        # A checkpoint that was begun before holds nothing that is not confirmed; from now on each waits until all that it holds is.
        async with self.checkpoints.lock:
            await self.applying.apply_all()
            await self.prepare_to_lead()
            self.replica.begin_epoch(self.log)
            self.make_committer()
            self.checkpoints.committer = self.committer
        self.committer.start()
        leading = Leading(
            self.node_id,
            row,
            self.options.sync_token,
            self.log,
            self.committer,
            self.clock,
            self.supervisor,
            self.machine.rng,
            self.request_row_change,
            self.member.newer_epoch,
        )
        leading.start()
        offset = self.log.append(EPOCH_KIND, encode_epoch(row.epoch, row.promotion_id))
        self.committer.kick()
        return leading, offset

    async def wait_confirmed(self, offset: int) -> None:
        await self.committer.synced(offset)

    async def serve_clients(self) -> None:
        self.admin_address = self.admin.address
        await self.admin.close()
        # What it builds exists before any commit of a client is synced.
        self.is_serving = True
        await self.begin_serving()
        self._accepts_sends = not self.refuse_sends()
        assert self.member is not None
        leading = self.member.leading
        assert leading is not None
        leading.on_checked = self._sends_checked
        clients = HeldClients(self.server, self.handlers)
        switch_over = SwitchOver(leading, clients, self.request_resignation, self.clock)
        self._hand_over = HandOver(
            self.node_id, switch_over, self.checkpoints.make, self.member.learned, self.clock, self.supervisor
        )
        if self.membership is not None:
            self.membership.soon()

    async def truncate(self, to: Truncation) -> None:
        assert self.applying is not None
        known = min(self.applying.known_high_watermark, self.log.written_end)
        async with self.checkpoints.lock:
            at = self.checkpoints.last_position.offset
            await asyncio.to_thread(lambda: self.log.truncate(to, high_watermark=known, checkpoint_offset=at))

    def member_posts(self) -> dict[str, JsonPost]:
        """Return the admin pages that change the node's role in its group."""
        return switch_over_posts(self.switch_over)

    async def switch_over(self, to: str) -> dict[str, Any]:
        """Hand over as `HandOver.now`. Raises SwitchOverRejected, SwitchOverUnknown."""
        if self._hand_over is None:
            raise SwitchOverRejected(f"node {self.node_id} is not a master with slaves")
        return await self._hand_over.now(to)

    async def close(self) -> None:
        if self._hand_over is not None and not (self._is_closed or self._has_ended or self.failure.is_set):
            await self._hand_over.before_stop(self.options.stop_seconds)
        await super().close()

    def end(self, error: BaseException) -> None:
        self._has_ended = True
        self.failure.set(error)

    @abstractmethod
    def new_checkpoints(self, committer: Committer | None) -> Checkpointing[Any]:
        """Return what makes checkpoints of the store; None: on a slave."""

    # --- metaservers -----------------------------------------------------------------------------------------------

    def registration(self, request_type: BrokerRequestType) -> NodeRegisterRequest:
        request = super().registration(request_type)
        if self.member is None or self._sync is None or self.applying is None:
            # It registers as a node without replication, because a running node does not yet become the master of a larger group.
            return request
        host = self.options.advertise_host or self.options.host
        leading, follower = self.member.leading, self.member.follower
        silent = follower.silent_seconds if follower is not None else None
        return replace(
            request,
            role=Role.MASTER if self.is_serving else Role.SLAVE,
            state=request.state if self.is_serving else BrokerGroupState.OFFLINE,
            boot_id=self.boot_id,
            sync_address=f"{host}:{self._sync.server.address[1]}",
            rack=self.options.rack,
            replica_role=self.member.role,
            promotion_id=self.replica.state.promotion_id,
            log_epoch=self.log.epochs.last_epoch,
            high_watermark=self.log.high_watermark,
            master_silent_ms=-1 if silent is None else round(silent * 1000),
            problems=(self.member.reason,) if self.member.role is ReplicaRole.FAILED else (),
            slaves=tuple(SlaveEnd(one.node_id, one.confirmed_end) for one in leading.slaves()) if leading else (),
        )

    def registered(self, answer: NodeRegisterResponse) -> None:
        super().registered(answer)
        if self.member is not None and answer.row is not None:
            self.member.learned(answer.row)
