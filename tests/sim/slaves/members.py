"""The members of one broker group in a schedule: whether they are as they should be, and a summary of them for failures."""

from metaserver.choices import GroupState
from metaserver.server import Metaserver
from tests.sim.slaves.delay_group import DelayFinalChecks, DelayGroupWatch
from tests.sim.slaves.final_checks import FinalChecks
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm.history import History
from tests.sim.world.cluster import Cluster, Host, MemberNode
from tests.support.stored_groups import changed


class Members:
    """One broker group."""

    def __init__(self, cluster: Cluster, history: History, name: str) -> None:
        self._cluster, self.name = cluster, name
        is_delay = name in cluster.delays
        self.watch = (DelayGroupWatch if is_delay else GroupWatch)(cluster, history, name)
        self.final = (DelayFinalChecks if is_delay else FinalChecks)(cluster, history, self.watch)

    @property
    def is_stored(self) -> bool:
        """Whether the metaservers know the group."""
        return self.name in self._cluster.database.stored.groups

    def set(self, **values: object) -> None:
        """Change the stored membership, as an operator does."""
        stored = self._cluster.database.stored
        group = stored.groups[self.name]
        version = group.membership.version + 1  # as `services.members.set_copies` does
        stored.groups[self.name] = changed(group, in_sync_version=version, **values)
        self._cluster.database.changed(group=self.name)

    def _broker(self, host: Host) -> MemberNode | None:
        return host.server if isinstance(host.server, MemberNode) else None

    def is_well(self, hosts: list[Host] | None = None) -> bool:
        """Whether the group accepts sends, all members are in sync, and all metaservers say so."""
        hosts = hosts or list(self.watch.hosts.values())
        if self.watch.damaged:
            return False
        group = self._cluster.database.stored.groups.get(self.name)
        stored = None if group is None else group.membership
        if stored is None or len(stored.members) != len(hosts) or stored.in_sync != stored.members:
            return False
        master = self._broker(self.watch.hosts[stored.master])
        if (
            master is None
            or not master.replication.is_serving
            or master.readiness()
            or master.registration.refuse_sends()
        ):
            return False
        if any(self._broker(host) is None for host in hosts):
            return False
        for meta in self._cluster.metas.values():
            if not isinstance(meta.server, Metaserver):
                return False
            live = meta.server.directory.groups.get(self.name)
            if live is None or live.state is not GroupState.READ_WRITE or live.node is None:
                return False
            if live.node.node_id != stored.master:
                return False
        return True

    def is_equal(self) -> bool:
        brokers = [self._broker(host) for host in self.watch.hosts.values()]
        stored = self._cluster.database.stored.groups[self.name].membership
        master = self._broker(self.watch.hosts[stored.master])
        if master is None:
            return False
        end = master.log.gather.records_end
        return (
            all(
                broker is not None and broker.log.synced_end >= end and broker.log.high_watermark >= end
                for broker in brokers
            )
            and master.log.high_watermark == end
        )

    def state(self) -> str:
        membership = self._cluster.database.stored.groups[self.name].membership
        parts = [f"membership {membership}"]
        for node, host in self.watch.hosts.items():
            broker = self._broker(host)
            if broker is None:
                parts.append(f"{node} does not run")
                continue
            log, member = broker.log, broker.replication.member
            refusal = broker.registration.refuse_sends() if broker.replication.is_serving else broker.readiness()
            parts.append(
                f"{node} is {member.role.name} ({member.reason}; {refusal}), synced {log.synced_end},"
                f" high watermark {log.high_watermark}"
            )
        for name, meta in self._cluster.metas.items():
            if isinstance(meta.server, Metaserver):
                live = meta.server.directory.groups.get(self.name)
                parts.append(f"{name}: {live.state if live is not None else 'unknown'}")
        return "; ".join(parts)
