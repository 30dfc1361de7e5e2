"""The metadata store in a database. Each object is called from one thread; broken connections are closed."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import DataError, close_old_connections, connection

from metaserver import domain, queries
from metaserver.memory.membership_wishes import MembershipWish
from metaserver.services import broker_groups, memberships, routes
from metaserver.services.changes import METASERVER
from metaserver.stored.write_behind import Unstorable
from qmq_node.replication.rules.membership import Membership

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Connected:
    """Queries on the calling thread's connection."""

    def _run(self, call: Callable[[], T]) -> T:
        close_old_connections()
        try:
            return call()
        except (DataError, ObjectDoesNotExist, ValueError) as error:
            connection.close()
            raise Unstorable(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
        except Exception:
            connection.close()
            raise


class OrmRepository(_Connected):
    def __init__(self) -> None:
        self._own_leases: dict[str, datetime] = {}
        """By node id, the time of the lease that this metaserver stored last."""
        self._own_heartbeat: tuple[str, datetime] | None = None
        """Name and time of the last one. The time alone could be a peer's, stored in the same millisecond."""

    def load(self) -> domain.Metadata:
        return self._run(queries.metadata)

    def version(self) -> domain.MetadataVersion:
        return self._run(queries.metadata_version)

    def changed(self, since: domain.MetadataVersion, until: domain.MetadataVersion) -> domain.MetadataChanges | None:
        return self._run(lambda: queries.changed_metadata(since, until))

    def leases(self) -> domain.Leases:
        found, heartbeats = self._run(lambda: (queries.leases(), queries.metaserver_heartbeats()))
        leases = [
            domain.StoredLease(group, node, _microseconds(at), self._own_leases.get(node.node_id) == at)
            for group, node, at in found
        ]
        self._own_leases = {
            lease.node.node_id: at for lease, (_, _, at) in zip(leases, found, strict=True) if lease.is_own
        }
        peers = {name: _microseconds(at) for name, at in heartbeats.items() if (name, at) != self._own_heartbeat}
        return domain.Leases(tuple(leases), peers)

    def save_route(self, route: domain.Route) -> domain.Route:
        reason = "first registration" if route.version == 1 else "broker groups added"
        return self._run(lambda: routes.save_route(route, actor=METASERVER, reason=reason))

    def save_group(self, group: domain.BrokerGroup, reason: str) -> None:
        self._run(lambda: broker_groups.save_group(group, actor=METASERVER, reason=reason))

    def save_node(self, node: domain.Node) -> None:
        self._own_leases[node.node_id] = self._run(lambda: broker_groups.save_node(node))

    def heartbeat(self, name: str, steady_seconds: float, at_ms: int) -> None:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        self._own_heartbeat = self._run(lambda: broker_groups.save_heartbeat(name, steady_seconds, at)), at

    def save_clients(self, clients: list[domain.ClientSeen]) -> None:
        self._run(lambda: routes.save_clients(clients))

    def consumer_groups(self, after: int, count: int) -> list[domain.StoredConsumerGroup]:
        return self._run(lambda: queries.stored_consumer_groups(after, count))

    def membership_store(self) -> "OrmMembershipStore":
        return OrmMembershipStore()


class OrmMembershipStore(_Connected):
    """The memberships of broker groups in a database: `metaserver.replication.membership_changes.MembershipStore`."""

    def read(self, name: str) -> Membership:
        return self._run(lambda: memberships.stored_membership(name))

    def change(self, name: str, wish: MembershipWish, newest_place: tuple[int, int]) -> Membership:
        why = {memberships.WHY: wish.reason.as_json()}
        return self._run(lambda: memberships.change_membership(name, wish, newest_place, actor=METASERVER, also=why))

    def record_known(self, name: str, place: tuple[int, int]) -> None:
        self._run(lambda: memberships.record_known(name, place))

    def close(self) -> None:
        connection.close()


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
