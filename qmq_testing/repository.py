"""class MemoryRepository: a metaserver's metadata in memory, for nodes inside a test."""

from dataclasses import replace
from threading import Lock

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
)
from metaserver.memory.membership_wishes import MembershipWish
from qmq.errors import QmqError
from qmq.protocol.codes import ClientType
from qmq_node.replication.rules.membership import Membership


class MemoryRepository:
    """Keeps metadata in this process."""

    def __init__(self, metadata: Metadata | None = None) -> None:
        metadata = metadata or Metadata()
        self.groups = {group.name: group for group in metadata.broker_groups}
        self.nodes = {node.node_id: node for node in metadata.nodes}
        self.routes = {route.subject: route for route in metadata.routes}
        self.clients: set[ClientSeen] = set()
        self.heartbeats: dict[str, float] = {}
        self.lock = Lock()
        """Held while a membership changes."""
        self.changes_made = 0
        """To be raised by a test that changes anything without a metaserver."""

    def load(self) -> Metadata:
        return Metadata(tuple(self.groups.values()), tuple(self.nodes.values()), tuple(self.routes.values()))

    def version(self) -> MetadataVersion:
        return NO_CHANGES._replace(number=self.changes_made)

    def changed(self, since: MetadataVersion, until: MetadataVersion) -> MetadataChanges | None:
        return None

    def leases(self) -> Leases:
        return Leases()

    def save_route(self, route: Route) -> Route:
        there = self.routes.get(route.subject)
        if there is not None and there.version != route.version - 1:
            return there
        self.routes[route.subject] = route
        return route

    def save_group(self, group: BrokerGroup, reason: str) -> None:
        with self.lock:
            there = self.groups.get(group.name)
            if there is not None and there.membership.master:
                group = replace(there, state=group.state)
            self.groups[group.name] = group

    def save_node(self, node: Node) -> None:
        there = self.nodes.get(node.node_id, node)
        self.nodes[node.node_id] = node.with_newest_log_end(there)

    def heartbeat(self, name: str, steady_seconds: float, at_ms: int) -> None:
        self.heartbeats[name] = steady_seconds

    def save_clients(self, clients: list[ClientSeen]) -> None:
        self.clients.update(clients)

    def consumer_groups(self, after: int, count: int) -> list[StoredConsumerGroup]:
        found = sorted(
            {(one.subject, one.group) for one in self.clients if one.client_type == ClientType.CONSUMER and one.group}
        )
        groups = [(subject, name, self.routes.get(subject)) for subject, name in found]
        return [
            StoredConsumerGroup(number, subject, name, route.broker_groups if route is not None else ())
            for number, (subject, name, route) in enumerate(groups, 1)
            if after < number <= after + count
        ]

    def membership_store(self) -> "MemoryMembershipStore":
        return MemoryMembershipStore(self)


class MemoryMembershipStore:
    """The memberships of a `MemoryRepository`."""

    def __init__(self, repository: MemoryRepository) -> None:
        self._repository = repository

    def read(self, name: str) -> Membership:
        group = self._repository.groups.get(name)
        if group is None:
            raise QmqError(f"Broker group {name!r} not found.")
        return group.membership

    def change(self, name: str, wish: MembershipWish, newest_place: tuple[int, int]) -> Membership:
        with self._repository.lock:
            membership = self.read(name)
            changed = wish.applied_to(membership, newest_place, self._stored_log)
            self._repository.groups[name] = self._repository.groups[name].with_membership(changed)
            return changed

    def _stored_log(self, node_id: str) -> tuple[int, int, int] | None:
        node = self._repository.nodes.get(node_id)
        return None if node is None else (node.log_end_version, *node.log_place)

    def record_known(self, name: str, place: tuple[int, int]) -> None:
        with self._repository.lock:
            group = self._repository.groups[name]
            if max(group.membership.place, group.membership.known_place) < place:
                membership = replace(group.membership, known_place=place)
                self._repository.groups[name] = replace(group, membership=membership)

    def close(self) -> None:
        """There is no connection."""
