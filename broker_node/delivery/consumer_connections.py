"""The connection of each consumer, for the operators' pages."""

from qmq_node.server.connection import Connection

ADDRESSES_MAX = 100_000
"""Most consumer ids recorded; further ones have no address until others disconnect."""


class ConsumerConnections:
    """Open connections by consumer id; closed ones are removed at once."""

    def __init__(self) -> None:
        self._connections: dict[str, Connection] = {}
        self._ids: dict[Connection, set[str]] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def note(self, consumer_id: str, connection: Connection) -> None:
        """Record that a consumer sent a request on a connection."""
        before = self._connections.get(consumer_id)
        if before is connection or connection.is_closed:
            return
        if before is not None:
            self._ids[before].discard(consumer_id)
        elif len(self._connections) >= ADDRESSES_MAX:
            return
        ids = self._ids.get(connection)
        if ids is None:
            ids = self._ids[connection] = set()
            connection.on_close(lambda: self._closed(connection))
        ids.add(consumer_id)
        self._connections[consumer_id] = connection

    def find(self, consumer_id: str) -> str | None:
        """Returns `host:port` of a consumer; None without an open connection that is recorded."""
        connection = self._connections.get(consumer_id)
        return connection.peer if connection is not None and not connection.is_closed else None

    def _closed(self, connection: Connection) -> None:
        for consumer_id in self._ids.pop(connection, ()):
            self._connections.pop(consumer_id, None)
