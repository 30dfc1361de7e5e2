"""class Registration: a node's registrations with metaservers, their policy, and whether it takes sends."""

import asyncio
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING

from qmq import __version__
from qmq.net.discovery import meta_urls
from qmq.net.open_files import FileBudget
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.frames import Frame
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq.protocol.scan import SENT_BACK_BYTES, EntryLimits
from qmq_node.daemon.part import Part
from qmq_node.log.commit import RECORD_HEAD_BYTES_MAX
from qmq_node.metaservers.metaservers import Metaservers
from qmq_node.metaservers.policy_in_force import PolicyInForce, policy_file
from qmq_node.node.older_folder import OlderFolder
from qmq_node.policy import NodePolicy
from qmq_node.requests.send_gate import SendGate
from qmq_node.requests.sends import Admission

if TYPE_CHECKING:
    from qmq_node.node.node import Node


class Registration(Part):
    """The node serves with or without metaservers, and by the newest policy that it has stored."""

    def __init__(self, node: "Node") -> None:
        self._node, self._storage = node, node.storage
        options = self._options = node.options
        self.urls = meta_urls(options.meta) if options.meta else ()
        """Address pages of metaservers."""
        self.operator_read_only = Reason.of(Code.STARTED_READ_ONLY, kind=node.kind) if options.read_only else NO_REASON
        self.metaserver_read_only = NO_REASON
        self.send_gate = SendGate(node.clock)
        self.policies = PolicyInForce(
            policy_file(node.disk, options.data_dir), self.send_gate, lambda: self.on_policy(), node.logger
        )  # fmt: skip
        self.on_policy: Callable[[], None] = lambda: None
        """Called when another policy is in force. Sends are judged by it already."""
        self.metaservers: Metaservers | None = None
        self.with_role: Callable[[NodeRegisterRequest], NodeRegisterRequest] = lambda request: request
        """Adds what a member of a broker group reports of its role."""
        self.on_answer: list[Callable[[NodeRegisterResponse], None]] = []
        """Called in this order with each answer of the metaserver that is followed, once it was applied."""
        self.pushed: Callable[[Frame], None] = lambda frame: None
        """Called with each request of a metaserver."""
        self.role_refuses: Callable[[], Reason] = lambda: NO_REASON
        """Why the role of the node in its group does not let it take sends; "" if it does."""
        self.slaves_refuse: Callable[[], Reason] = lambda: NO_REASON
        """Why too few slaves are in sync for sends; "" if there are enough."""
        self.groups_refuse: Callable[[], Reason] = lambda: NO_REASON
        """Why consumer groups may be missing, which would not get what is sent; "" if none is."""
        self.may_answer_sends: Callable[[], bool] = lambda: True
        """Whether enough members of the broker group are in sync for sends to be answered."""
        self.pending_messages: Callable[[], int] = lambda: -1
        """How many messages are not delivered, where the node knows it."""
        self.older_folder = OlderFolder(node.folder.replica, node.supervisor, node.logger)
        node.storage.report = self.report_soon

    async def open(self, budget: FileBudget) -> None:
        await asyncio.to_thread(self.policies.load)

    async def prepare(self) -> None:
        # What is stored from now on makes the log longer.
        await self.older_folder.store()

    def run(self) -> None:
        if not self.urls or self.metaservers is not None:
            # A member registers before it serves.
            return
        node = self._node
        self.metaservers = Metaservers(
            self.urls, self.request, self.registered, self.policies.replace, node.clock, node.supervisor,
            node.secret, lambda frame: self.pushed(frame),
        )  # fmt: skip
        self.metaservers.start()

    async def stop(self) -> None:
        if self.metaservers is not None:
            await self.metaservers.close()

    def not_ready(self) -> Reason:
        if self._node.is_ready and self.metaservers is not None and (why := self.metaservers.problem()):
            return Reason.of(Code.NOT_REGISTERED, why=why)
        return NO_REASON

    def restrictions(self) -> dict[str, str]:
        if not self._node.is_ready:
            return {}
        unregistered = self.metaservers.unregistered() if self.metaservers is not None else ""
        found = {"read_only": self.refuse_sends(), "not_registered": unregistered}
        return {name: why for name, why in found.items() if why}

    def report_soon(self) -> None:
        """Let metaservers know what has changed before the next heartbeat is due."""
        if self.metaservers is not None:
            self.metaservers.soon()

    # --- sends -------------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> NodePolicy:
        """The policy in force."""
        return self.policies.policy

    @property
    def admission(self) -> Admission:
        """What decides about messages. The largest is as the option says, or less where the log's segments are small."""
        option = self._options.message_bytes_max
        bytes_max = self._storage.log.gather.record_bytes_max - RECORD_HEAD_BYTES_MAX
        limits = EntryLimits(min(option, bytes_max), min(option + SENT_BACK_BYTES, bytes_max))
        return Admission(
            self._refuse_sends, self.send_gate, limits, lambda: self.may_answer_sends(), self._storage.awaits_segment
        )

    def refuse_sends(self) -> Reason:
        """Why sends are refused now; "" when they are accepted. Stored messages are processed in either case."""
        refused = self._refuse_sends()
        return NO_REASON if self._storage.awaits_segment(refused) else refused

    def _refuse_sends(self) -> Reason:
        """As `refuse_sends`, also while sends only wait."""
        storage = self._storage
        if refused := self.role_refuses():
            return _refused(refused)
        if self.operator_read_only or self.metaserver_read_only:
            return self.operator_read_only or self.metaserver_read_only
        if self.older_folder and self.urls:
            # What is accepted now would be lost when the newest folder is put back.
            return _refused(Reason.of(Code.LOSS_UNDECIDED))
        if self.policies.policy.read_only:
            return _refused(self.policies.policy.read_only)
        if refused := self.groups_refuse():
            return _refused(refused)
        if storage.log.stored.own_damage:
            return _refused(Reason.of(Code.LOG_CORRUPTED))
        if storage.write_watch.is_stuck:
            return _refused(Reason.of(Code.WRITE_WAITS, seconds=round(storage.write_watch.stuck_seconds, 1)))
        return storage.space.lacks_space() or self.slaves_refuse()

    # --- metaservers -------------------------------------------------------------------------------------------------

    @property
    def state(self) -> BrokerGroupState:
        return BrokerGroupState.READ_ONLY if self.refuse_sends() else BrokerGroupState.READ_WRITE

    def request(self, request_type: BrokerRequestType) -> NodeRegisterRequest:
        """Return what the node reports to metaservers."""
        options, node, log = self._options, self._node, self._storage.log
        host = options.advertise_host or options.host
        request = NodeRegisterRequest(
            request_type=request_type,
            broker_group=options.broker_group,
            node_id=node.node_id,
            kind=node.kind,
            role=node.role,
            address=f"{host}:{node.server.address[1]}",
            admin_address=self._admin_address(),
            state=BrokerGroupState.OFFLINE if request_type is BrokerRequestType.OFFLINE else self.state,
            epoch=node.folder.replica.state.epoch,
            log_end=self.older_folder.reported_end(log.synced_end),
            started_at_ms=node.started_at_ms,
            version=__version__,
            policy_version=self.policy.version,
            incarnation=node.folder.incarnation,
            pending_messages=self.pending_messages(),
        )
        return self.with_role(request)

    def _admin_address(self) -> str:
        """Host and port of the admin pages, as they are part of a URL. An address that stands for all of the machine's is no place
        to connect to: then it is the host that clients connect to."""
        options, port = self._options, self._node.admin_address[1]
        host = options.admin_host
        if _is_any(host):
            host = options.advertise_host or options.host
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def registered(self, answer: NodeRegisterResponse) -> None:
        """Apply the metaserver's decision. Read only lasts until another answer ends it."""
        if not answer.accepted:
            self.metaserver_read_only = _refused(Reason.of(Code.REJECTED, why=answer.reason))
        elif answer.state == BrokerGroupState.READ_ONLY and answer.reason:
            self.metaserver_read_only = _refused(answer.reason)
        else:
            self.metaserver_read_only = NO_REASON
        self.older_folder.answered(answer)
        for call in self.on_answer:
            call(answer)


def _is_any(host: str) -> bool:
    """Whether it means all addresses of the machine, as 0.0.0.0 and :: do."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def _refused(why: Reason) -> Reason:
    return Reason.of(Code.REFUSES, why=why)
