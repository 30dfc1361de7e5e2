"""What an operator decides in a run with slaves: a promotion that accepts loss, and what the members that have more do then."""

import asyncio
from dataclasses import replace
from uuid import UUID

from qmq.protocol.codes import ReplicaRole
from qmq_node.replication.rules.membership import UncleanPromotion
from tests.sim.slaves.disks import DiskFaults
from tests.sim.slaves.late_groups import LateGroups
from tests.sim.slaves.member_logs import durable_incarnation, durable_state
from tests.sim.world.cluster import Host, MemberNode

REMOVED_SECONDS = 8.0
"""A slave that does not run is removed from the in-sync set within this, if the master and a metaserver run."""
REPORT_SECONDS = 5.0
"""A node that starts reports to a metaserver within this."""
UNFIT_ROLES = (ReplicaRole.COPYING, ReplicaRole.FAILED, ReplicaRole.SPARE)


class Decisions(DiskFaults):
    """Makes the decisions."""

    late_groups: LateGroups | None = None
    """Makes consumer groups that the loss takes."""
    _is_deciding = False
    """Only one promotion is prepared at a time."""

    async def accepted_loss(self) -> None:
        """All members in sync are away, and an operator promotes one that is behind."""
        if self._is_deciding or self.watch.damaged or len(self.watch.hosts) < 2:
            return
        self._is_deciding = True
        try:
            await self._accept_loss()
        finally:
            self._is_deciding = False

    async def _accept_loss(self) -> None:
        behind = self._rng.choice(self._slaves())
        node, others = self._node_id(behind), [host for host in self.watch.hosts.values() if host is not behind]
        self.note(f"{behind.name} is to be promoted although it lacks messages")
        behind.kill()
        for _ in range(round(REMOVED_SECONDS)):
            await asyncio.sleep(1.0)
            if self.watch.membership is not None and node not in self.watch.membership.in_sync:
                break
        if self.late_groups is not None:
            await self.late_groups.make(self._master())
        await asyncio.sleep(self._rng.uniform(0.0, 2.0))
        for host in others:
            host.kill()
        await self._start_later(behind, 0.1)
        await asyncio.sleep(REPORT_SECONDS)
        if not self.watch.damaged and all(host.process is None for host in others) and self._can_lead(behind):
            self.promote(node)
        await asyncio.gather(*(self._start_later(host, self._rng.uniform(0.1, 4.0)) for host in others))

    def _can_lead(self, host: Host) -> bool:
        """Whether the service would promote the node: the database can be reached and has it as a member, which it may not
        have after a restore, and the node reports and has no problem."""
        database, newest = self._cluster.database, self.watch.membership
        if not isinstance(host.server, MemberNode) or database.is_away or newest is None:
            return False
        if self._node_id(host) not in database.stored.groups[newest.broker_group].membership.members:
            return False
        member = host.server.replication.member
        return (
            member.role not in UNFIT_ROLES
            and member.membership is not None
            and not host.server.folder.replica.state.is_new
        )

    def _may_restore_database(self) -> bool:
        """Whether a member has stored the epoch of the newest promotion (docs/failover.md, "Assumptions"). Until then only the
        database knows one that an operator made."""
        membership = self.watch.membership
        return membership is None or any(
            durable_state(host).epoch >= membership.epoch for host in self.watch.hosts.values()
        )

    def promote(self, node: str) -> None:
        """Promote a member, as `services.members.promote` does; what it lacks is lost."""
        database, newest = self._cluster.database, self.watch.membership
        server = self.watch.hosts[node].server
        assert newest is not None
        assert isinstance(server, MemberNode)
        stored = database.stored.groups[newest.broker_group]
        membership, end = stored.membership, server.log.written_end
        promotion_id = str(UUID(int=self._rng.getrandbits(128)))
        incarnation = durable_incarnation(self.watch.hosts[node])
        known = max(newest.place, membership.known_place)
        promotion = UncleanPromotion(
            membership.epoch, membership.version, node, incarnation, server.replication.boot_id, known, promotion_id
        )
        changed = promotion.applied_to(membership)
        self.note(f"an operator promotes {node}, whose log ends at {end} of {len(self.watch.committed)}")
        self.watch.accept_loss(node, end, changed)
        if self.late_groups is not None:
            self.late_groups.loss_accepted()
        database.stored.groups[newest.broker_group] = stored.with_membership(changed)
        if (known := database.stored.nodes.get(node)) is not None:
            database.stored.nodes[node] = replace(
                known, log_end=end, log_epoch=server.log.epochs.last_epoch, log_end_version=known.log_end_version + 1
            )
        database.changed(group=newest.broker_group)

    async def repair(self) -> None:
        """Replace the disks of members that stopped with an alarm, or whose disk is damaged, once another member has everything."""
        for node, host in self.watch.hosts.items():
            server = host.server
            has_failed = isinstance(server, MemberNode) and server.replication.member.role is ReplicaRole.FAILED
            if (has_failed or node in self.watch.damaged) and self.may_lose(node):
                await self.replace_disk(node)
                await self._start_later(host, 0.1)
        if self.watch.membership is None:
            return
        in_sync = self.watch.in_sync_nodes()
        if not in_sync:
            self._replace_lost_set()
        elif in_sync <= self.watch.damaged | self._copying() and not any(
            broker.replication.is_serving for broker in self._brokers().values()
        ):
            self._replace_damaged_set()

    def _replace_lost_set(self) -> None:
        """Promote a member that has everything if the disks of all in sync are lost.

        A master may have requested the removal of its last slave before it lost its disk, and that is stored later.
        """
        end = len(self.watch.committed)
        for node, host in self.watch.hosts.items():
            if self._can_lead(host) and self.watch.has_committed(host, 0, end):
                self.promote(node)
                return

    def _replace_damaged_set(self) -> None:
        """Promote the member with the longest log: no member in sync can lead, because their logs are damaged or discarded.

        When the last one was damaged, another member had everything. It was removed from the set since, and lacks what came then.
        Or an operator has promoted a member that discarded its log before it knew.
        """
        nodes = [
            (broker.log.written_end, node)
            for node, broker in self._brokers().items()
            if node not in self.watch.damaged - self.watch.rejoining and self._can_lead(self.watch.hosts[node])
        ]
        if nodes:
            self.promote(max(nodes)[1])

    def _brokers(self) -> dict[str, MemberNode]:
        """The members that run."""
        return {node: host.server for node, host in self.watch.hosts.items() if isinstance(host.server, MemberNode)}
