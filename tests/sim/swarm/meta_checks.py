"""What must hold of several metaservers over one database: no group is lost for clients, and all agree after the faults."""

from collections.abc import Iterator
from dataclasses import dataclass

from metaserver.memory.live_groups import EXPIRY_SECONDS, PEER_EXPIRY_SECONDS, LiveGroup
from metaserver.server import Metaserver
from tests.sim.swarm.history import Broken
from tests.sim.world.cluster import Cluster

HEARD_SECONDS = 3.0
"""Longest time between two heartbeats of a node that are received without a pause: two of them may be delayed."""
STEADY_SECONDS = PEER_EXPIRY_SECONDS + EXPIRY_SECONDS
"""A metaserver that has received and stored a node's heartbeats without a pause for so long has made that known to all others."""


@dataclass
class _Hearing:
    """The heartbeats of one group at one process of a metaserver."""

    heartbeat_at: float
    seen_at: float
    since: float
    failures: int


class MetaWatch:
    """Checks all metaservers during a run."""

    def __init__(self) -> None:
        self._hearing: dict[tuple[Metaserver, str], _Hearing] = {}
        self._expired: set[tuple[Metaserver, str]] = set()

    def look(self, cluster: Cluster) -> Iterator[Broken]:
        """No metaserver announces a group as offline for lack of heartbeats while another one receives and stores them."""
        now = cluster.loop.now
        running = [host.server for host in cluster.metas.values() if isinstance(host.server, Metaserver)]
        for metaserver in running:
            for name, live in metaserver.directory.groups.items():
                self._hear(metaserver, name, live, now)
        for metaserver in running:
            for name, live in metaserver.directory.groups.items():
                key = (metaserver, name)
                if not live.is_expired:
                    self._expired.discard(key)
                elif key not in self._expired:
                    self._expired.add(key)
                    for other in running:
                        if other is not metaserver and self._hears(other, name, now):
                            yield Broken("hearing", f"{name} is offline at {metaserver.serving.tcp_address}: {live.reason}; "
                                         f"{other.serving.tcp_address} receives its heartbeats")  # fmt: skip

    def _hear(self, metaserver: Metaserver, name: str, live: LiveGroup, now: float) -> None:
        key, failures = (metaserver, name), metaserver.serving.write_behind.counters.failures
        known = self._hearing.get(key)
        if known is None or failures != known.failures or live.has_left:
            self._hearing[key] = _Hearing(live.heartbeat_at, now, now, failures)
        elif live.heartbeat_at != known.heartbeat_at:
            if now - known.seen_at > HEARD_SECONDS:
                known.since = now
            known.heartbeat_at, known.seen_at = live.heartbeat_at, now

    def _hears(self, metaserver: Metaserver, name: str, now: float) -> bool:
        known = self._hearing.get((metaserver, name))
        live = metaserver.directory.groups.get(name)
        if known is None or live is None or live.is_expired:
            return False
        return now - known.seen_at <= HEARD_SECONDS and now - known.since >= STEADY_SECONDS


def agreement(cluster: Cluster) -> Iterator[Broken]:
    """All metaservers give clients the same: each group's state and address, and each subject's groups."""
    views = {}
    for name, host in cluster.metas.items():
        if not isinstance(host.server, Metaserver):
            yield Broken("agreement", f"{name} does not run")
            continue
        directory = host.server.directory
        views[name] = {
            **{
                group: (str(live.state), live.node.address if live.node is not None else "")
                for group, live in directory.groups.items()
            },
            **{f"subject {subject}": sorted(route.broker_groups) for subject, route in directory.routes.items()},
        }
    first, *others = views.items()
    for name, view in others:
        for key in sorted(first[1].keys() | view.keys()):
            if first[1].get(key) != view.get(key):
                yield Broken("agreement", f"{key} is {first[1].get(key)} at {first[0]} and {view.get(key)} at {name}")
