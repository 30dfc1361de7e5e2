"""class Node: a daemon with a message log: what broker and delay nodes own, and how they register and recover."""

import asyncio
from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar

from qmq.errors import CommitNotApplied, SettingError
from qmq.net.discovery import meta_urls
from qmq.net.open_files import FileBudget
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType, Role
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.frames import Frame
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq.protocol.scan import SENT_BACK_BYTES, EntryLimits
from qmq_node.commits.checkpointing import Checkpointing, CheckpointWriter
from qmq_node.commits.committer import Committer
from qmq_node.commits.log_space import LogSpace, SegmentRemoval
from qmq_node.commits.write_watch import CHECK_SECONDS, WriteWatch
from qmq_node.daemon.daemon import Daemon
from qmq_node.daemon.options import NodeOptions
from qmq_node.log.commit import RECORD_HEAD_BYTES_MAX, FlushPolicy
from qmq_node.log.log import SegmentedLog
from qmq_node.membership.membership import Membership
from qmq_node.membership.policy_in_force import PolicyFile, PolicyInForce
from qmq_node.node.data_dir import DataDir, DataDirOwner
from qmq_node.node.reports import log_recovery, registration, serving_report
from qmq_node.policy import NodePolicy
from qmq_node.process.machine import Machine
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.requests.send_gate import SendGate
from qmq_node.requests.sends import Admission
from qmq_node.server.server_limits import ServerLimits

JOB_SECONDS = 1.0
"""Period of a node's jobs: free space, retention, rates."""


class Node(Daemon):
    """One node. Its data folder is locked while it runs, and belongs to no other node."""

    role: ClassVar[Role]
    options: NodeOptions
    log: SegmentedLog
    checkpoints: Checkpointing[Any]

    def __init__(self, options: NodeOptions, machine: Machine | None = None) -> None:
        super().__init__(options, machine, bulk_bytes_per_second=options.read_bytes_per_second)
        self.node_id = options.node_id or f"{options.broker_group}-a"
        self.metaservers = meta_urls(options.meta) if options.meta else ()
        self.title = f"{self.kind} node {self.node_id} of group {options.broker_group}"
        self.port, self.admin_address = options.port, (options.admin_host, options.admin_port)
        self.operator_read_only = Reason.of(Code.STARTED_READ_ONLY, kind=self.kind) if options.read_only else NO_REASON
        self.metaserver_read_only = NO_REASON
        self.send_gate = SendGate(self.clock)
        self.policies = PolicyInForce(
            PolicyFile(self.disk, options.data_dir), self.send_gate, self.policy_changed, self.logger
        )  # fmt: skip
        self.incarnation = ""
        """Identifies the data folder (`DataDir.incarnation`); "" until it is open."""
        self.replica = ReplicaStateFile(self.disk, options.data_dir)
        self._data_dir: DataDir | None = None
        self.membership: Membership | None = None
        self.write_watch = WriteWatch(self.clock, self.write_under_way, self.report_soon)

    # --- what a kind of node adds ----------------------------------------------------------------------------------

    @abstractmethod
    def open_store(self, budget: FileBudget) -> SegmentedLog:
        """Recover the stored data in a thread; return the log that commits are written to."""

    @abstractmethod
    def synced(self, synced_end: int) -> None:
        """Apply that everything below this log offset is on disk."""

    def policy_changed(self) -> None:
        """Apply `policy`, which is in force from now on. Sends are judged by it already."""

    # --- life ------------------------------------------------------------------------------------------------------

    def limits(self, connections: int) -> ServerLimits:
        options = self.options
        return ServerLimits(
            connections_max=connections,
            frame_bytes_max=options.frame_bytes_max,
            large_frames_bytes_max=options.large_frames_bytes_max,
            in_flight_total_bytes_max=options.in_flight_total_bytes_max,
            in_flight_bytes_max=options.in_flight_bytes_max,
            answer_total_bytes_max=options.answer_total_bytes_max,
        )

    async def open(self, budget: FileBudget) -> None:
        await asyncio.to_thread(self.open_folder)
        if not self.replica.state.is_only_member:
            raise SettingError(
                f"--data-dir {self.options.data_dir} is of a group of several members; a {self.kind} group has one"
            )
        await self.open_data(budget)
        self.make_committer()

    async def open_data(self, budget: FileBudget) -> None:
        """Open the log and what is derived from it; the folder is open."""
        began = self.clock.monotonic()
        await asyncio.to_thread(self._open_log, budget)
        self.segment_removal = SegmentRemoval(self.log, self.clock, self.supervisor)
        log_recovery(self.log, self.clock.monotonic() - began, self.logger)

    def make_committer(self) -> None:
        """Make what writes to the log; it writes once it is started."""
        options = self.options
        self.committer = Committer(
            self.log,
            self.clock,
            self._synced,
            self._log_failed,
            self.supervisor,
            FlushPolicy(options.flush),
            options.flush_interval_seconds,
            self.machine.start_thread,
        )

    def open_folder(self) -> None:
        """Lock the data folder, and read what applies before the log is opened; in a thread that may wait for the disk."""
        options = self.options
        owner = DataDirOwner(self.kind, options.broker_group, self.node_id)
        self._data_dir = DataDir.open(options.data_dir, owner, self.disk, self.machine.rng)
        self.incarnation = self._data_dir.incarnation
        self.replica.on_first = self._data_dir.note_replica
        self.replica.load(is_expected=self._data_dir.has_replica)
        if self.replica.is_stored and not self._data_dir.has_replica:
            # The process ended between the two files.
            self._data_dir.note_replica()
        self.policies.load()

    def _open_log(self, budget: FileBudget) -> None:
        options = self.options
        self.log = self.open_store(budget)
        self.replica.check_log(self.log.epochs.last_epoch)
        self.space = LogSpace(self.log, self.disk, options.data_dir, options.disk_reserve_bytes)
        self.space.measure()

    def checkpointing(
        self, writer: CheckpointWriter[Any], loaded_offset: int, committer: Committer | None
    ) -> Checkpointing[Any]:
        """Checkpoints as often as the options say; the one that was loaded is at this log offset."""
        options = self.options
        return Checkpointing(
            writer, self.log, committer, self.clock, self.supervisor,
            options.checkpoint_bytes, options.checkpoint_seconds, loaded_offset,
        )  # fmt: skip

    async def start_writing(self) -> None:
        if not self.checkpoints.is_started:
            self.checkpoints.start()
        if not self.committer.is_started:
            self.committer.start()
        if self.space.lacks_space():
            await self.committer.segments.check_space()

    def start_jobs(self) -> None:
        self.join()

    def join(self) -> None:
        """Watch the disk's space, and register with the metaservers from now on."""
        self.supervisor.every(JOB_SECONDS, "disk_space", self.space.measure, is_vital=True)
        self.supervisor.every(CHECK_SECONDS, "write_watch", self.write_watch.check)
        if self.metaservers:
            self.membership = Membership(
                self.metaservers, self.registration, self.registered, self.policies.replace, self.clock, self.supervisor,
                self.secret, self.pushed,
            )  # fmt: skip
            self.membership.start()

    async def stopping(self) -> None:
        self.committer.hurry()
        if self.membership is not None:
            await self.membership.close()
        await self.segment_removal.close()

    @property
    def drain_seconds(self) -> float:
        return self.options.stop_seconds if self.committer.failed is None else 0.0

    async def finish(self) -> None:
        if self.committer.failed is None:
            await self.committer.drain()
            await self.checkpoints.finish()
        await self.committer.stop()

    async def release(self) -> None:
        if self._is_started:
            await asyncio.to_thread(self.log.close)
        if self._data_dir is not None:
            self._data_dir.close()

    def write_under_way(self) -> Hashable | None:
        """Identify the write to the disk that is under way, for `WriteWatch`; None: none is."""
        return self.committer.write_under_way

    def report_soon(self) -> None:
        """Let metaservers know what has changed before the next heartbeat is due."""
        if self.membership is not None:
            self.membership.soon()

    def pushed(self, frame: Frame) -> None:
        """A metaserver sent a request. Nodes without slaves know none."""

    def _synced(self, synced_end: int) -> None:
        self.synced(synced_end)
        self.checkpoints.maybe()

    def _log_failed(self, error: BaseException) -> None:
        """Stop answering and end, because memory and log may differ: a write, a sync or the application of a commit failed."""
        if isinstance(error, CommitNotApplied):
            self.logger.critical("this node stops: %s", error, exc_info=error.__cause__)
        else:
            self.logger.critical("the message log failed, this node stops: %s", error)
        self._is_ready = False
        self.server.stop_listening()
        for connection in list(self.server.connections):
            connection.abort()
        self.failure.set(error)

    @property
    def policy(self) -> NodePolicy:
        """The policy in force."""
        return self.policies.policy

    @property
    def admission(self) -> Admission:
        """What decides about messages. The largest is as the option says, or less where the log's segments are small."""
        option, bytes_max = self.options.message_bytes_max, self.log.gather.record_bytes_max - RECORD_HEAD_BYTES_MAX
        limits = EntryLimits(min(option, bytes_max), min(option + SENT_BACK_BYTES, bytes_max))
        return Admission(self.refuse_sends, self.send_gate, limits, self.may_answer_sends)

    def may_answer_sends(self) -> bool:
        """Whether enough members of the broker group are in sync for sends to be answered."""
        return True

    def refuse_sends(self) -> Reason:
        """Why sends are refused now; "" when they are accepted. Stored messages are processed in either case."""
        if self.operator_read_only or self.metaserver_read_only:
            return self.operator_read_only or self.metaserver_read_only
        if self.policies.policy.read_only:
            return _refused(self.policies.policy.read_only)
        if self.log.stored.damaged:
            return _refused(Reason.of(Code.LOG_CORRUPTED))
        if self.write_watch.is_stuck:
            return _refused(Reason.of(Code.WRITE_WAITS, seconds=round(self.write_watch.stuck_seconds, 1)))
        return self.space.lacks_space()

    def health(self) -> str:
        """Why the process can't continue; "" when it can. Damage is no reason: a restart would not repair it, see `describe`."""
        if self.committer.failed is not None:
            return f"the message log failed: {self.committer.failed}"
        return ""

    def readiness(self) -> Reason:
        problem = super().readiness()
        if not problem and self.membership is not None and (why := self.membership.problem()):
            return Reason.of(Code.NOT_REGISTERED, why=why)
        return problem

    def restrictions(self) -> dict[str, str]:
        refused = self.refuse_sends()
        unregistered = self.membership.unregistered() if self.membership is not None else ""
        found = {"read_only": refused, "not_registered": unregistered}
        return {name: why for name, why in found.items() if why}

    @property
    def state(self) -> BrokerGroupState:
        return BrokerGroupState.READ_ONLY if self.refuse_sends() else BrokerGroupState.READ_WRITE

    def describe(self) -> dict[str, Any]:
        """The head of `/stats`."""
        return serving_report(self)

    def registration(self, request_type: BrokerRequestType) -> NodeRegisterRequest:
        """Return what the node reports to metaservers."""
        return registration(self, request_type)

    def registered(self, answer: NodeRegisterResponse) -> None:
        """Apply the metaserver's decision. Read only lasts until another answer ends it."""
        if not answer.accepted:
            self.metaserver_read_only = _refused(Reason.of(Code.REJECTED, why=answer.reason))
        elif answer.state == BrokerGroupState.READ_ONLY and answer.reason:
            self.metaserver_read_only = _refused(answer.reason)
        else:
            self.metaserver_read_only = NO_REASON


def _refused(why: Reason) -> Reason:
    return Reason.of(Code.REFUSES, why=why)
