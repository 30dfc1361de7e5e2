"""Whole broker nodes of one group on simulated hosts, and its membership, which a test sets by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from broker_node.storage.store import MessageStore
from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from qmq.protocol.group_memberships import GroupMembership, MembershipResponse, MembershipResult
from qmq_node.daemon.options import NodeOptions
from qmq_node.log.atomic_file import replace_file
from qmq_node.node.node import Node
from qmq_node.process.machine import Machine
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.membership import ChangeInSync, ChangeRejected, Membership, Promotion, Resignation
from qmq_node.replication.rules.roles import ReplicaState
from tests.sim.world.cluster import SMALL, SYNC_SECRET, Cluster, Host
from tests.sim.world.loop import SimulatedLoop
from tests.support.drivers.in_process import Client, connected, message
from tests.support.drivers.replicas import state_of
from tests.support.waiting import eventually_async

BROKERS = (Broker, BrokerOptions)
DELAY_NODES = (DelayNode, DelayOptions)
NAMES = ("g1-a", "g1-b", "g1-c")
FIRST_PORT = 30_100
HEARTBEAT_SECONDS = 0.5
PROMOTION = "00000000-0000-4000-8000-{:012d}"


def incarnation_of(name: str) -> str:
    """Return the incarnation of a node's data folder."""
    return f"{NAMES.index(name):016x}"


class Row:
    """The membership of the group, as the database has it."""

    def __init__(self, members: tuple[str, ...], in_sync_min: int) -> None:
        incarnations = tuple(map(incarnation_of, members))
        self.value = Membership("g1", members, "", members, 1, 0, "", in_sync_min, incarnations=incarnations)
        self.resignations: list[Resignation] = []
        """Those that were requested."""
        self.outcomes: list[MembershipResult] = []
        """Of the next resignations: REFUSED, or UNAVAILABLE, which is done and its answer lost."""
        self.sync_address: Callable[[str], str] = lambda name: ""
        """Where slaves of a node connect to."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after a resignation."""
        self.is_available = True
        """Whether the database responds. Otherwise the membership stays as it is, and the results of requests are unknown."""

    async def request(self, change: ChangeInSync, reason: str) -> tuple[MembershipResult, Membership | None]:
        """As the metaserver answers CHANGE_IN_SYNC."""
        await asyncio.sleep(0.002)
        if not self.is_available:
            return MembershipResult.UNAVAILABLE, None
        try:
            self.value = change.applied_to(self.value)
        except ChangeRejected as rejected:
            return (MembershipResult.STALE if rejected.is_stale else MembershipResult.REFUSED), self.value
        return MembershipResult.DONE, self.value

    async def resign(self, resignation: Resignation) -> MembershipResponse:
        """As the metaserver answers RESIGN."""
        self.resignations.append(resignation)
        await asyncio.sleep(0.002)
        if not self.is_available:
            return MembershipResponse(MembershipResult.UNAVAILABLE, "the database does not respond")
        outcome = self.outcomes.pop(0) if self.outcomes else MembershipResult.DONE
        if outcome is MembershipResult.REFUSED:
            return MembershipResponse(MembershipResult.REFUSED, "not now", self.sent())
        try:
            self.value = resignation.applied_to(
                self.value, resignation.successor, PROMOTION.format(self.value.epoch + 1)
            )
        except ChangeRejected as rejected:
            result = MembershipResult.STALE if rejected.is_stale else MembershipResult.REFUSED
            return MembershipResponse(result, str(rejected), self.sent())
        self.on_change()
        if outcome is MembershipResult.UNAVAILABLE:
            return MembershipResponse(MembershipResult.UNAVAILABLE, "the answer was lost")
        return MembershipResponse(MembershipResult.DONE, "", self.sent())

    def sent(self) -> GroupMembership:
        """The membership as metaservers send it to nodes."""
        membership = self.value
        return membership.sent(self.sync_address(membership.master), tuple(map(self.sync_address, membership.members)))

    def promote(self, candidate: str) -> None:
        """Begin the next epoch."""
        membership = self.value
        promotion = Promotion(
            *membership.place, candidate, candidate, membership.epoch + 1, PROMOTION.format(membership.epoch + 1)
        )
        self.value = promotion.applied_to(membership)


class Members:
    """The nodes of one broker group."""

    def __init__(
        self,
        cluster: Cluster,
        count: int = 2,
        in_sync_min: int = 2,
        *,
        kind: tuple[type[Node], type[NodeOptions]] = BROKERS,
        **settings: Any,
    ) -> None:
        self.cluster = cluster
        self._kind = kind
        self._settings = {**SMALL, **settings}
        self.membership = Row(NAMES[:count], in_sync_min)
        self.membership.sync_address = self._sync_address
        self.membership.on_change = self.announce
        self.uninformed: set[str] = set()
        """Nodes to which no metaserver sends the membership."""
        self.hosts: dict[str, Host] = {}
        for number, name in enumerate(NAMES[:count]):
            self.hosts[name] = self._host(name, FIRST_PORT + 10 * number)

    def _host(self, name: str, port: int) -> Host:
        node_class, options_class = self._kind
        options = options_class(
            broker_group="g1", node_id=name, data_dir=f"/{name}", port=port, admin_port=port + 1, sync_port=port + 2,
            sync_token=SYNC_SECRET, meta="", **self._settings,
        )  # fmt: skip

        def make(host: Host, machine: Machine) -> Node:
            machine.disk.make_dir(options.data_dir)
            replace_file(machine.disk, f"{options.data_dir}/incarnation", [incarnation_of(name).encode()])
            state = ReplicaStateFile(machine.disk, options.data_dir)
            state.load()
            if not state.is_stored:
                state.save(ReplicaState(is_only_member=False))
            node = node_class(options, machine)
            assert isinstance(node, Broker | DelayNode)
            # The membership that a test sets by hand has it promoted whether it starts again or not.
            node.replication.shell.boot_id = name
            client = node.replication.shell.membership_client
            client.change_in_sync = self.membership.request  # type: ignore[method-assign]
            client.resign = self.membership.resign  # type: ignore[method-assign]
            return node

        return Host(self.cluster, name, port, make)

    def broker(self, name: str) -> Broker:
        """The broker as it runs now."""
        server = self.hosts[name].server
        assert isinstance(server, Broker)
        return server

    def node(self, name: str) -> Broker | DelayNode:
        """The node as it runs now."""
        server = self.hosts[name].server
        assert isinstance(server, Broker | DelayNode)
        return server

    def _sync_address(self, name: str) -> str:
        return f"127.0.0.1:{self.hosts[name].port + 2}" if name else ""

    async def start(self, *names: str) -> None:
        """Start nodes, and wait until they wait for the membership."""
        for name in names or self.hosts:
            self.hosts[name].start()
        for name in names or self.hosts:
            await self.hosts[name].has_started.wait()

    async def heartbeats(self) -> None:
        """Send the membership to all nodes, as metaservers answer heartbeats."""
        while True:
            self.announce()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def announce(self) -> None:
        """Send the membership to all nodes that run."""
        membership = self.membership.sent()
        for name, host in self.hosts.items():
            if name in self.uninformed or not membership.master:
                continue
            if host.server is not None and (member := self.node(name).replication.member) is not None:
                member.learned(membership)

    async def promote(self, name: str) -> None:
        """Promote a member, and wait until it serves."""
        self.membership.promote(name)
        self.announce()
        await eventually_async(lambda: self.is_master(name), 60)

    def is_master(self, name: str) -> bool:
        """Whether a node serves clients."""
        host = self.hosts[name]
        return host.server is not None and not self.node(name).readiness()

    def master_knows_membership(self) -> bool:
        """Whether the master, if it leads, has acted on the present membership."""
        host, membership = self.hosts[self.membership.value.master], self.membership.value
        leading = self.node(membership.master).replication.member.leading if host.server is not None else None
        return leading is None or leading.current_membership.place == membership.place

    async def all_equal(self) -> None:
        """Wait until all nodes that run have the master's log, applied."""
        master = self.node(self.membership.value.master)

        def equal() -> bool:
            end = master.log.synced_end
            others = [self.node(name) for name in self.hosts if self.hosts[name].server is not None]
            return master.log.high_watermark == master.log.gather.records_end == end and all(
                node.log.synced_end >= end and node.log.high_watermark >= end for node in others
            )

        await eventually_async(equal, 60)

    def states(self) -> list[object]:
        """What follows from the log, of each node that runs; without when it was derived."""
        found = []
        for name, host in self.hosts.items():
            if host.server is not None:
                state = comparable(self.broker(name).store)
                found.append(state)
        return found


def comparable(store: MessageStore) -> dict[str, object]:
    """The state of a store without where its log stands: seals move that."""
    state = state_of(store)
    del state["position"]
    return state


@asynccontextmanager
async def members(
    loop: SimulatedLoop,
    count: int = 2,
    in_sync_min: int = 2,
    *,
    starts: Sequence[str] = (),
    kind: tuple[type[Node], type[NodeOptions]] = BROKERS,
    **settings: Any,
) -> AsyncIterator[Members]:
    """Nodes of one group that wait for its membership.

    Args:
        starts: those that are started; default: all.
    """
    cluster = Cluster(loop, brokers=0, delays=0)
    found = Members(cluster, count, in_sync_min, kind=kind, **settings)
    await found.start(*starts)
    heartbeats = asyncio.create_task(found.heartbeats())
    try:
        yield found
    finally:
        heartbeats.cancel()
        for host in found.hosts.values():
            host.kill()
        cluster.assert_loops_clean()


async def in_sync(group: Members, *names: str) -> None:
    """Wait until these members are in sync, and the master knows it."""
    await eventually_async(lambda: group.membership.value.in_sync == names and group.master_knows_membership(), 60)


@asynccontextmanager
async def client_of(node: Broker | DelayNode) -> AsyncIterator[Client]:
    """A client that is connected to a master."""
    async with connected(node) as client:
        yield client


async def stored(client: Client, group: str = "reader") -> list[str]:
    """The IDs of all messages, as a new consumer group receives them."""
    await client.begin(group=group)
    found: list[str] = []
    while (pulled := await client.pull(group=group, limit=1000, last=len(found) - 1))[1]:
        found += pulled[1]
    return found


__all__ = ["Members", "client_of", "comparable", "in_sync", "members", "replace", "stored"]


async def send(client: Client, numbers: range) -> list[str]:
    """Send messages; their IDs once all are acknowledged."""
    assert await client.send(*(message(number) for number in numbers)) == {}
    return [f"m{number}" for number in numbers]
