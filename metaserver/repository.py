"""The interface of the metadata store."""

from typing import Protocol

from metaserver.domain import (
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
