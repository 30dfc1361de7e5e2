"""Broker groups of several members."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

from broker_node.broker import Broker
from metaserver.domain import columns
from metaserver.server import Metaserver
from qmq_node.replication.rules.membership import Membership, UncleanPromotion
from tests.sim.replication.pair import client_of, comparable, send
from tests.sim.world.cluster import Cluster
from tests.sim.world.disk import SimulatedDisk
from tests.sim.world.loop import running_loop
from tests.support.stored_groups import changed
from tests.support.waiting import eventually_async

PROMOTION = "00000000-0000-4000-8000-000000000009"


class Group:
    """A broker group of a cluster, the first one by default."""

    def __init__(self, cluster: Cluster, name: str = "g1") -> None:
        self.cluster = cluster
        self.name = name
        self.hosts = cluster.members(name)
        self.readers = 0

    @property
    def membership(self) -> Membership:
        """As the database has it."""
        return self.cluster.database.stored.groups[self.name].membership

    def broker(self, node: str) -> Broker:
        """A node as it runs now."""
        server = self.hosts[node].server
        assert isinstance(server, Broker)
        return server

    def runs(self, node: str) -> bool:
        return self.hosts[node].server is not None

    @property
    def master(self) -> Broker:
        """The master, once it serves."""
        return self.broker(self.membership.master)

    async def serves(self, *nodes: str) -> None:
        """Wait until one of these nodes serves as master."""
        await eventually_async(
            lambda: (
                self.membership.master in nodes and self.runs(self.membership.master) and not self.master.readiness()
            ),
            60,
        )

    async def in_sync(self, *nodes: str) -> None:
        """Wait until these members are in sync, and the master knows it."""

        def known() -> bool:
            member = self.master.replication.member if self.runs(self.membership.master) else None
            if member is None or set(self.membership.in_sync) != set(nodes):
                return False
            leading = member.leading
            if leading is None:
                return member.is_alone and len(nodes) == 1
            return leading.current_membership.in_sync == self.membership.in_sync

        await eventually_async(known, 60)

    async def all_equal(self) -> None:
        """Wait until all members have the master's log, applied, and compare what follows from it."""
        master = self.master
        brokers = [self.broker(node) for node in self.hosts if self.runs(node)]

        def equal() -> bool:
            end = master.log.synced_end
            return master.log.high_watermark == master.log.gather.records_end == end and all(
                broker.log.synced_end >= end and broker.log.high_watermark >= end for broker in brokers
            )

        await eventually_async(equal, 60)
        states = [comparable(broker.store) for broker in brokers]
        assert all(state == states[0] for state in states)

    def empty_disk(self, node: str) -> None:
        """The node, which does not run, gets a new disk."""
        host = self.hosts[node]
        host.disk = SimulatedDisk(self.cluster.loop, host.name, self.cluster.loop.rng("new disk"), host.weather)

    def set(self, **values: object) -> None:
        """An operator changes the group."""
        memberships = self.cluster.database.stored
        memberships.groups[self.name] = changed(memberships.groups[self.name], **values)
        self.cluster.database.changed(group=self.name)

    def accept_log_loss(self, node: str, log_end: int = 0) -> None:
        """An operator accepts that the log of the only member ends here, as `metaserver.services.broker_groups` does."""
        stored = self.cluster.database.stored
        there = stored.nodes[node]
        stored.nodes[node] = replace(there, log_end=log_end, log_epoch=1, log_end_version=there.log_end_version + 1)
        self.set(loss_id=str(UUID(int=stored.nodes[node].log_end_version)), in_sync_version=self.membership.version + 1)


@asynccontextmanager
async def cluster_of(copies: int = 2, metas: int = 1, **settings: object) -> AsyncIterator[Group]:
    """A broker group with its members in sync."""
    async with Cluster(
        running_loop(), brokers=1, delays=0, copies=copies, metas=metas, broker_settings=settings
    ) as cluster:
        group = Group(cluster)
        await group.in_sync(*group.hosts)
        yield group


async def begun(group: Group, count: int = 20) -> list[str]:
    """Messages that the group's master has acknowledged."""
    async with client_of(group.master) as client:
        await client.begin()
        return await send(client, range(count))


async def received(group: Group) -> list[str]:
    """The IDs of all messages at the master."""
    group.readers += 1
    reader, found = f"reader{group.readers}", list[str]()
    async with client_of(group.master) as client:
        await client.begin(group=reader)
        while (pulled := await client.pull(group=reader, limit=1000, last=len(found) - 1))[1]:
            found += pulled[1]
    return found


async def promoted_by_operator(group: Group, name: str, promotion_id: str = PROMOTION) -> None:
    """An operator promotes a member that runs, as `services.members.promote` does."""
    await eventually_async(lambda: group.runs(name) and group.broker(name).replication.member.membership is not None)
    meta = group.cluster.meta.server
    assert isinstance(meta, Metaserver)
    membership = group.membership
    node, newest = group.broker(name), meta.directory.newest_place("g1")
    change = UncleanPromotion(
        *membership.place, name, node.folder.incarnation, node.replication.boot_id, newest, promotion_id
    )
    stored = columns(change.applied_to(membership))
    group.set(**{
        name: stored[name]
        for name in (
            "epoch", "master", "in_sync", "in_sync_version", "promotion_id", "master_boot_id", "incarnations", "loss_id",
        )
    })  # fmt: skip
