"""The metaserver's TCP side: registrations of clients and nodes, answered from memory; changed routes are pushed.

Traps of the official client that decide what is answered (docs/reference/wire.md, 12): an answer without a usable group
blocks producers indefinitely and a lost first answer blocks consumers (T1, T3), so a registration without a usable group is
held and answered when one appears. Timestamps never fall (T7). Subject and group are echoed (T19). 52 is never used (T2).
"""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from metaserver.choices import STATE_FROM_WIRE, GroupKind, GroupState, OperatorState
from metaserver.directory import OFFICIAL_VERSION, Directory
from metaserver.keeper import Keeper
from metaserver.live_groups import Observed, Registered, Reloaded
from metaserver.node_lines import node_lines
from metaserver.official_nodes import OfficialNodes
from metaserver.registration_rules import NAME_CHARS_MAX, check_values
from metaserver.registrations import Registration, RegistrationLimits, Registrations, SentRoute, is_pushed
from metaserver.snapshot import ClientSeen, Route
from qmq.clock import Clock
from qmq.daemon.read_gate import ReadGate
from qmq.errors import IllegalName, ProtocolError
from qmq.net.connection_auth import ConnectionAuth
from qmq.net.log_limiter import LogLimiter
from qmq.net.server import Connection
from qmq.protocol.codes import VERSIONS_SERVED, BrokerRequestType, ClientType, Command, ResponseCode, Role
from qmq.protocol.commands import (
    BrokerAcquireMetaRequest,
    BrokerAcquireMetaResponse,
    BrokerGroupRoute,
    BrokerRegisterRequest,
    ClientRegisterRequest,
    ClientRegisterResponse,
)
from qmq.protocol.extensions import NodePolicyRequest, NodePolicyResponse, NodeRegisterRequest
from qmq.protocol.frames import FLAG_RESPONSE, Frame, encode_request
from qmq.protocol.names import check_new_subject, check_subject, hidden_text_problem, split_subject
from qmq.protocol.reading import ListNodesRequest, NodesPage

logger = logging.getLogger("qmq.meta")

CHECKS_PER_BATCH = 500
"""Registrations compared with their route in one turn of the event loop; heartbeats are answered in between."""
UNROUTED_SUBJECTS_MAX = 1_000
"""Subjects that wait for a broker group; a further one replaces the oldest."""
NODE_STORE_SECONDS = 2.0
"""A node's heartbeats are stored this often at most, unless something changed."""


@dataclass(slots=True)
class MetaCounters:
    """Counts since start."""

    client_registers: int = 0
    node_registers: int = 0
    policies_sent: int = 0
    pushes: int = 0
    route_checks: int = 0
    """Registrations compared with their current route because something changed."""
    held: int = 0
    """Registrations held back until there is a usable broker group."""
    over_limit: int = 0
    """Registrations answered but not indexed, or answered without a broker group, because of a limit."""
    illegal: int = 0
    refused_nodes: Counter[str] = field(default_factory=Counter)
    """Refused registrations of nodes, by code."""
    bad_requests: Counter[str] = field(default_factory=Counter)


class MetaHandlers:
    """Answers the frames of clients and nodes.

    Args:
        auth: which connections may send commands of nodes. None: all.
        official_nodes: which nodes of the official server may register. None: none may.
    """

    def __init__(
        self,
        directory: Directory,
        keeper: Keeper,
        clock: Clock,
        read_gate: ReadGate,
        *,
        limits: RegistrationLimits | None = None,
        auth: ConnectionAuth | None = None,
        official_nodes: OfficialNodes | None = None,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._directory = directory
        self._keeper = keeper
        self._clock = clock
        self._read_gate = read_gate
        self._auth = auth or ConnectionAuth(None)
        self._official_nodes = official_nodes or OfficialNodes()
        self._call_soon = call_soon or asyncio.get_running_loop().call_soon
        self.registrations = Registrations(clock, limits)
        self._unchecked: dict[Registration, None] = {}
        """Registrations whose route may have changed, in the order of the changes."""
        self._is_check_scheduled = False
        self._unrouted: dict[str, None] = {}
        """Subjects of clients that registered while no broker group could get the subject, oldest first."""
        self._timestamp_ms = 0
        self._store_node_at: dict[str, float] = {}
        self._node_connections: dict[str, Connection] = {}
        """By node id: the connection of its newest accepted registration."""
        self.counters = MetaCounters()
        self._log_limiter = LogLimiter()

    def handle(self, connection: Connection, frame: Frame) -> None:
        """One request."""
        if frame.version not in VERSIONS_SERVED:
            self._bad(connection, frame, "unknown_version", f"version {frame.version} is not supported")
            return
        try:
            match frame.code:
                case Command.CLIENT_REGISTER:
                    self._client_register(connection, frame)
                case Command.AUTHENTICATE:
                    problem = self._auth.handle(connection, frame)
                    if problem:
                        self.counters.bad_requests["unauthenticated"] += 1
                        self._warning(connection, "unauthenticated", problem)
                case Command.NODE_REGISTER | Command.NODE_POLICY if not self._auth.is_trusted(connection):
                    self.counters.bad_requests["unauthenticated"] += 1
                    self._warning(connection, "unauthenticated", f"command {frame.code} without the node secret")
                    self._auth.refuse(connection, frame)
                case Command.NODE_REGISTER:
                    self._node_register(connection, frame)
                case Command.NODE_POLICY:
                    self._node_policy(connection, frame)
                case Command.BROKER_REGISTER:
                    self._broker_register(connection, frame)
                case Command.BROKER_ACQUIRE_META:
                    self._acquire_meta(connection, frame)
                case Command.LIST_NODES:
                    self._list_nodes(connection, frame)
                case Command.HEARTBEAT:
                    connection.reply(frame, Command.HEARTBEAT)
                case _:
                    self.counters.bad_requests["unknown_command"] += 1
                    self._warning(connection, "unknown_command", f"command {frame.code} is not the metaserver's")
                    connection.reply(frame, ResponseCode.UNKNOWN_CODE)
        except ProtocolError as error:
            self._bad(connection, frame, "undecodable", str(error))

    def _bad(self, connection: Connection, frame: Frame, reason: str, text: str) -> None:
        self.counters.bad_requests[reason] += 1
        self._warning(connection, reason, f"command {frame.code} refused: {text}")
        connection.reply(frame, ResponseCode.BROKER_ERROR)

    def _warning(self, connection: Connection, reason: str, what: str) -> None:
        """Log what a client did, with a back-off for each reason and host."""
        self._log_limiter.warning(logger, connection.peer, reason, what, self._clock.monotonic())

    # --- clients ---------------------------------------------------------------------------------------------------

    def _client_register(self, connection: Connection, frame: Frame) -> None:
        request = ClientRegisterRequest.decode(frame.body, frame.version)
        self.counters.client_registers += 1
        subject = split_subject(request.subject).subject
        try:
            check_subject(request.subject)
            if subject not in self._directory.routes:
                check_new_subject(subject)
        except IllegalName as error:
            # An error code, or an answer without groups, would leave a sender thread of the official client waiting for
            # ever, and there are three (T3). So it is sent to brokers, which refuse the message with the reason.
            self.counters.illegal += 1
            self._warning(connection, "illegal_subject", str(error))
            groups = self._directory.any_usable(request.client_type)
            groups = groups or self._directory.refusing(subject, request.client_type)
            connection.reply(frame, ResponseCode.SUCCESS, self._response(request, groups).encode(frame.version))
            return
        if is_pushed(request.client_type):
            # Of a delayed producer's subject as well: it has to exist, and to have an owner, before its messages are due.
            self._ensure_route(subject)
        if request.client_id:
            group = request.group[:NAME_CHARS_MAX]
            client_id, app = request.client_id[: 2 * NAME_CHARS_MAX], request.app[:NAME_CHARS_MAX]
            client_type = request.client_type if request.client_type in set(ClientType) else ClientType.OTHER
            problem = next(filter(None, map(hidden_text_problem, (group, client_id, app))), "")
            if problem:
                self.counters.illegal += 1
                self._warning(connection, "illegal_client", f"a client of {subject} is not stored: a name {problem}")
            else:
                self._keeper.client(ClientSeen(subject, int(client_type), group, client_id, app))
        self._answer(connection, frame, request, subject)

    def _ensure_route(self, subject: str) -> None:
        """Create a subject's route, or extend one that no live broker group serves."""
        route, is_new = self._directory.route_of(subject)
        if route is None:
            self._unrouted[subject] = None
            if len(self._unrouted) > UNROUTED_SUBJECTS_MAX:
                del self._unrouted[next(iter(self._unrouted))]
            return
        self._unrouted.pop(subject, None)
        if not is_new:
            return
        self._keeper.route(route)
        logger.info("subject %s: served by %s (version %d)", subject, ", ".join(route.broker_groups), route.version)
        if route.version > 1:
            self.routes_changed({subject})

    def _answer(self, connection: Connection, frame: Frame, request: ClientRegisterRequest, subject: str) -> None:
        """Reply, or hold the request until a broker group is usable; over a limit, reply in any case (T1)."""
        groups, is_served = self._groups(subject, request.client_type)
        registration = self.registrations.put(connection, request, subject)
        if registration is not None:
            older = self.registrations.release(registration)
            if older is not None:
                connection.drop(older)
            if not is_served:
                self.registrations.mark_unserved(registration)
            if not groups and self.registrations.hold(registration, frame):
                self.counters.held += 1
                what = "delay group" if registration.is_delay else "usable broker group"
                self._warning(
                    connection,
                    "held",
                    f"no {what} for subject {subject} yet; the response is delayed until there is one",
                )
                return
            registration.last_sent = _sent_route(groups)
        if is_pushed(request.client_type) and (registration is None or not groups):
            self.counters.over_limit += 1
        connection.reply(frame, ResponseCode.SUCCESS, self._response(request, groups).encode(frame.version))

    def _groups(
        self, subject: str, client_type: int, keep: Collection[str] = ()
    ) -> tuple[tuple[BrokerGroupRoute, ...], bool]:
        """The groups that a client of a real subject is sent, and whether it can use them.

        A producer that no group can serve is sent those that refuse its messages: their answers have the reason.
        """
        usable = self._directory.usable(subject, client_type, keep)
        return usable or self._directory.refusing(subject, client_type), bool(usable)

    def _response(self, request: ClientRegisterRequest, groups: tuple[BrokerGroupRoute, ...]) -> ClientRegisterResponse:
        self._timestamp_ms = max(self._timestamp_ms, self._clock.wall_ms())
        return ClientRegisterResponse(
            self._timestamp_ms, request.subject, request.group, True, request.client_type, groups
        )

    def routes_changed(self, subjects: Iterable[str]) -> None:
        """Push to the clients of these real subjects, where the route differs from the last one sent."""
        for subject in subjects:
            self._check_soon(self.registrations.of_subject(subject))

    def _check_soon(self, registrations: Iterable[Registration]) -> None:
        self._unchecked.update(dict.fromkeys(registrations))
        if self._unchecked and not self._is_check_scheduled:
            self._is_check_scheduled = True
            self._call_soon(self._check_some)

    def _check_some(self) -> None:
        self._is_check_scheduled = False
        some = list(itertools.islice(self._unchecked, CHECKS_PER_BATCH))
        for registration in some:
            del self._unchecked[registration]
        # Before the work: an error in it ends this turn, not the following ones.
        self._check_soon(())
        for registration in some:
            if not registration.is_removed:
                self._check(registration)

    def _check(self, registration: Registration) -> None:
        self.counters.route_checks += 1
        request, last_sent = registration.request, registration.last_sent
        if self.registrations.is_unserved(registration):
            self._ensure_route(registration.subject)
        keep = frozenset(name for name, _, _ in last_sent or ())
        groups, is_served = self._groups(registration.subject, request.client_type, keep)
        # A route without a group is not pushed: the client keeps trying its old one, which may recover.
        if not groups:
            return
        pending = self.registrations.release(registration)
        if not is_served:
            self.registrations.mark_unserved(registration)
        if pending is None and last_sent == _sent_route(groups):
            return
        registration.last_sent = _sent_route(groups)
        if pending is not None:
            body = self._response(request, groups).encode(pending.version)
            registration.connection.reply(pending, ResponseCode.SUCCESS, body)
            return
        self.counters.pushes += 1
        body = self._response(request, groups).encode(9)
        registration.connection.push(
            encode_request(ResponseCode.SUCCESS, 0, body, flag=FLAG_RESPONSE, request_code=Command.CLIENT_REGISTER)
        )

    def reloaded(self, reloaded: Reloaded) -> None:
        """Push what operators, or other metaservers, changed."""
        self.routes_changed(sorted(reloaded.subjects))
        for name in sorted(reloaded.broker_groups):
            logger.info("broker group %s is %s now", name, self._directory.groups[name].state)
            self._group_changed(name)

    def peers_observed(self, observed: Observed) -> None:
        """Push the states that other metaservers stored, and store again what they contradict."""
        for row in observed.contradicted:
            self._keeper.group(row, "its master sends heartbeats")
        for name in observed.broker_groups:
            logger.info(
                "broker group %s is %s, reported by another metaserver", name, self._directory.groups[name].state
            )
            self._group_changed(name)

    def route_stored(self, route: Route) -> None:
        """The database holds another route than ours: use it, and push it."""
        self._directory.put_route(route)
        self.routes_changed({route.subject})

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _node_register(self, connection: Connection, frame: Frame) -> None:
        request = NodeRegisterRequest.decode(frame.body, frame.version)
        self.counters.node_registers += 1
        check_values(request)
        self._check_new_node(request.broker_group, request.node_id, request.address)
        registered = self._register(connection, request)
        connection.reply(frame, ResponseCode.SUCCESS, registered.answer.encode(frame.version))
        if registered.answer.accepted:
            self._replace_connection(request.node_id, connection)

    def _replace_connection(self, node_id: str, connection: Connection) -> None:
        """Close a node's previous connection.

        The network may deliver a heartbeat of that connection late. Applied after newer ones, it would restore an old state and
        an old log end, which makes the group read only.
        """
        previous = self._node_connections.get(node_id)
        if previous is connection:
            return
        self._node_connections[node_id] = connection
        connection.on_close(lambda: self._connection_closed(node_id, connection))
        if previous is not None:
            previous.abort()

    def _connection_closed(self, node_id: str, connection: Connection) -> None:
        if self._node_connections.get(node_id) is connection:
            del self._node_connections[node_id]

    def _check_new_node(self, broker_group: str, node_id: str, address: str) -> None:
        """Raises ProtocolError for a new broker group or node whose name or address holds a hidden character."""
        names = [address]
        if broker_group not in self._directory.groups:
            names.append(broker_group)
        if node_id not in self._directory.nodes:
            names.append(node_id)
        for name in names:
            problem = hidden_text_problem(name)
            if problem:
                raise ProtocolError(f"{name[:40]!a} {problem}")

    def _register(self, connection: Connection, request: NodeRegisterRequest) -> Registered:
        registered = self._directory.register(request)
        code = registered.answer.code
        if code:
            self.counters.refused_nodes[code] += 1
            self._warning(
                connection, code, f"registration of node {request.node_id} refused: {registered.answer.reason}"
            )
        self._after(registered)
        return registered

    def _node_policy(self, connection: Connection, frame: Frame) -> None:
        request = NodePolicyRequest.decode(frame.body, frame.version)
        node, live = self._directory.nodes.get(request.node_id), self._directory.groups.get(request.broker_group)
        is_approved = live is not None and live.row.operator_state is not OperatorState.UNAPPROVED
        if node is None or node.broker_group != request.broker_group or not is_approved:
            raise ProtocolError(f"node {request.node_id[:40]!r} of {request.broker_group[:40]!r} is not registered")
        version, document = self._directory.policies.document(node.broker_group, request.policy_version)
        self.counters.policies_sent += 1 if document else 0
        connection.reply(frame, ResponseCode.SUCCESS, NodePolicyResponse(version, document).encode(frame.version))

    def _list_nodes(self, connection: Connection, frame: Frame) -> None:
        request = ListNodesRequest.decode(frame.body, frame.version)

        async def work() -> list[bytes]:
            now_ms = self._clock.wall_ms()
            return [NodesPage(now_ms, node_lines(self._directory, now_ms)).encode(frame.version)]

        self._read_gate.serve(connection, frame, request.token, work)

    def _after(self, registered: Registered) -> None:
        node = registered.node
        now = self._clock.monotonic()
        if node is not None and (registered.has_changed or now >= self._store_node_at.get(node.node_id, 0.0)):
            self._store_node_at[node.node_id] = now + NODE_STORE_SECONDS
            self._keeper.node(node)
        if registered.group is not None:
            self._keeper.group(registered.group, registered.reason)
        if registered.has_changed and registered.group is not None:
            name = registered.group.name
            logger.info("broker group %s is %s, master %s", name, registered.group.state, registered.group.master)
            self._group_changed(name)

    def _group_changed(self, name: str) -> None:
        if self._directory.groups[name].row.kind is GroupKind.DELAY:
            self._check_soon(self.registrations.of_delay_groups())
            return
        if self._directory.groups[name].state is GroupState.READ_WRITE:
            for subject in list(self._unrouted):
                self._ensure_route(subject)
        self._check_soon(self.registrations.unserved())
        self.routes_changed(sorted(self._directory.subjects_of(name)))

    def expire(self) -> None:
        """Take silent groups offline and push the routes of their subjects."""
        for row in self._directory.expire():
            reason = self._directory.groups[row.name].reason
            logger.warning("broker group %s is offline: %s", row.name, reason)
            self._keeper.group(row, reason)
            self._group_changed(row.name)

    def _broker_register(self, connection: Connection, frame: Frame) -> None:
        """Register a node of the official server that the settings allow. Its address serves as its node id.

        Raises:
            ProtocolError: a value is not allowed.
        """
        request = BrokerRegisterRequest.decode(frame.body, frame.version)
        problem = self._official_nodes.problem(request.broker_group, request.address, connection.peer)
        if problem:
            self._bad(connection, frame, "node_not_allowed", problem)
            return
        self._check_new_node(request.broker_group, request.address, request.address)
        masters = {Role.MASTER: GroupKind.BROKER, Role.DELAY_MASTER: GroupKind.DELAY, Role.DELAY: GroupKind.DELAY}
        kind = masters.get(Role(request.role))
        if kind is not None:
            state = request.state
            if request.request_type == BrokerRequestType.OFFLINE:
                state = 4
            if STATE_FROM_WIRE.get(state) is GroupState.OFFLINE and request.request_type == BrokerRequestType.ONLINE:
                state = 1
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
            registered = self._register(connection, node)
            if registered.answer.code:
                raise ProtocolError(registered.answer.reason)
        connection.reply(frame, ResponseCode.SUCCESS)

    def _acquire_meta(self, connection: Connection, frame: Frame) -> None:
        request = BrokerAcquireMetaRequest.decode(frame.body, frame.version)
        address = f"{request.hostname}:{request.port}"
        node = next((node for node in self._directory.nodes.values() if node.address == address), None)
        if node is None:
            raise ProtocolError(f"no node {address} is known")
        answer = BrokerAcquireMetaResponse(node.broker_group, "", node.role)
        connection.reply(frame, ResponseCode.SUCCESS, answer.encode(frame.version))


def _sent_route(groups: tuple[BrokerGroupRoute, ...]) -> SentRoute:
    return frozenset((group.name, group.master, group.state) for group in groups)
