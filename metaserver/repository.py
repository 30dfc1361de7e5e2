"""The interface of the metadata store, and a store in memory."""

from typing import Protocol

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
)


class Unstorable(Exception):
    """The store rejects a change permanently: a text that it can't hold, or a row that refers to a deleted one."""


class Repository(Protocol):
    """Called from one background thread only; every call may raise when the store is unavailable, and is retried."""

    def load(self) -> Metadata:
        """Everything."""
        ...

    def version(self) -> MetadataVersion:
        """What changes with every change of metadata: equal versions, equal metadata."""
        ...

    def changed(self, since: MetadataVersion, until: MetadataVersion) -> MetadataChanges | None:
        """What changed after `since` up to `until`; None when that is not known, and everything has to be loaded."""
        ...

    def leases(self) -> Leases:
        """Each broker group with its master's last stored heartbeat, and which other metaservers run."""
        ...

    def save_route(self, route: Route) -> Route:
        """Store version n + 1 over version n (0: new); the route that is there afterwards, which may be another's."""
        ...

    def save_group(self, group: BrokerGroup, reason: str) -> None:
        """Create or update a broker group."""
        ...

    def save_node(self, node: Node) -> None:
        """Create or update a node."""
        ...

    def heartbeat(self, name: str, steady_seconds: float, at_ms: int) -> None:
        """Record that this metaserver runs, and for how long it has run and stored without a pause."""
        ...

    def save_clients(self, clients: list[ClientSeen]) -> None:
        """Record that these clients registered."""
        ...


class MemoryRepository:
    """Keeps metadata in this process."""

    def __init__(self, metadata: Metadata | None = None) -> None:
        metadata = metadata or Metadata()
        self.groups = {group.name: group for group in metadata.broker_groups}
        self.nodes = {node.node_id: node for node in metadata.nodes}
        self.routes = {route.subject: route for route in metadata.routes}
        self.clients: set[ClientSeen] = set()
        self.heartbeats: dict[str, float] = {}
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
        self.groups[group.name] = group

    def save_node(self, node: Node) -> None:
        self.nodes[node.node_id] = node

    def heartbeat(self, name: str, steady_seconds: float, at_ms: int) -> None:
        self.heartbeats[name] = steady_seconds

    def save_clients(self, clients: list[ClientSeen]) -> None:
        self.clients.update(clients)
