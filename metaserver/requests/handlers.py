"""The metaserver's TCP side: registrations of clients and nodes, answered from memory; changed routes are pushed.

Code 52 is never used: it is a trap of the official client (docs/reference/wire.md, 12, T2).
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from metaserver.choices import GroupKind, OperatorState
from metaserver.memory.directory import Directory
from metaserver.memory.live_groups import Observed, Registered, Reloaded
from metaserver.memory.membership_wishes import is_replicating
from metaserver.memory.registration_rules import check_values
from metaserver.memory.route_table import OFFICIAL_VERSION
from metaserver.replication.membership_changes import MembershipAnswer, MembershipChanges
from metaserver.replication.membership_requests import MembershipRequests
from metaserver.replication.promotions import Promotions
from metaserver.replication.replacements import Replacements
from metaserver.replication.restored_memberships import RestoredMemberships
from metaserver.requests.client_handlers import ClientHandlers
from metaserver.requests.known_groups import KnownGroupsPages
from metaserver.requests.official_nodes import OfficialNodes
from metaserver.requests.registrations import RegistrationLimits
from metaserver.requests.sliced_queue import CallSoon
from metaserver.stored.write_behind import WriteBehind
from qmq.clock import Clock
from qmq.conversion import convert
from qmq.errors import ProtocolError
from qmq.protocol.bulk_read import NODES_MAX, ListNodesRequest, NodeLine, NodesPage
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType, Command, ResponseCode, Role
from qmq.protocol.commands import BrokerAcquireMetaRequest, BrokerAcquireMetaResponse, BrokerRegisterRequest
from qmq.protocol.extensions import KnownGroupsRequest, NodePolicyRequest, NodePolicyResponse, NodeRegisterRequest
from qmq.protocol.frames import Frame
from qmq.protocol.kinds import Part
from qmq.protocol.names import hidden_text_problem
from qmq.supervisor import Supervisor
from qmq_node.replication.rules.membership import Membership
from qmq_node.requests.bulk_read_limiter import BulkReadLimiter
from qmq_node.server.connection import Connection
from qmq_node.server.connection_auth import ConnectionAuth

logger = logging.getLogger("qmq.meta")

NODE_STORE_SECONDS = 2.0
"""A node's heartbeats are stored this often at most, unless something changed."""


class MetaHandlers(ClientHandlers):
    """Answers the frames of clients and nodes.

    Args:
        save_memberships: writes the route file, which has all memberships.
        auth: which connections may send commands of nodes. None: all.
        official_nodes: which nodes of the official server may register. None: none may.
    """

    def __init__(
        self,
        directory: Directory,
        write_behind: WriteBehind,
        clock: Clock,
        bulk_reads: BulkReadLimiter,
        membership_changes: MembershipChanges,
        supervisor: Supervisor,
        save_memberships: Callable[[], Coroutine[Any, Any, None]],
        *,
        limits: RegistrationLimits | None = None,
        auth: ConnectionAuth | None = None,
        official_nodes: OfficialNodes | None = None,
        call_soon: CallSoon | None = None,
    ) -> None:
        super().__init__(directory, write_behind, clock, limits=limits, auth=auth, call_soon=call_soon)
        self._official_nodes = official_nodes or OfficialNodes()
        self._store_node_at: dict[str, float] = {}
        self._node_connections: dict[str, Connection] = {}
        """By node id: the connection of its newest accepted registration."""
        self._membership_requests = MembershipRequests(
            directory, membership_changes, supervisor, self._node_connections, save_memberships
        )
        self._known_group_pages = KnownGroupsPages(directory, write_behind, supervisor)
        write_behind.on_group = self._membership_requests.stored
        self.promotions = Promotions(directory, self._membership_requests.start)
        self._replacements = Replacements(directory, self._membership_requests.start)
        self.restored_memberships = RestoredMemberships(
            directory, self._membership_requests.start, self._membership_requests.record_known
        )
        self.table |= {
            Command.CLIENT_REGISTER: lambda connection, frame: self._requests.add(((connection, frame),)),
            Command.AUTHENTICATE: self.authenticate,
            Command.NODE_REGISTER: self._trusted(self._node_register),
            Command.NODE_POLICY: self._trusted(self._node_policy),
            Command.CHANGE_IN_SYNC: self._trusted(self._membership_requests.change_in_sync),
            Command.RESIGN: self._trusted(self._membership_requests.resign),
            Command.KNOWN_GROUPS: self._trusted(self._known_groups),
            Command.BROKER_REGISTER: self._broker_register,
            Command.BROKER_ACQUIRE_META: self._acquire_meta,
            Command.LIST_NODES: bulk_reads.handler(ListNodesRequest, self._list_nodes),
        }

    def _node_register(self, connection: Connection, frame: Frame) -> None:
        request = NodeRegisterRequest.decode(frame.body)
        self.counters.node_registers += 1
        check_values(request)
        self._check_new_node(request.broker_group, request.node_id, request.address)

        def answer(registered: Registered) -> None:
            response = registered.answer
            if is_replicating(request):
                response = self._membership_requests.for_node(request.broker_group, response)
            connection.reply(frame, ResponseCode.SUCCESS, response.encode())
            if response.accepted:
                self._replace_connection(request.node_id, connection)
            self._membership_requests.push_changed()

        self._register(connection, frame, request, answer)

    def _replace_connection(self, node_id: str, connection: Connection) -> None:
        """Close a node's previous connection: a late heartbeat of it would restore an old state and an old log end."""
        previous = self._node_connections.get(node_id)
        if previous is connection:
            return
        self._node_connections[node_id] = connection

        def closed() -> None:
            if self._node_connections.get(node_id) is connection:
                del self._node_connections[node_id]
                self._directory.disconnected(node_id)

        connection.on_close(closed)
        if previous is not None:
            previous.abort()

    def _check_new_node(self, broker_group: str, node_id: str, address: str) -> None:
        """Raises ProtocolError for a new broker group or node whose name or address holds a hidden character."""
        known = ((broker_group, self._directory.groups), (node_id, self._directory.nodes))
        for name in (address, *(name for name, names in known if name not in names)):
            if problem := hidden_text_problem(name):
                raise ProtocolError(f"{name[:40]!a} {problem}")

    def _register(
        self, connection: Connection, frame: Frame, request: NodeRegisterRequest, answer: Callable[[Registered], None]
    ) -> None:
        """Register a node, and call `answer`: after the membership was changed, or could not be, if the node calls for
        a change of it."""
        registered = self._directory.register(request)

        def made(_: MembershipAnswer) -> None:
            answer(self._registered(connection, request, self._directory.register(request)))

        if registered.wish is None:
            answer(self._registered(connection, request, registered))
        else:
            self._membership_requests.make(request.broker_group, registered.wish, connection, frame, made)

    def membership_learned(self, membership: Membership) -> None:
        """Take over a membership that was read from the database or changed there."""
        self._directory.learn_membership(membership)
        self._membership_requests.push_changed()

    def expire(self) -> None:
        """Take silent groups offline, and promote slaves of groups whose master is gone."""
        super().expire()
        now = self._clock.monotonic()
        self.restored_memberships.check(now)
        self.promotions.check(now)
        self._replacements.check(now)

    def reloaded(self, reloaded: Reloaded) -> None:
        super().reloaded(reloaded)
        self._membership_requests.push_changed()

    def peers_observed(self, observed: Observed) -> None:
        super().peers_observed(observed)
        self._membership_requests.push_changed()

    def _trusted(self, handle: Callable[[Connection, Frame], None]) -> Callable[[Connection, Frame], None]:
        """Return the handler of a command that requires the node secret."""

        def handle_trusted(connection: Connection, frame: Frame) -> None:
            if self.is_trusted(connection, frame, f"command {frame.code}"):
                handle(connection, frame)

        return handle_trusted

    def _registered(self, connection: Connection, request: NodeRegisterRequest, registered: Registered) -> Registered:
        """Store the effects of a registration and push them; log a refusal."""
        code = registered.answer.code
        if code:
            self.counters.refused_nodes[code] += 1
            self.rejections.log(
                code, connection, f"registration of node {request.node_id} refused: {registered.answer.reason}"
            )
        node, group, now = registered.node, registered.group, self._clock.monotonic()
        if node is not None and (
            group is not None
            or now >= self._store_node_at.get(node.node_id, 0.0)
            # Other metaservers, which may not have received how far its log had reached, are not to promote it.
            or self._directory.has_lost_data(node)
        ):
            self._store_node_at[node.node_id] = now + NODE_STORE_SECONDS
            self._write_behind.node(node)
        if group is not None:
            self._write_behind.group(group, registered.reason)
            logger.info("broker group %s is %s, master %s", group.name, group.state, group.membership.master)
            self._group_changed(group.name)
        return registered

    def _node_policy(self, connection: Connection, frame: Frame) -> None:
        request = NodePolicyRequest.decode(frame.body)
        node, live = self._directory.nodes.get(request.node_id), self._directory.groups.get(request.broker_group)
        is_approved = live is not None and live.group.operator_state is not OperatorState.UNAPPROVED
        if node is None or node.broker_group != request.broker_group or not is_approved:
            raise ProtocolError(f"node {request.node_id[:40]!r} of {request.broker_group[:40]!r} is not registered")
        version, document = self._directory.policies.document(node.broker_group, request.policy_version)
        self.counters.policies_sent += 1 if document else 0
        connection.reply(frame, ResponseCode.SUCCESS, NodePolicyResponse(version, document).encode())

    def _known_groups(self, connection: Connection, frame: Frame) -> None:
        request = KnownGroupsRequest.decode(frame.body)
        self._membership_requests.check_sender(connection, request.broker_group, request.node_id)
        self._known_group_pages.answer(connection, frame, request)

    async def _list_nodes(self, _: ListNodesRequest) -> list[Part]:
        now_ms = self._clock.wall_ms()
        return [NodesPage(now_ms, node_lines(self._directory, now_ms)).encode()]

    def _broker_register(self, connection: Connection, frame: Frame) -> None:
        """Register a node of the official server that the settings allow; its address is its node id. Raises ProtocolError."""
        request = BrokerRegisterRequest.decode(frame.body)
        problem = self._official_nodes.problem(request.broker_group, request.address, connection.peer)
        if problem:
            self.rejections.count("node_not_allowed", connection, problem)
            self.rejections.refuse(connection, frame)
            return
        self._check_new_node(request.broker_group, request.address, request.address)
        masters = {Role.MASTER: GroupKind.BROKER, Role.DELAY_MASTER: GroupKind.DELAY, Role.DELAY: GroupKind.DELAY}
        kind = masters.get(Role(request.role))
        if kind is None:
            connection.reply(frame, ResponseCode.SUCCESS)
            return
        state = request.state
        if request.request_type == BrokerRequestType.OFFLINE:
            state = BrokerGroupState.OFFLINE
        elif request.request_type == BrokerRequestType.ONLINE and state == BrokerGroupState.OFFLINE:
            state = BrokerGroupState.READ_WRITE
        node = NodeRegisterRequest(
            request_type=request.request_type,
            broker_group=request.broker_group,
            node_id=request.address,
            kind=kind,
            role=request.role,
            address=request.address,
            admin_address="",
            state=state,
            epoch=0,
            log_end=0,
            started_at_ms=0,
            version=OFFICIAL_VERSION,
        )
        check_values(node)

        def answer(registered: Registered) -> None:
            code = ResponseCode.BROKER_ERROR if registered.answer.code else ResponseCode.SUCCESS
            connection.reply(frame, code)

        self._register(connection, frame, node, answer)

    def _acquire_meta(self, connection: Connection, frame: Frame) -> None:
        request = BrokerAcquireMetaRequest.decode(frame.body)
        address = f"{request.hostname}:{request.port}"
        node = next((node for node in self._directory.nodes.values() if node.address == address), None)
        if node is None:
            raise ProtocolError(f"no node {address} is known")
        answer = BrokerAcquireMetaResponse(node.broker_group, "", node.role)
        connection.reply(frame, ResponseCode.SUCCESS, answer.encode())


def node_lines(directory: Directory, now_ms: int) -> tuple[NodeLine, ...]:
    """Every node of the approved broker groups. The state of a node that is not its group's master is the one that it reports."""
    lines: list[NodeLine] = []
    for node in sorted(directory.nodes.values(), key=lambda n: (n.broker_group, n.node_id)):
        live = directory.groups.get(node.broker_group)
        if live is not None and live.group.operator_state is OperatorState.UNAPPROVED:
            continue
        if len(lines) == NODES_MAX:
            break
        state, seconds = directory.node_state(node)
        seen_at_ms = -1 if seconds is None else now_ms - round(seconds * 1000)
        lines.append(
            convert(
                NodeLine,
                node,
                kind=str(live.group.kind) if live is not None else "",
                role=_role_word(node.role),
                state=str(state),
                epoch=live.membership.epoch if live is not None else 0,
                seen_at_ms=seen_at_ms,
            )
        )
    return tuple(lines)


def _role_word(role: int) -> str:
    """A role as a word, the same for broker and delay nodes; "" for a number that is none."""
    return Role(role).name.lower().removeprefix("delay_") if role in set(Role) else ""
