"""class Replication: the part of a node by which its broker group may have several members.

One daemon is one life. The only member of a group serves at once, as any node, and becomes the master of slaves without a pause.
Otherwise the node opens its log as a member: it applies nothing above its checkpoint, and clients can't connect. Then it follows
a master, or is promoted and serves. A master that steps down, and a slave whose log is truncated, end with `LifeEnded`: the
process makes a new daemon. So nothing that runs is taken apart, and what a master kept in memory above the high watermark is
dropped as after a crash.

A node whose data folder is empty serves only after a metaserver has said that it is the only member: the folder may be a new disk,
and clients may know the node from before. Without metaservers it is always the only member.
"""

import asyncio
from collections.abc import Hashable
from dataclasses import replace
from math import inf
from typing import Any

from aiohttp import web

from qmq.errors import SettingError
from qmq.net.node_secret import NodeSecret
from qmq.net.open_files import FileBudget
from qmq.protocol.codes import SLAVE_ROLES, BrokerGroupState, ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse, SlaveEnd
from qmq.protocol.frames import Frame
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq_node.admin.server import AdminPages, BadRequest, JsonPost, Params
from qmq_node.commits.applying import Applying
from qmq_node.daemon.part import Part
from qmq_node.log.log import SegmentedLog
from qmq_node.log.replay import MemberOpening
from qmq_node.member.hand_over import HAND_OVER_SECONDS, HandOver
from qmq_node.member.member_store import MemberStore
from qmq_node.member.membership_client import MembershipClient
from qmq_node.member.repairing import MemberRepairs
from qmq_node.member.role import Member
from qmq_node.member.role_metrics import MemberMetrics
from qmq_node.member.role_report import role_report
from qmq_node.member.role_shell import MemberShell
from qmq_node.member.scrubbing import Scrubbing
from qmq_node.node.node import Node
from qmq_node.node.reports import log_report, state_reason
from qmq_node.node.storage import JOB_SECONDS
from qmq_node.replication.flush_check import flush_problem
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.master.listener import SYNC_VARIABLE, SyncListener, warn_if_open
from qmq_node.replication.newest_membership import NewestMembership
from qmq_node.replication.rules.roles import Copying, CopyPhase, ReplicaState
from qmq_node.replication.switch_overs import SwitchOverRejected, SwitchOverUnknown

_WITHOUT_CLIENTS = {
    ReplicaRole.WAITING: Reason.of(Code.WAITS_FOR_MASTER),
    ReplicaRole.COPYING: Reason.of(Code.SLAVE_COPIES),
    ReplicaRole.FOLLOWING: Reason.of(Code.SLAVE_FOLLOWS),
    ReplicaRole.IN_SYNC: Reason.of(Code.SLAVE_IN_SYNC),
}
"""By role: why a node serves no clients, where it has no problem to report."""


class Replication(Part):
    """The role of a node in its broker group."""

    def __init__(self, node: Node, store: MemberStore) -> None:
        self._node = node
        self._options = node.options
        self._folder = node.folder
        self._storage = node.storage
        self._registration = node.registration
        self._store = store
        self.machine, self.replica = node.machine, node.folder.replica
        token = self._options.sync_token
        self.sync_secret = NodeSecret.parse(token, SYNC_VARIABLE) if token else node.secret
        """What slave and master prove to each other that they know; None: nothing."""
        self.shell = MemberShell(
            f"{node.machine.rng.getrandbits(64):016x}",
            node,
            store,
            self.sync_secret,
            MembershipClient(self._options.broker_group, lambda: self._registration.metaservers),
            serve_clients=self._serve_clients,
            sends_checked=self.sends_checked,
        )
        memberships = NewestMembership(self._options.broker_group, node.clock)
        self.member = Member(node.node_id, memberships, self.shell, node.supervisor, node.machine.role_changes)
        self.member.on_role = self._registration.report_soon
        self.shell.member = self.member
        self.repairs = MemberRepairs(node, store, self, self.sync_secret)
        self.shell.is_damaged = lambda: self.repairs.is_damaged
        self.shell.may_be_repaired = lambda: self.repairs.has_untried
        self.shell.read_elsewhere = self.repairs.read_elsewhere
        self._sync = SyncListener(
            self._options.host,
            self._options.sync_port,
            lambda: self.member.leading,
            self.repairs.serving,
            self.sync_secret,
            clock=node.clock,
            supervisor=node.supervisor,
            listen=node.machine.listen,
        )
        self.scrubbing = Scrubbing(node, store, self.repairs.found)
        self._following_membership: asyncio.Task[None] | None = None
        self._hand_over = HandOver(
            node.node_id, self._led_with_clients, lambda: self.switch_over(""), node.clock, node.logger
        )
        self.is_serving = False
        """Whether the node has begun to serve clients. From then on it applies each commit of its own."""
        self._reported: tuple[bool, tuple[str, ...]] = True, ()
        """As metaservers were informed: whether sends are accepted, and which slaves can't be reached."""
        node.enter = self._enter
        self._storage.other_write = self._write_under_way
        self._storage.is_handed_over = lambda: self.shell.switch_overs is not None and self.shell.switch_overs.is_done
        self._registration.with_role = self._with_role
        self._registration.on_answer.append(self._answered)
        self._registration.pushed = self._pushed
        self._registration.role_refuses = lambda: self.member.refusal
        self._registration.slaves_refuse = self._slaves_refuse
        self._registration.may_answer_sends = self._may_answer_sends

    @property
    def boot_id(self) -> str:
        """Identifies this life."""
        return self.shell.boot_id

    @property
    def is_no_master(self) -> bool:
        """Whether the node was the master, and another one leads or will lead: what it writes to its log from now on is lost."""
        return self.shell.has_ended or (self.shell.switch_overs is not None and self.shell.switch_overs.has_resigned)

    @property
    def log(self) -> SegmentedLog:
        """The log of the node."""
        return self._storage.log

    @property
    def sync_port(self) -> int:
        """The port for slaves."""
        return self._sync.port

    # --- life ------------------------------------------------------------------------------------------------------

    async def open(self, budget: FileBudget) -> None:
        """Decide how the log is opened. Raises SettingError if the node can't be one of several members."""
        await asyncio.to_thread(self._note_empty_folder)
        if self._folder.replica.state.is_only_member:
            return
        options, state = self._options, self._folder.replica.state
        if not state.is_new and (problem := flush_problem(options.broker_group, options.flush)):
            raise SettingError(problem)
        copying = state.copying
        if copying is not None and copying.phase is CopyPhase.CLEARING:
            await asyncio.to_thread(self._clear, copying.end)
            copying = self._folder.replica.state.copying
        if copying is None:
            self._storage.opening = MemberOpening(0)
        else:
            self._storage.opening = MemberOpening(0, copying.begin, is_log_only=not copying.is_usable)

    def _note_empty_folder(self) -> None:
        """If the data folder is empty, store that before anything else is written; in a thread."""
        replica = self._folder.replica
        is_first = bool(self._registration.urls) and not replica.is_stored
        if is_first and not self._node.disk.list_dir(self._store.log_folder):
            replica.save(ReplicaState(is_only_member=False, is_new=True))

    async def _enter(self) -> None:
        """The data is open: serve as the only member, or wait for the membership of the group."""
        if self._storage.opening is None:
            if self._registration.urls:
                await self._open_sync_port()
            self.is_serving = True
            self.member.serves_alone()
            await self._node.begin_serving()
        else:
            await self._wait()
        self.repairs.start(self._storage.log)
        self.scrubbing.begin()
        self._following_membership = self._node.supervisor.critical("member", self.member.run())
        self._node.supervisor.every(HAND_OVER_SECONDS, "hand_over", self._hand_over.check)

    async def _wait(self) -> None:
        node, storage = self._node, self._storage
        self.shell.log_problem = str(storage.log.failed or "")
        self.shell.applying = Applying(storage.log, self._store.replay)
        storage.make_checkpoints()
        storage.checkpoints.on_saved = self.shell.applying.continue_applying
        storage.checkpoints.start()
        await node.server.bind()
        await self._open_sync_port()
        metrics = MemberMetrics(node, self, storage, self._store, f"qmq_{node.kind}")
        node.admin = node.admin_server(AdminPages({"/stats": self._stats}, self.posts()), metrics.families)
        await node.start_admin()
        storage.run()
        self._registration.run()
        node.supervisor.every(JOB_SECONDS, "slave_retention", self._slave_retention)
        node.logger.info("%s waits for the membership of its group, admin on %s:%d", node.title, *node.admin.address)

    async def _open_sync_port(self) -> None:
        await self._sync.start()
        warn_if_open(self._node.logger, self._options.host, self.sync_secret)

    async def _slave_retention(self) -> None:
        follower = self.member.follower
        if follower is not None and not self.is_serving:
            await self._store.retain_as_slave(self._storage, follower.master_begin)

    def _clear(self, log_end: int) -> None:
        """Remove the log that a copy replaces, and what was derived from it; a crash is completed by the next start."""
        if (files := self._store.state_files) is not None:
            files.keep(log_end)
        self._store.clear()
        self._folder.replica.set_copying(Copying(0, 0, CopyPhase.STATE))

    async def prepare(self) -> None:
        if self._storage.opening is None and self._folder.replica.state.epoch > self._storage.log.epoch:
            # It was given to this node while the group had no other member.
            await self.shell.begin_epoch_on_disk()
            self.shell.append_epoch()

    async def before_stop(self) -> None:
        if self.shell.switch_overs is not None:
            # The rest of the time is for requests in progress if no slave is promoted.
            await self.shell.switch_overs.before_stop(self._options.stop_seconds / 2)

    async def stop(self) -> None:
        if not self.shell.has_ended:
            await self.member.leave()
        if self._following_membership is not None:
            # A promotion ends here, or is complete: nothing begins to write to the log from now on.
            await self._node.supervisor.cancel(self._following_membership)
        await self.member.close()
        await self._sync.close()

    @property
    def drain_seconds_max(self) -> float:
        # What waits for slaves is not answered any more once this node has stepped down.
        return 0.0 if self.shell.has_ended else inf

    def not_ready(self) -> Reason:
        if self.is_serving and self.member.role is not ReplicaRole.STEPPING_DOWN:
            return NO_REASON
        metaservers, role = self._registration.metaservers, self.member.role
        if self.member.membership is None and metaservers is not None and (why := metaservers.unregistered()):
            return Reason.of(Code.NOT_REGISTERED, why=why)
        name = role.name.lower().replace("_", " ")
        if self.member.reason:
            return Reason.of(Code.IN_ROLE, role=name, why=self.member.reason)
        return _WITHOUT_CLIENTS.get(role) or Reason.of(Code.NO_CLIENTS, role=name)

    def restrictions(self) -> dict[str, str]:
        return {} if self.member.is_alone else {"role": self.member.role.name.lower()}

    def retained_from(self) -> int:
        """Return the log offset from which on slaves need the log."""
        leading = self.member.leading
        return leading.retained_from if leading is not None else self._storage.log.written_end

    @property
    def holds_files(self) -> bool:
        """As `qmq_node.replication.master.state_reads.StateReads` has it; not of a node that has no slaves."""
        leading = self.member.leading
        return leading is not None and leading.holds_files

    def _write_under_way(self) -> Hashable | None:
        follower = self.member.follower
        if follower is not None and (copied := follower.write_under_way) is not None:
            return "copy", copied
        return self.shell.write_under_way

    @property
    def damaged_ranges(self) -> int:
        """Known ranges of the log, or of files of hours, that are damaged or can't be read."""
        stored, hours = self._storage.log.stored, self._store.hour_ranges
        of_hours = sum(1 for _ in hours.damaged()) if hours is not None else 0
        return len(stored.damaged) + len(stored.unreadable) + of_hours

    # --- roles -----------------------------------------------------------------------------------------------------

    async def _serve_clients(self) -> None:
        await self._node.admin.close()
        # What it builds exists before any commit of a client is synced.
        self.is_serving = True
        await self._node.begin_serving()
        self._reported = not self._registration.refuse_sends(), ()
        self._registration.report_soon()

    def _slaves_refuse(self) -> Reason:
        leading = self.member.leading
        return leading.master.send_refusal if leading is not None else NO_REASON

    def _may_answer_sends(self) -> bool:
        leading = self.member.leading
        return leading is None or leading.master.accepts_sends

    def sends_checked(self) -> None:
        """Sends may be accepted again, or no longer: handle those that wait for slaves, and let metaservers know."""
        if not self.is_serving:
            return
        self._storage.committer.resume_sends()
        leading = self.member.leading
        reported = not self._registration.refuse_sends(), leading.in_sync.unreachable if leading is not None else ()
        if reported != self._reported:
            self._registration.report_soon()
        self._reported = reported

    def posts(self) -> dict[str, JsonPost]:
        """Return the admin pages that change the node's role in its group."""
        return {"/switch-over": self._switch_over}

    async def _switch_over(self, _: web.Request, params: Params) -> dict[str, Any]:
        try:
            return await self.switch_over(params.text("to", ""))
        except SwitchOverRejected as rejected:
            raise BadRequest(409, rejected.code, str(rejected)) from rejected
        except SwitchOverUnknown as unknown:
            raise BadRequest(503, unknown.code, str(unknown)) from unknown

    async def switch_over(self, to: str) -> dict[str, Any]:
        """Have a slave promoted, as `SwitchOvers.now`. Raises SwitchOverRejected, SwitchOverUnknown."""
        if self.shell.switch_overs is None or not self.is_serving:
            raise SwitchOverRejected(f"node {self._node.node_id} is not a master with slaves")
        return await self.shell.switch_overs.now(to)

    def _led_with_clients(self) -> Leading | None:
        return self.member.leading if self.is_serving else None

    # --- reports and metaservers -----------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """Return the table `replication` of the page /stats."""
        return role_report(self)

    async def _stats(self, _: Any) -> dict[str, Any]:
        role = {"role": self.member.role.name.lower(), **state_reason(self._node.readiness())}
        log = log_report(self._storage.log)
        own = self._store.slave_stats()
        return {**self._node.stats_head(), **role, **own, "log": log, "replication": self.report()}

    def _with_role(self, request: NodeRegisterRequest) -> NodeRegisterRequest:
        options, log, state = self._options, self._storage.log, self._folder.replica.state
        leading, follower = self.member.leading, self.member.follower
        silent = follower.silent_seconds if follower is not None else None
        return replace(
            request,
            role=self._node.role if self.is_serving else SLAVE_ROLES[self._node.role],
            state=request.state if self.is_serving else BrokerGroupState.OFFLINE,
            boot_id=self.boot_id,
            sync_address=f"{options.advertise_host or options.host}:{self.sync_port}",
            rack=options.rack,
            replica_role=self.member.role,
            promotion_id=state.promotion_id,
            log_epoch=log.epochs.last_epoch,
            high_watermark=log.high_watermark,
            master_silent_ms=-1 if silent is None else round(silent * 1000),
            problems=self._problems(),
            slaves=tuple(SlaveEnd(one.node_id, one.confirmed_end) for one in leading.slaves()) if leading else (),
            led_membership=leading.current_membership.sent("") if leading else None,
            counted=leading.counted if leading else (),
            membership_version=state.version,
            membership_in_sync=state.in_sync,
            stuck_ms=round(self._storage.write_watch.stuck_seconds * 1000),
            limitations=self._limitations(),
            unreachable=leading.in_sync.unreachable if leading else (),
            damaged_bytes=log.stored.damaged_bytes,
            lacks_to=log.lacks_to,
        )

    def _limitations(self) -> tuple[Reason, ...]:
        disk_full = Reason.of(Code.DISK_FULL) if self._storage.space.is_disk_full else NO_REASON
        return tuple(filter(None, (disk_full, self._hand_over.problem)))

    def _problems(self) -> tuple[Reason, ...]:
        member, log = self.member, self._storage.log
        if self._folder.replica.state.is_new:
            # Also before the first membership: it may have been a member with data, which no metaserver knows if its log was short.
            return (Reason.of(Code.FOLDER_EMPTY),)
        if log.failed is not None and not self.is_serving and not log.is_refused_for_damage:
            return (Reason(str(log.failed)),)
        if self._storage.write_watch.is_stuck:
            return (Reason.of(Code.DISK_STUCK),)
        if damaged := log.stored.own_damage:
            # Other members may have what is damaged here.
            if log.lacks_to:
                return (Reason.of(Code.LOG_LACKS_END, begin=log.written_end, end=log.lacks_to),)
            return (Reason.of(Code.LOG_DAMAGED, begin=damaged[0].begin, end=damaged[-1].end),)
        is_reported = member.role is ReplicaRole.FAILED or (self.is_serving and member.reason)
        return (member.reason,) if is_reported else ()

    def _answered(self, answer: NodeRegisterResponse) -> None:
        if answer.membership is not None:
            self.member.learned(answer.membership)
        self.member.explained(answer.reason)

    def _pushed(self, frame: Frame) -> None:
        self.member.memberships.requested(frame)
