"""class Node: what every node with a log owns, in which order it starts and stops.

A broker node and a delay node differ in what they keep and hand out; the folder, the log, the commits, the checkpoints, the
servers, the registration and the end are the same.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from qmq import __version__
from qmq.clock import Clock
from qmq.daemon.admin_auth import AdminAccess
from qmq.daemon.admin_http import AdminHttp
from qmq.daemon.checkpointing import Checkpointing
from qmq.daemon.committer import Committer
from qmq.daemon.data_dir import DataDir, DataDirOwner
from qmq.daemon.file_budget import FileBudget, file_budget
from qmq.daemon.first_failure import FirstFailure
from qmq.daemon.host_check import names_of, warn_if_exposed
from qmq.daemon.machine import Machine
from qmq.daemon.membership import Membership
from qmq.daemon.node_metrics import NodeMetrics
from qmq.daemon.node_options import NodeOptions
from qmq.daemon.policy import NO_POLICY, NodePolicy, PolicyFile, decode_policy
from qmq.daemon.read_gate import ReadGate
from qmq.daemon.send_gate import SendGate
from qmq.errors import CommitNotApplied, ProtocolError
from qmq.log.commit import RECORD_HEAD_BYTES_MAX, FlushPolicy
from qmq.log.disk import Disk
from qmq.log.log import SegmentedLog, commit_bytes_of
from qmq.net.connection_auth import ConnectionAuth
from qmq.net.node_secret import NodeSecret
from qmq.net.server import Connection, FrameServer, ServerLimits
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType, Role
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor

EPOCH = 1
"""Commits carry it; promotions raise it once groups have slaves."""
JOB_SECONDS = 1.0
"""Period of a node's jobs: free space, retention, rates."""


class Node(ABC):
    """One node. `start` binds and recovers, `serve` raises when the node can't continue, `close` may be called twice."""

    kind: ClassVar[str]
    """As the metaserver and the data folder know it."""
    role: ClassVar[Role]

    log: SegmentedLog
    metrics: NodeMetrics
    checkpoints: Checkpointing[Any]

    def __init__(self, options: NodeOptions, machine: Machine | None = None) -> None:
        self.options = options
        self.machine = machine or Machine()
        self.clock: Clock = self.machine.clock
        self.disk: Disk = self.machine.disk
        self.logger = logging.getLogger(f"qmq.{self.kind}")
        self.node_id = options.node_id or f"{options.group}-a"
        self.disk_free_bytes = 0
        self.disk_total_bytes = 0
        self.operator_read_only = f"the {self.kind} was started read only" if options.read_only else ""
        self.metaserver_read_only = ""
        self.policy: NodePolicy = NO_POLICY
        """What is in force."""
        self.failure = FirstFailure()
        """What ended the node."""
        self.supervisor = Supervisor(
            self.clock, logger=self.logger, on_failure=lambda name, error: self.failure.set(error)
        )
        self.secret = NodeSecret.load(options.node_token, options.node_token_file)
        self.auth = ConnectionAuth(self.secret)
        self.admin_access = AdminAccess(
            self.clock, self.secret, options.metrics_token, names_of(options.admin_names) | {options.advertise_host}
        )
        self.send_gate = SendGate(self.clock)
        self.read_gate = ReadGate(
            self.clock,
            self.supervisor,
            token=options.read_token,
            bytes_per_second=options.read_bytes_per_second,
        )
        self.started_at_ms = 0
        self.membership: Membership | None = None
        self._started_at = 0.0
        self._is_starting = False
        self._is_started = False
        self._is_ready = False
        self._is_closed = False
        self.incarnation = ""
        """Identifies the data folder (`DataDir.incarnation`); "" until it is open."""
        self._data_dir: DataDir | None = None
        self._stop_membership = asyncio.Event()
        self._membership_task: asyncio.Task[None] | None = None

    # --- what a kind of node adds ----------------------------------------------------------------------------------

    @abstractmethod
    def open_store(self, budget: FileBudget) -> SegmentedLog:
        """Recover what is kept; the log that commits are written to."""

    @property
    def message_bytes_max(self) -> int:
        """Largest message taken: as the option says, or less where the log's segments are small."""
        return min(self.options.message_bytes_max, self.log.record_bytes_max - RECORD_HEAD_BYTES_MAX)

    @abstractmethod
    def build(self) -> AdminHttp:
        """Make handlers, checkpoints and metrics (the committer is there); the admin server, not started."""

    @abstractmethod
    def handle(self, connection: Connection, frame: Frame) -> None:
        """One request frame; the answer may come later."""

    @abstractmethod
    def synced(self, synced_end: int) -> None:
        """Everything below this log offset is on disk."""

    @abstractmethod
    def start_jobs(self) -> None:
        """Start the periodic jobs of this kind of node; clients can come from now on."""

    async def before_serving(self) -> None:  # noqa: B027 - nothing is a fine answer
        """Work to do once commits can be written and before clients come."""

    async def serving(self) -> None:  # noqa: B027 - nothing is a fine answer
        """Work to begin once clients can come."""

    async def stopping(self) -> None:  # noqa: B027 - nothing is a fine answer
        """Stop what goes on by itself: held requests, deliveries. Clients' connections are still open."""

    def policy_changed(self) -> None:  # noqa: B027 - nothing is a fine answer
        """`policy` is in force from now on; sends are judged by it already."""

    def refuse_kind(self) -> str:
        """A reason of this kind of node for refusing sends, or ""."""
        return ""

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover and serve.

        Raises:
            SettingError: the data folder is another's or in use.
            LogError: the log can't be read.
            OSError: an address or the disk refused.
        """
        options = self.options
        self._is_starting = True
        budget = file_budget(options.connections_max)
        owner = DataDirOwner(self.kind, options.group, self.node_id)
        self._data_dir = DataDir.open(options.data_dir, owner, self.disk, self.machine.rng)
        self.incarnation = self._data_dir.incarnation
        began = self.clock.monotonic()
        self._load_policy()
        self.log = self.open_store(budget)
        self._say_log_state(self.clock.monotonic() - began)
        self.committer = Committer(
            self.log,
            clock=self.clock,
            on_synced=self._synced,
            on_failed=self._log_failed,
            supervisor=self.supervisor,
            policy=FlushPolicy(options.flush),
            interval_seconds=options.flush_interval_seconds,
            start_thread=self.machine.start_thread,
        )
        self.committer.observe_commit = self._observe_commit
        self.admin = self.build()
        self.server = FrameServer(
            options.host,
            options.port,
            self.handle,
            clock=self.clock,
            limits=ServerLimits(
                connections_max=budget.connections,
                frame_bytes_max=options.frame_bytes_max,
                large_frames_bytes_max=options.large_frames_bytes_max,
                in_flight_total_bytes_max=options.in_flight_total_bytes_max,
                in_flight_bytes_max=options.in_flight_bytes_max,
                answer_total_bytes_max=options.answer_total_bytes_max,
            ),
            logger=logging.getLogger(f"qmq.{self.kind}.net"),
            supervisor=self.supervisor,
            listen=self.machine.listen,
        )
        self._measure_disk()
        self.checkpoints.start()
        self.committer.start()
        if self.lacks_space():
            await self.committer.check_space()
        await self.before_serving()
        await self.server.start()
        await self.admin.start()
        self.started_at_ms, self._started_at = self.clock.wall_ms(), self.clock.monotonic()
        self._is_ready = self._is_started = True
        await self.serving()
        self.supervisor.every(JOB_SECONDS, "disk_space", self._measure_disk, is_vital=True)
        self.start_jobs()
        if options.meta:
            self.membership = Membership(
                options.meta, self._registration, self._registered, self.take_policy, self.clock, self.supervisor,
                self.secret,
            )  # fmt: skip
            self._membership_task = self.supervisor.critical("membership", self.membership.run(self._stop_membership))
        warn_if_exposed(self.logger, self.secret, options.host, options.admin_host)
        self.logger.info(
            "%s node %s of group %s serves on %s:%d, admin on %s:%d",
            self.kind, self.node_id, options.group, *self.server.address, *self.admin.address,
        )  # fmt: skip

    def _say_log_state(self, seconds: float) -> None:
        log = self.log
        self.logger.info(
            "recovered in %.2f s: the log begins at %d and ends at %d", seconds, log.begin, log.written_end
        )
        if log.torn_bytes:
            self.logger.warning("%d bytes of an unanswered commit at the log's end were cleared", log.torn_bytes)
        for damage in log.damaged:
            self.logger.error(
                "the log is damaged between offsets %d and %d (%s): messages there are withheld, sends are refused",
                damage.begin, damage.end, damage.why,
            )  # fmt: skip

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises the first failure that ends the node."""
        await self.failure.wait(stop)

    async def close(self) -> None:
        """Stop gracefully: say goodbye, answer what is under way, write everything, make a checkpoint."""
        if self._is_closed or not self._is_starting:
            return
        self._is_closed = True
        if not self._is_started:
            # A start that failed: whatever it had bound or locked goes with the process; the folder is let go at once.
            await self.supervisor.close()
            if self._data_dir is not None:
                self._data_dir.close()
            return
        self._is_ready = False
        await self.supervisor.stop()
        self._stop_membership.set()
        if self._membership_task is not None:
            await asyncio.wait([self._membership_task])
        await self.read_gate.close()
        await self.stopping()
        cut = await self.server.close(self.options.stop_seconds if self.committer.failed is None else 0)
        if cut:
            self.logger.warning("%d connections had requests unanswered at the end", cut)
        if self.committer.failed is None:
            await self.committer.drain()
            await self.checkpoints.finish()
        await self.committer.stop()
        await self.admin.close()
        await self.supervisor.close()
        self.log.close()
        if self._data_dir is not None:
            self._data_dir.close()
        self.logger.info("%s node %s stopped", self.kind, self.node_id)

    # --- policy ----------------------------------------------------------------------------------------------------

    def _load_policy(self) -> None:
        """What was in force when the node stopped; without it the node serves unrestricted and fetches it."""
        self._policy_file = PolicyFile(self.disk, self.options.data_dir)
        try:
            found = self._policy_file.load()
        except (ProtocolError, OSError) as error:
            self.logger.error("the policy kept in %s can't be read, none is in force: %s", self.options.data_dir, error)
            return
        if found is not None:
            self.policy = found
            self.send_gate.apply(found)
            self.logger.info("policy %s is in force, as it was kept", found.version)

    async def take_policy(self, document: bytes) -> None:
        """Keep a policy, then apply it. Raises ProtocolError or OSError; the one before stays."""

        def keep() -> NodePolicy:
            policy = decode_policy(document)
            self._policy_file.save(document)
            return policy

        policy = await asyncio.to_thread(keep)
        self.policy = policy
        self.send_gate.apply(policy)
        self.policy_changed()
        self.logger.info(
            "policy %s is in force: rules for %d subjects, %d pauses, %s",
            policy.version, len(policy.subjects), len(policy.paused), policy.read_only or "writable",
        )  # fmt: skip

    # --- what happens ----------------------------------------------------------------------------------------------

    def _synced(self, synced_end: int) -> None:
        self.synced(synced_end)
        self.checkpoints.maybe()

    def _observe_commit(self, seconds: float, size: int) -> None:
        self.metrics.commit_seconds.observe(seconds)
        self.metrics.commit_bytes.observe(size)

    def _log_failed(self, error: BaseException) -> None:
        """Memory and log may differ: a write or sync failed, or a commit could not be applied. Stop answering and end."""
        if isinstance(error, CommitNotApplied):
            self.logger.critical("this node stops: %s", error, exc_info=error.__cause__)
        else:
            self.logger.critical("the message log failed, this node stops: %s", error)
        self._is_ready = False
        self.server.stop_listening()
        for connection in list(self.server.connections):
            connection.abort()
        self.failure.set(error)

    def _measure_disk(self) -> None:
        self.disk_free_bytes = self.disk.free_bytes(self.options.data_dir)
        self.disk_total_bytes = self.disk.total_bytes(self.options.data_dir)

    # --- state -----------------------------------------------------------------------------------------------------

    def refuse_sends(self) -> str:
        """Why sends are refused now; "" when they are taken. What is stored is worked off in any case."""
        if self.operator_read_only:
            return self.operator_read_only
        if self.metaserver_read_only:
            return self.metaserver_read_only
        if self.policy.read_only:
            return f"read only: {self.policy.read_only}"
        log = self.log
        if log.damaged:
            return "read only: the message log is corrupted; see the node's log"
        return self.lacks_space() or self.refuse_kind()

    def lacks_space(self) -> str:
        """Why sends are refused for lack of space; "" when there is space."""
        reserve, room = self.options.disk_reserve_bytes, self.log.room_bytes
        if room >= 2 * reserve:
            return ""
        log_reserve = self._log_reserve_bytes
        if self.disk_free_bytes < reserve and room < 2 * log_reserve:
            return f"no space: {self.disk_free_bytes} bytes free on disk, the reserve is {reserve}"
        return self._lacks_room(room, log_reserve)

    def lacks_space_for_copy(self, record_bytes: int) -> str:
        """Why a record of stored messages, written again, would use the space reserved for acks and pulls; "" if it does not."""
        log = self.log
        # A record larger than half a segment must fit when the next segment exists: otherwise it could never be written.
        beside = max(0, log.current_segment_bytes - commit_bytes_of(record_bytes))
        log_reserve = min(self._log_reserve_bytes, beside)
        return self._lacks_room(log.room_after(record_bytes), log_reserve)

    @property
    def _log_reserve_bytes(self) -> int:
        """Bytes of the log that are reserved for acks and pulls."""
        # Small segments hold a smaller reserve: otherwise no send would ever fit beside it.
        return min(self.options.disk_reserve_bytes, self.log.current_segment_bytes // 2)

    def _lacks_room(self, room: int, log_reserve: int) -> str:
        if room >= log_reserve:
            return ""
        # Until the next segment exists, it is not known whether there is space for it: what is left is for acks.
        why = "no space" if self.log.is_out_of_space else "the next segment is not created yet"
        return f"{why}: {room} bytes left in the log, the reserve is {log_reserve}"

    def health(self) -> str:
        """Why the process can't continue; "" when it can. Damage is none: a restart would not repair it, see `describe`."""
        if self.committer.failed is not None:
            return f"the message log failed: {self.committer.failed}"
        return ""

    def readiness(self) -> str:
        """Why the node does not serve yet, or any more."""
        if not self._is_ready:
            return "not serving"
        if self.membership is not None and self.membership.last is None:
            return f"not registered: {self.membership.last_error}"
        return ""

    def restrictions(self) -> dict[str, str]:
        """Returns what the node does not do although it serves, with the reasons; `/readyz` includes them."""
        refused = self.refuse_sends()
        return {"read_only": refused} if refused else {}

    @property
    def state(self) -> BrokerGroupState:
        return BrokerGroupState.READ_ONLY if self.refuse_sends() else BrokerGroupState.READ_WRITE

    def describe(self) -> dict[str, Any]:
        """The head of `/stats`."""
        log = self.log
        refused = self.refuse_sends()
        return {
            "broker_group": self.options.group,
            "node_id": self.node_id,
            "role": "master",
            "state": "read_only" if refused else "read_write",
            "state_reason": refused,
            "epoch": EPOCH,
            "version": __version__,
            "policy": {
                "version": self.policy.version,
                "subjects": len(self.policy.subjects),
                "paused": len(self.policy.paused),
                "read_only": self.policy.read_only,
                "problem": self.membership.policy_error if self.membership is not None else "",
            },
            "uptime_seconds": round(self.clock.monotonic() - self._started_at, 3),
            "log": {
                "begin": log.begin,
                "end": log.written_end,
                "synced_end": log.synced_end,
                "damaged": [{"begin": d.begin, "end": d.end, "why": d.why} for d in log.damaged],
            },
            "disk_free_bytes": self.disk_free_bytes,
            "disk_total_bytes": self.disk_total_bytes,
            "connections": len(self.server.connections),
        }

    def _registration(self, request_type: BrokerRequestType) -> NodeRegisterRequest:
        host = self.options.advertise_host or self.options.host
        state = BrokerGroupState.OFFLINE if request_type is BrokerRequestType.OFFLINE else self.state
        return NodeRegisterRequest(
            request_type=request_type,
            broker_group=self.options.group,
            node_id=self.node_id,
            kind=self.kind,
            role=self.role,
            address=f"{host}:{self.server.address[1]}",
            admin_address=f"{self.options.admin_host}:{self.admin.address[1]}",
            state=state,
            epoch=EPOCH,
            log_end=self.log.synced_end,
            started_at_ms=self.started_at_ms,
            version=__version__,
            policy_version=self.policy.version,
        )

    def _registered(self, answer: NodeRegisterResponse) -> None:
        """What the metaserver decided. Read only is sticky until it says otherwise."""
        if not answer.accepted:
            self.metaserver_read_only = f"read only: the metaserver rejected this node: {answer.reason}"
        elif answer.state == BrokerGroupState.READ_ONLY and answer.reason:
            self.metaserver_read_only = f"read only: {answer.reason}"
        else:
            self.metaserver_read_only = ""
