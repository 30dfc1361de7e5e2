"""A broker group with its master's heartbeats, the other metaservers, and the effects of registrations and reloads. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from metaserver.choices import STATE_FROM_WIRE, GroupState, OperatorState, effective_state
from metaserver.domain import BrokerGroup, Node, Route
from metaserver.memory.fitness import Fitness
from metaserver.memory.membership_wishes import MembershipWish, is_replicating
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq_node.replication.rules.membership import Membership

HEARTBEAT_SECONDS = 1.0
LEASE_SECONDS = 4.0
EXPIRY_SECONDS = 6.0
PEER_EXPIRY_SECONDS = 10.0
"""Expiry of a group whose heartbeats another metaserver receives: EXPIRY_SECONDS, the 3 s until a heartbeat is stored (at
most NODE_STORE_SECONDS and a heartbeat after the last stored one), and 1 s until it is read here."""
STORED_LEASE_SECONDS = 3.0
"""How much older than the last heartbeat the stored lease of a group may be: the time until it is stored (2 s), and a margin."""
DATABASE_SECONDS = 3.0
"""A database that could not be read for so long does not respond. It is read once a second."""
assert HEARTBEAT_SECONDS * 2 < LEASE_SECONDS < EXPIRY_SECONDS, (
    "a lease outlives a lost heartbeat and ends before expiry"
)


def offline_seconds(members: int) -> float:
    """Return after how many seconds without a heartbeat of its master a group of this size is announced as offline.

    A group with several members waits one more expiry, so that clients see a promotion only as another address: official clients
    end the consumer of a group that leaves the route.
    """
    return 2 * EXPIRY_SECONDS if members > 1 else EXPIRY_SECONDS


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The last registration or heartbeat of a node that this metaserver received."""

    request: NodeRegisterRequest
    received_at: float
    has_lost_data: bool = False
    """Whether the node's log ended at a higher place before."""

    @property
    def has_left(self) -> bool:
        """Whether it was a deregistration."""
        return self.request.request_type == BrokerRequestType.OFFLINE

    def is_live(self, now: float) -> bool:
        """Whether the node runs, as far as this metaserver knows."""
        return not self.has_left and now - self.received_at <= EXPIRY_SECONDS


@dataclass(slots=True)
class LiveGroup:
    """A broker group and its master's last heartbeats."""

    group: BrokerGroup
    node: Node | None
    """The node that clients are sent to: the master that served last, until the membership's master reports."""
    heartbeat_at: float
    """When this metaserver received the last one, or loaded the group."""
    reported: GroupState
    """The state that the master reported."""
    is_expired: bool = False
    has_heartbeat: bool = False
    """Whether a metaserver received one since this metaserver started."""
    received_here: bool = False
    """Whether this metaserver received one."""
    has_left: bool = False
    """Whether the last one was a deregistration, which ends the lease."""
    started_at_ms: int | None = None
    """Which process of the node sent the last one, by its start; None: it was received by another metaserver, or not yet."""
    stored_lease_us: int | None = None
    """The stored lease, as last observed."""
    contradicted_at: float | None = None
    """When the stored state was first observed to differ from the own one; None while they agree."""
    peer_heartbeat_at: float | None = None
    """When this metaserver last observed a heartbeat stored by another metaserver."""
    reason: str = ""
    policy_version: str = ""
    """The policy that the master applies; "" when it reported none."""
    is_stored: bool = True
    """Whether the membership was read from the database or the route file. No node gets it before: when a group's first
    node registers here, another metaserver may have stored another node as its first member."""
    reported_place: tuple[int, int] = (0, 0)
    """The highest epoch and version of the membership that a member reported, a metaserver recorded, or
    `reserve_next_version` set."""
    reports: dict[str, NodeReport] = field(default_factory=dict)
    """By node id, of all nodes: the master, other members, and spares."""
    disconnected_at: dict[str, float] = field(default_factory=dict)
    """By node id, when the connection of its last registration ended; without those that registered again."""
    lease_began_at: float = 0.0
    """When the present master became the master, as far as this metaserver knows, or the group was loaded."""
    restored_at: float | None = None
    """Since when the stored membership is older than one that is known; None: it is not."""
    is_recorded: bool = False
    """Whether it was recorded in the database that a newer membership is known."""
    fitness: Fitness = field(default_factory=Fitness)
    """How fit its members are to lead it."""

    @property
    def membership(self) -> Membership:
        """Who is master and who is in sync."""
        return self.group.membership

    def learn_reported_membership(self, request: NodeRegisterRequest) -> None:
        """A member reports which membership it has acted on."""
        membership, place = self.membership, (request.epoch, request.membership_version)
        self.reported_place = max(self.reported_place, place)
        content = request.promotion_id, frozenset(request.membership_in_sync)
        if place == membership.place and request.membership_in_sync and content != membership.content:
            self.reserve_next_version()

    def reserve_next_version(self) -> None:
        """There is another membership of the same place: the database was restored since that was stored, and then
        changed. Neither is changed: the next version is that of the membership that the last master, or an operator,
        decides on."""
        self.reported_place = max(self.reported_place, (self.membership.epoch, self.membership.version + 1))

    def begin_lease(self, now: float) -> None:
        """The membership has another master: its lease begins without a heartbeat. Clients see no difference until it reports."""
        self.heartbeat_at = self.lease_began_at = now
        self.received_here = self.has_heartbeat = False
        self.has_left, self.started_at_ms = False, None
        self.stored_lease_us = self.contradicted_at = self.peer_heartbeat_at = None
        self.policy_version = ""

    @property
    def state(self) -> GroupState:
        """The state for clients: the one that the master reported, restricted by the operator state."""
        if self.is_expired or self.node is None or self.group.operator_state is OperatorState.UNAPPROVED:
            return GroupState.OFFLINE
        return effective_state(self.reported, self.group.operator_state)

    @property
    def is_replicated(self) -> bool:
        """Whether another member can be promoted when the master fails."""
        return len(self.membership.members) > 1

    @property
    def serving_incarnation(self) -> str:
        """The incarnation of the data folder with which the master reported that it serves in the present epoch; "" if it did not,
        or its version has no replication. Before, it has to learn that it is the only member, so no other one is added."""
        report = self.reports.get(self.membership.master)
        if report is None or not is_replicating(report.request):
            return ""
        state = STATE_FROM_WIRE.get(report.request.state, GroupState.OFFLINE)
        serves = state is not GroupState.OFFLINE and report.request.epoch == self.membership.epoch
        return report.request.incarnation if serves else ""

    @property
    def has_replicating_node(self) -> bool:
        """Whether the version of any node that reported has replication."""
        return any(is_replicating(report.request) for report in self.reports.values())

    @property
    def seen_by_clients(self) -> tuple[str, str, GroupState]:
        """Node id and address of the node that clients are sent to, and the state."""
        return (self.node.node_id, self.node.address, self.state) if self.node is not None else ("", "", self.state)

    def is_running(self, node_id: str, now: float) -> bool:
        """Whether a node of the group runs."""
        if node_id == self.membership.master:
            return self.has_lease(now)
        report = self.reports.get(node_id)
        return report is not None and report.is_live(now)

    def is_received_here(self, now: float) -> bool:
        """Whether its heartbeats arrive at this metaserver."""
        return self.received_here and now - self.heartbeat_at <= EXPIRY_SECONDS

    def is_live_at_peer(self, now: float) -> bool:
        """Whether its heartbeats arrive at another metaserver."""
        return self.peer_heartbeat_at is not None and now - self.peer_heartbeat_at <= PEER_EXPIRY_SECONDS

    def is_silent(self, now: float) -> bool:
        """Whether no metaserver has received a heartbeat for its expiry."""
        return now - self.heartbeat_at > EXPIRY_SECONDS and not self.is_live_at_peer(now)

    def is_overdue(self, now: float) -> bool:
        """Whether the group is to be announced as offline."""
        return self.is_silent(now) and now - self.heartbeat_at > offline_seconds(len(self.membership.members))

    def has_lease(self, now: float) -> bool:
        """Whether the master's lease runs. A group whose master is silent past its expiry may be served by another node, such as a
        restored backup; the log end of the old master applies to the new one.
        """
        return not (self.is_expired or self.has_left or self.is_silent(now))


@dataclass(frozen=True, slots=True)
class Registered:
    """The effects of a registration: the response and what is to be stored."""

    answer: NodeRegisterResponse
    group: BrokerGroup | None = None
    """None if neither the group nor routes changed."""
    node: Node | None = None
    reason: str = ""
    wish: MembershipWish | None = None
    """The change of the membership to be made before the node is answered. Without it, `answer` is right."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What operators and other metaservers changed in the database."""

    subjects: set[str]
    """Subjects whose route changed."""
    broker_groups: set[str]
    """Broker groups whose state operators changed."""
    to_store: list[Route]
    """Routes with groups that the database lacks."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What other metaservers stored."""

    broker_groups: list[str]
    """Groups with another state or address than before."""
    replaced: list[str]
    """Groups of which another metaserver stored a heartbeat after those that arrived here: what this one has not stored yet of them
    is out of date."""
    contradicted: list[BrokerGroup]
    """Groups whose heartbeats arrive here, and which are still stored with another state after another heartbeat."""


class Peers:
    """The other metaservers that store heartbeats. Clocks of different machines are never compared."""

    def __init__(self, now: float) -> None:
        self._heartbeats: dict[str, tuple[int, float]] = {}
        """By name: (when it last stored a heartbeat by its own clock, when that was observed for the first time)."""
        self._observed_at = now
        self.has_live = False
        """Whether a peer ran when the database was last read. One whose heartbeat was read for the first time may run."""

    def observe(self, heartbeats: Mapping[str, int], now: float) -> None:
        """Take over the stored heartbeats, by name."""
        for name in self._heartbeats.keys() - heartbeats.keys():
            del self._heartbeats[name]
        for name, stored_at_us in heartbeats.items():
            last = self._heartbeats.get(name)
            if last is None or last[0] != stored_at_us:
                self._heartbeats[name] = (stored_at_us, now)
        self.has_live = any(now - at <= PEER_EXPIRY_SECONDS for _, at in self._heartbeats.values())
        self._observed_at = now

    def database_is_away(self, now: float) -> bool:
        """Whether the database does not respond."""
        return now - self._observed_at > DATABASE_SECONDS

    def are_out_of_sight(self, now: float) -> bool:
        """Whether a live peer may receive heartbeats of nodes that can't be read, because the database does not respond."""
        return self.has_live and now - self._observed_at > LEASE_SECONDS
