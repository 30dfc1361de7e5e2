"""class MemberNode: a node whose broker group may have several members.

One object is one life. The only member of a group serves at once, as any node, and becomes the master of slaves without a pause.
Otherwise the node opens its log as a member: it applies nothing above its checkpoint, and clients can't connect. Then it follows
a master, or is promoted and serves. A master that steps down, and a slave whose log is truncated, end with `LifeEnded`: the
process makes a new object. So nothing that runs is taken apart, and what a master kept in memory above the high watermark is
dropped as after a crash.

A node whose data folder is empty serves only after a metaserver has said that it is the only member: the folder may be a new disk,
and clients may know the node from before. Without metaservers it is always the only member.
"""

import asyncio
from collections.abc import Hashable
from typing import Any

from qmq.errors import SettingError
from qmq.net.open_files import FileBudget, file_budget
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.frames import Frame
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq_node.admin.server import AdminPages, JsonPost
from qmq_node.commits.applying import Applying
from qmq_node.log.replay import MemberOpening
from qmq_node.member.member_store import MemberStore
from qmq_node.member.registration import registration_of
from qmq_node.member.role import Member
from qmq_node.member.role_metrics import MemberMetrics
from qmq_node.member.role_report import role_report
from qmq_node.member.role_shell import MemberShell
from qmq_node.member.row_client import RowClient
from qmq_node.node.node import JOB_SECONDS, Node
from qmq_node.node.reports import head, log_report, state_reason
from qmq_node.replication.flush_check import flush_problem
from qmq_node.replication.master.listener import SyncListener, sync_secret_of, warn_if_open
from qmq_node.replication.newest_row import NewestRow
from qmq_node.replication.rules.roles import Copying, CopyPhase, ReplicaState
from qmq_node.replication.switch_over.page import switch_over_posts
from qmq_node.replication.switch_over.switch_over import SwitchOverRejected

_WITHOUT_CLIENTS = {
    ReplicaRole.WAITING: Reason.of(Code.WAITS_FOR_MASTER),
    ReplicaRole.COPYING: Reason.of(Code.SLAVE_COPIES),
    ReplicaRole.FOLLOWING: Reason.of(Code.SLAVE_FOLLOWS),
    ReplicaRole.IN_SYNC: Reason.of(Code.SLAVE_IN_SYNC),
}
"""By role: why a node serves no clients, where it has no problem to report."""


class MemberNode(Node, MemberStore):
    """A node with a log that other members of its group may have, too."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.boot_id = f"{self.machine.rng.getrandbits(64):016x}"
        """Identifies this life."""
        self.shell = MemberShell(self)
        rows = NewestRow(self.options.broker_group, self.clock)
        self.member = Member(self.node_id, rows, self.shell, self.supervisor, self.machine.role_changes)
        self.member.on_role = self.report_soon
        self.opening: MemberOpening | None = None
        """How the log is opened; None: as that of the only member."""
        self.applying: Applying | None = None
        self.sync_secret = sync_secret_of(self.options.sync_token, self.secret)
        """What slave and master prove to each other that they know; None: nothing."""
        self._sync = SyncListener(
            self.options.host,
            self.options.sync_port,
            lambda: self.member.leading,
            self.sync_secret,
            clock=self.clock,
            supervisor=self.supervisor,
            listen=self.machine.listen,
        )
        self.log_problem = ""
        """Why the log could not be used when it was opened; "" if it could."""
        self._has_committer = self._has_ended = False
        self._following_row: asyncio.Task[None] | None = None
        self.is_serving = False
        """Whether the node has begun to serve clients. From then on it applies each commit of its own."""
        self._reported: tuple[bool, tuple[str, ...]] = True, ()
        """As metaservers were informed: whether sends are accepted, and which slaves can't be reached."""
        row_client = RowClient(self.options.broker_group, lambda: self.membership.in_order() if self.membership else ())
        self.request_row_change, self.request_resignation = row_client.change_in_sync, row_client.resign
        self.database_responds = lambda: self.membership is None or row_client.database_responds
        """Whether a metaserver can change the row now, as far as this node knows."""

    @property
    def sync_port(self) -> int:
        """The port for slaves."""
        return self._sync.port

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._is_starting = True
        budget = file_budget(self.options.connections_max)
        await asyncio.to_thread(self._open_folder)
        if self.replica.state.is_only_member:
            await self._start_alone(budget)
        else:
            await self._start_as_member(budget)
        self._following_row = self.supervisor.critical("member", self.member.run())

    def _open_folder(self) -> None:
        """Lock and read the data folder. If it is empty, store that before anything else is written; in a thread."""
        self.open_folder()
        if self.metaservers and not self.replica.is_stored and not self.disk.list_dir(self.log_folder):
            self.replica.save(ReplicaState(is_only_member=False, is_new=True))

    def identify_log(self) -> None:
        """Give the log an ID if it has none, durably, before this node writes to it; in a thread."""
        if not self.replica.state.log_id:
            self.replica.set_log_id(self.machine.rng.randbytes(8).hex())

    async def _start_alone(self, budget: FileBudget) -> None:
        """Serve as the only member."""
        await self.open_data(budget)
        await asyncio.to_thread(self.identify_log)
        self.make_committer()
        self.server = self.frame_server(budget)
        if self.metaservers:
            await self._open_sync_port()
        self.is_serving = True
        self.member.serves_alone()
        await self.begin_serving()

    async def _start_as_member(self, budget: FileBudget) -> None:
        """Open the log, and wait for the row of the group. Raises SettingError if the node can't be one of several members."""
        options = self.options
        if not self.replica.state.is_new and (problem := flush_problem(options.broker_group, options.flush)):
            raise SettingError(problem)
        copying = self.replica.state.copying
        if copying is not None and copying.phase is CopyPhase.CLEARING:
            await asyncio.to_thread(self._clear)
            copying = self.replica.state.copying
        if copying is None:
            self.opening = MemberOpening(0)
        else:
            self.opening = MemberOpening(0, copying.begin, is_log_only=not copying.is_usable)
        await self.open_data(budget)
        self.log_problem = str(self.log.failed or "")
        self.applying = Applying(self.log, self.replay)
        self.checkpoints = self.new_checkpoints(None)
        self.checkpoints.start()
        self.server = self.frame_server(budget)
        await self.server.bind()
        await self._open_sync_port()
        metrics = MemberMetrics(self, self.space, f"qmq_{self.kind}")
        self.admin = self.admin_server(AdminPages({"/stats": self._stats}, self.member_posts()), metrics.families)
        await self.admin.start()
        self.admin_address = self.admin.address
        self.started_at_ms, self._started_at = self.clock.wall_ms(), self.clock.monotonic()
        self._is_started = True
        super().join()
        self.supervisor.every(JOB_SECONDS, "slave_retention", self._slave_retention)
        self.logger.info("%s waits for the row of its group, admin on %s:%d", self.title, *self.admin.address)

    async def _open_sync_port(self) -> None:
        await self._sync.start()
        warn_if_open(self.logger, self.options.host, self.sync_secret)

    async def _slave_retention(self) -> None:
        follower = self.member.follower
        if follower is not None and not self.is_serving:
            await self.retain_as_slave(follower.master_begin)

    def _clear(self) -> None:
        """Remove the log that a copy replaces, and what was derived from it; a crash is completed by the next start."""
        self.clear_store()
        self.replica.set_copying(Copying(0, 0, CopyPhase.STATE))

    async def _stats(self, _: Any) -> dict[str, Any]:
        role = {"role": self.member.role.name.lower(), **state_reason(self.readiness())}
        return {**head(self), **role, "log": log_report(self.log), "replication": role_report(self)}

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "replication": role_report(self)}

    def retained_from(self) -> int:
        """Return the log offset from which on slaves need the log."""
        leading = self.member.leading
        return leading.retained_from if leading is not None else self.log.written_end

    def join(self) -> None:
        # A member has joined before it serves.
        if self.opening is None:
            super().join()

    def readiness(self) -> Reason:
        if not self.is_serving or self.member.role is ReplicaRole.STEPPING_DOWN:
            if self.member.row is None and self.membership is not None and (why := self.membership.unregistered()):
                return Reason.of(Code.NOT_REGISTERED, why=why)
            role = self.member.role
            name = role.name.lower().replace("_", " ")
            if self.member.reason:
                return Reason.of(Code.IN_ROLE, role=name, why=self.member.reason)
            return _WITHOUT_CLIENTS.get(role) or Reason.of(Code.NO_CLIENTS, role=name)
        return super().readiness()

    def health(self) -> str:
        return super().health() if self._has_committer else ""

    def restrictions(self) -> dict[str, str]:
        found = super().restrictions() if self.is_serving else {}
        return found if self.member.is_alone else {**found, "role": self.member.role.name.lower()}

    async def start_writing(self) -> None:
        await super().start_writing()
        if self.opening is None and self.replica.state.epoch > self.log.epoch:
            # It was given to this node while the group had no other member.
            await self.shell.begin_epoch_on_disk()
            self.shell.append_epoch()

    def make_committer(self) -> None:
        super().make_committer()
        self._has_committer = True

    def refuse_sends(self) -> Reason:
        member = self.member
        if member.refusal:
            return Reason.of(Code.REFUSES, why=member.refusal)
        return super().refuse_sends() or (member.leading.send_refusal if member.leading is not None else NO_REASON)

    def may_answer_sends(self) -> bool:
        leading = self.member.leading
        return leading is None or leading.accepts_sends

    def sends_checked(self) -> None:
        """Sends may be accepted again, or no longer: handle those that wait for slaves, and let metaservers know."""
        if not self.is_serving:
            return
        if self.committer.on_confirmed is not None:
            self.committer.on_confirmed()
        leading = self.member.leading
        reported = not self.refuse_sends(), leading.unreachable if leading is not None else ()
        if reported != self._reported:
            self.report_soon()
        self._reported = reported

    def write_under_way(self) -> Hashable | None:
        follower = self.member.follower
        if self._has_committer and (commit := self.committer.write_under_way) is not None:
            return "commit", commit
        if follower is not None and (copied := follower.write_under_way) is not None:
            return "copy", copied
        return self.shell.write_under_way

    def _synced(self, synced_end: int) -> None:
        # Before clients can connect, only the record of the epoch is written, and nothing is derived from it.
        if self.is_serving:
            super()._synced(synced_end)

    async def stopping(self) -> None:
        if not self._has_ended:
            await self.member.leave()
        if self._following_row is not None:
            # A promotion ends here, or is complete: nothing begins to write to the log from now on.
            await self.supervisor.cancel(self._following_row)
        await self.member.close()
        await self._sync.close()
        if self.is_serving:
            await super().stopping()
        elif self.membership is not None:
            await self.membership.close()
        if self._is_started and not self.is_serving:
            await self.segment_removal.close()

    @property
    def drain_seconds(self) -> float:
        # What waits for slaves is not answered any more once this node has stepped down.
        return super().drain_seconds if self._has_committer and not self._has_ended else 0.0

    async def finish(self) -> None:
        if self.shell.switch_overs is not None and self.shell.switch_overs.is_done:
            # There is a checkpoint of a moment ago, and the successor waits for this node to follow.
            await self.committer.stop()
        elif self._has_committer:
            await super().finish()
        elif self.log.failed is None:
            await self.checkpoints.finish()

    # --- roles -----------------------------------------------------------------------------------------------------

    async def serve_clients(self) -> None:
        await self.admin.close()
        # What it builds exists before any commit of a client is synced.
        self.is_serving = True
        await self.begin_serving()
        self._reported = not self.refuse_sends(), ()
        self.report_soon()

    def member_posts(self) -> dict[str, JsonPost]:
        """Return the admin pages that change the node's role in its group."""
        return switch_over_posts(self.switch_over)

    async def switch_over(self, to: str) -> dict[str, Any]:
        """Have a slave promoted, as `PlannedSwitchOvers.now`. Raises SwitchOverRejected, SwitchOverUnknown."""
        if self.shell.switch_overs is None or not self.is_serving:
            raise SwitchOverRejected(f"node {self.node_id} is not a master with slaves")
        return await self.shell.switch_overs.now(to)

    async def close(self) -> None:
        is_running = self._is_started and self.is_serving and not (self._is_closed or self.failure.is_set)
        if self.shell.switch_overs is not None and is_running:
            # The rest of the time is for requests in progress if no slave is promoted.
            await self.shell.switch_overs.before_stop(self.options.stop_seconds / 2)
        await super().close()

    def end(self, error: BaseException) -> None:
        self._has_ended = True
        self.failure.set(error)

    # --- metaservers -----------------------------------------------------------------------------------------------

    def registration(self, request_type: BrokerRequestType) -> NodeRegisterRequest:
        return registration_of(self, super().registration(request_type))

    def registered(self, answer: NodeRegisterResponse) -> None:
        super().registered(answer)
        if answer.row is not None:
            self.member.learned(answer.row)
        self.member.explained(answer.reason)

    def pushed(self, frame: Frame) -> None:
        self.member.rows.requested(frame)
