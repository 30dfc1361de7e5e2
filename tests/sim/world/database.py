"""The metaservers' database: what is stored, in memory, with the rules of `metaserver.services`, and its faults."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random

from metaserver.choices import OperatorState
from metaserver.domain import (
    NO_CHANGES,
    BrokerGroup,
    ClientSeen,
    Leases,
    Metadata,
    MetadataChanges,
    MetadataVersion,
    Node,
    Route,
    StoredConsumerGroup,
    StoredLease,
    SubjectRule,
)
from metaserver.memory.membership_wishes import MembershipWish
from qmq.clock import Clock
from qmq.errors import QmqError
from qmq.protocol.codes import ClientType
from qmq_node.replication.rules.membership import ChangeRejected, Membership
from tests.sim.world.loop import SimulatedLoop

ANSWER_SECONDS = (0.0005, 0.005)
"""A query's shortest and longest time."""
AWAY_SECONDS = 2.0
"""How long a query to an unreachable database takes to fail."""


@dataclass
class Stored:
    """What is stored."""

    groups: dict[str, BrokerGroup] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)
    rules: dict[str, SubjectRule] = field(default_factory=dict)
    paused: frozenset[tuple[str, str, str]] = frozenset()
    clients: dict[ClientSeen, None] = field(default_factory=dict)
    removed_folders: frozenset[tuple[str, str]] = frozenset()
    leases: dict[str, int] = field(default_factory=dict)
    """By node id, when its last heartbeat was stored, in microseconds of the wall clock of the metaserver that stored it."""
    heartbeats: dict[str, int] = field(default_factory=dict)
    changes: list[tuple[datetime, str, str]] = field(default_factory=list)
    """(time, subject, broker group) of each change of metadata."""


class Database:
    """One database of one or more metaservers."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.stored = Stored()
        self._rng: Random = loop.rng("database")
        self.is_away = False
        self.unreachable_from: set[str] = set()
        """Hosts of metaservers that can't reach it."""
        self.slowness = 1.0
        self.lost_replies = 0
        """So many of the next writes are stored, and their reply is lost."""
        self.backup: Stored | None = None
        """The copy that `restore` puts back."""
        self.was_faulty = False
        """A query failed."""
        self.on_membership: list[Callable[[str, Membership, Membership], None]] = []
        """Called with the name of a broker group and its membership before and after each change that a metaserver stores."""

    def back_up(self) -> None:
        """Keep a copy for `restore`."""
        self.backup = copy.deepcopy(self.stored)

    def restore(self) -> None:
        """Go back to the last copy, if there is one."""
        if self.backup is not None:
            self.stored = copy.deepcopy(self.backup)

    def query(self, host: str) -> None:
        """One round trip of a host; raises when it can't reach the database."""
        if self.is_away or host in self.unreachable_from:
            self.was_faulty = True
            self.loop.block(AWAY_SECONDS)
            raise ConnectionError("the database is away")
        self.loop.block(self._rng.uniform(*ANSWER_SECONDS) * self.slowness)

    def reply(self) -> None:
        """The answer to a write, after it is stored."""
        if self.lost_replies:
            self.lost_replies -= 1
            self.was_faulty = True
            raise ConnectionError("the connection ended before the reply")

    def changed(self, subject: str = "", group: str = "") -> None:
        """Count a change of metadata."""
        self.stored.changes.append((datetime.fromtimestamp(self.loop.now, UTC), subject, group))

    # --- operators -------------------------------------------------------------------------------------------------

    def set_rule(self, subject: str, rule: SubjectRule | None) -> None:
        """Change a subject's rule, as the console does."""
        self.stored.rules.pop(subject, None)
        if rule is not None:
            self.stored.rules[subject] = rule
        self.changed(subject)

    def set_paused(self, subject: str, group: str, *, is_paused: bool) -> None:
        """Pause or resume a consumer group, as the console does."""
        item = {(subject, group, "")}
        self.stored.paused = self.stored.paused | item if is_paused else self.stored.paused - item
        self.changed(subject)

    def set_operator_state(self, group: str, state: OperatorState) -> None:
        """Make a broker group read only or normal, as the console does."""
        self.stored.groups[group] = replace(self.stored.groups[group], operator_state=state)
        self.changed(group=group)

    def remove_lost_group(self, name: str, folders: frozenset[str]) -> None:
        """Remove a broker group with the loss of what its data folders have, as the console does."""
        stored = self.stored
        del stored.groups[name]
        for node_id in [node.node_id for node in stored.nodes.values() if node.broker_group == name]:
            del stored.nodes[node_id]
            stored.leases.pop(node_id, None)
        stored.removed_folders |= {(name, folder) for folder in folders}
        self.changed(group=name)

    def approve(self, name: str) -> None:
        """Let a broker group serve that registered for the first time, as the console does."""
        self.stored.removed_folders = frozenset(one for one in self.stored.removed_folders if one[0] != name)
        self.set_operator_state(name, OperatorState.NORMAL)

    def lift_restrictions(self) -> None:
        """End all that operators restricted, also what a backup brought back."""
        stored = self.stored
        for name in stored.groups:
            self.set_operator_state(name, OperatorState.NORMAL)
        for subject in list(stored.rules):
            self.set_rule(subject, None)
        for subject, group, _ in stored.paused:
            self.set_paused(subject, group, is_paused=False)
        for route in list(stored.routes.values()):
            self.set_route(replace(route, version=route.version + 1, phases={}))

    def set_route(self, route: Route) -> bool:
        """Replace a subject's route if the version follows the stored one's, as the rebalance does."""
        there = self.stored.routes.get(route.subject)
        if there is None or there.version != route.version - 1:
            return False
        self.stored.routes[route.subject] = route
        self.changed(route.subject)
        return True


class SimulatedRepository:
    """A metaserver's connection to the database: `metaserver.stored.write_behind.Repository`."""

    def __init__(self, database: Database, clock: Clock, host: str) -> None:
        self._database = database
        self._host = host
        self._clock = clock
        self._own_leases: dict[str, int] = {}
        self._own_heartbeat: tuple[str, int] | None = None

    @property
    def _stored(self) -> Stored:
        return self._database.stored

    def load(self) -> Metadata:
        self._database.query(self._host)
        stored = self._stored
        return Metadata(
            tuple(stored.groups.values()),
            tuple(stored.nodes.values()),
            tuple(stored.routes.values()),
            dict(stored.rules),
            stored.paused,
            removed_folders=stored.removed_folders,
        )

    def version(self) -> MetadataVersion:
        self._database.query(self._host)
        changes = self._stored.changes
        return MetadataVersion(len(changes), changes[-1][0]) if changes else NO_CHANGES

    def changed(self, since: MetadataVersion, until: MetadataVersion) -> MetadataChanges | None:
        self._database.query(self._host)
        stored = self._stored
        if not 0 <= since.number <= until.number <= len(stored.changes):
            return None
        if since.number and stored.changes[since.number - 1][0] != since.at:
            return None
        found = stored.changes[since.number : until.number]
        subjects = frozenset(subject for _, subject, _ in found if subject)
        names = frozenset(group for _, _, group in found if group)
        changed = Metadata(
            tuple(group for name, group in stored.groups.items() if name in names),
            tuple(node for node in stored.nodes.values() if node.broker_group in names),
            tuple(route for name, route in stored.routes.items() if name in subjects),
            {name: rule for name, rule in stored.rules.items() if name in subjects},
            frozenset(pause for pause in stored.paused if pause[0] in subjects),
            removed_folders=frozenset(one for one in stored.removed_folders if one[0] in names),
        )
        return MetadataChanges(subjects, subjects - stored.routes.keys() - stored.rules.keys(), names, changed)

    def leases(self) -> Leases:
        self._database.query(self._host)
        stored = self._stored
        found = []
        for node_id, at in stored.leases.items():
            node = stored.nodes.get(node_id)
            group = stored.groups.get(node.broker_group) if node is not None else None
            if node is not None and group is not None and group.membership.master == node_id:
                found.append(StoredLease(group, node, at, self._own_leases.get(node_id) == at))
        self._own_leases = {lease.node.node_id: lease.stored_at_us for lease in found if lease.is_own}
        peers = {name: at for name, at in stored.heartbeats.items() if (name, at) != self._own_heartbeat}
        return Leases(tuple(found), peers)

    def save_route(self, route: Route) -> Route:
        self._database.query(self._host)
        there = self._stored.routes.get(route.subject)
        if there is not None and there.version != route.version - 1:
            return there
        self._stored.routes[route.subject] = route
        self._database.changed(route.subject)
        self._database.reply()
        return route

    def save_group(self, group: BrokerGroup, reason: str) -> None:
        self._database.query(self._host)
        there = self._stored.groups.get(group.name)
        if there is not None:
            if there.membership.epoch > group.membership.epoch:
                return
            if there.membership.master:
                group = replace(there, state=group.state)
            else:
                group = group.with_decisions_of(there)
            if there == group:
                return
        self._stored.groups[group.name] = group
        self._database.changed(group=group.name)
        self._database.reply()

    def save_node(self, node: Node) -> None:
        self._database.query(self._host)
        there = self._stored.nodes.get(node.node_id)
        self._stored.nodes[node.node_id] = node if there is None else node.with_newest_log_end(there)
        at_us = round(self._database.loop.now * 1_000_000) % 1000
        at = self._stored.leases[node.node_id] = self._clock.wall_ms() * 1000 + at_us
        self._own_leases[node.node_id] = at
        self._database.reply()

    def heartbeat(self, name: str, steady_seconds: float, at_ms: int) -> None:
        self._database.query(self._host)
        self._stored.heartbeats[name] = at_ms * 1000
        self._own_heartbeat = name, at_ms * 1000
        self._database.reply()

    def save_clients(self, clients: list[ClientSeen]) -> None:
        self._database.query(self._host)
        self._stored.clients.update(dict.fromkeys(clients))
        self._database.reply()

    def consumer_groups(self, after: int, count: int) -> list[StoredConsumerGroup]:
        self._database.query(self._host)
        consumers = [one for one in self._stored.clients if one.client_type == ClientType.CONSUMER and one.group]
        groups = dict.fromkeys((one.subject, one.group) for one in consumers)
        routes = self._stored.routes
        return [
            StoredConsumerGroup(number, subject, name, routes[subject].broker_groups if subject in routes else ())
            for number, (subject, name) in enumerate(groups, 1)
            if after < number <= after + count
        ]

    def membership_store(self) -> "MembershipStore":
        return MembershipStore(self._database, self._host)


class MembershipStore:
    """The memberships of broker groups: `metaserver.replication.membership_changes.MembershipStore`."""

    def __init__(self, database: Database, host: str) -> None:
        self._database = database
        self._host = host

    def read(self, name: str) -> Membership:
        self._database.query(self._host)
        group = self._database.stored.groups.get(name)
        if group is None:
            raise QmqError(f"Broker group {name!r} not found.")
        return group.membership

    def change(self, name: str, wish: MembershipWish, newest_place: tuple[int, int]) -> Membership:
        membership = self.read(name)
        changed = wish.applied_to(membership, newest_place, self._stored_log)
        # Another metaserver may change the membership between the two queries.
        self._database.query(self._host)
        there = self._database.stored.groups.get(name)
        if there is None or (there.membership.place, there.membership.known_place) != (
            membership.place,
            membership.known_place,
        ):
            raise ChangeRejected(f"the membership of broker group {name} has changed meanwhile", is_stale=True)
        self._database.stored.groups[name] = there.with_membership(changed)
        for then in self._database.on_membership:
            then(name, membership, changed)
        self._database.changed(group=name)
        self._database.reply()
        return changed

    def _stored_log(self, node_id: str) -> tuple[int, int, int] | None:
        node = self._database.stored.nodes.get(node_id)
        return None if node is None else (node.log_end_version, *node.log_place)

    def record_known(self, name: str, place: tuple[int, int]) -> None:
        self._database.query(self._host)
        group = self._database.stored.groups.get(name)
        if group is not None and max(group.membership.place, group.membership.known_place) < place:
            membership = replace(group.membership, known_place=place)
            self._database.stored.groups[name] = replace(group, membership=membership)
        self._database.reply()

    def close(self) -> None:
        """There is no connection."""
