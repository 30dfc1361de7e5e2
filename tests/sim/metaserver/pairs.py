"""Two metaservers over the same memberships."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from metaserver.choices import GroupKind
from metaserver.server import Metaserver
from qmq.protocol.codes import BrokerRequestType, Command, ResponseCode
from qmq.protocol.group_memberships import (
    ChangeInSyncRequest,
    GroupMembership,
    InSyncChange,
    MembershipResponse,
    ResignRequest,
)
from tests.sim.metaserver.repositories import FaultyRepository
from tests.support.drivers.metaserver_peers import Peer, peer, running
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

HEARTBEAT = BrokerRequestType.HEARTBEAT


@dataclass
class Pair:
    """A metaserver, and a group of a master and a slave that are registered there."""

    repository: FaultyRepository
    clock: ManualClock
    metaserver: Metaserver
    master: Peer
    slave: Peer
    kind: GroupKind = GroupKind.BROKER

    async def heartbeat_of_slave(self) -> None:
        await self.slave.register("g1", "g1-b", kind=self.kind, port=2, boot_id="b", state=4, request_type=HEARTBEAT)

    @property
    def membership(self) -> GroupMembership:
        directory = self.metaserver.directory
        return directory.membership_on_wire(directory.groups["g1"])

    async def change(self, change: InSyncChange, member: str = "g1-b", **values: object) -> MembershipResponse:
        membership = self.membership
        request = ChangeInSyncRequest(
            "g1", "g1-a", membership.epoch, membership.promotion_id, membership.in_sync_version, change, member, "test"
        )
        return await self.call(Command.CHANGE_IN_SYNC, replace(request, **values).encode())  # type: ignore[arg-type]

    async def resign(self, successor: str = "g1-b", *, is_leaving: bool = False) -> MembershipResponse:
        membership = self.membership
        request = ResignRequest(
            "g1",
            "g1-a",
            membership.epoch,
            membership.promotion_id,
            membership.in_sync_version,
            successor,
            500,
            7,
            is_leaving,
        )
        return await self.call(Command.RESIGN, request.encode())

    async def call(self, command: Command, body: bytes) -> MembershipResponse:
        frame = await self.master.caller.call(command, body, timeout_s=20)
        assert frame.code == ResponseCode.SUCCESS
        return MembershipResponse.decode(frame.body)

    async def sent(self, node: Peer, membership: GroupMembership) -> None:
        """Wait until the node was sent this membership as its newest."""
        await eventually_async(lambda: node.pushed and GroupMembership.decode(node.pushed[-1].body) == membership)
        assert {frame.code for frame in node.pushed} == {Command.ROLE}


@asynccontextmanager
async def running_pair(folder: Path, kind: GroupKind = GroupKind.BROKER) -> AsyncIterator[Pair]:
    repository, clock = FaultyRepository(), ManualClock()
    async with running(folder, clock, repository) as metaserver, peer(metaserver) as master, peer(metaserver) as slave:
        pair = Pair(repository, clock, metaserver, master, slave, kind)
        await master.register("g1", kind=kind, boot_id="a", sync_address="10.0.0.1:9")
        await eventually_async(lambda: "g1" in repository.groups)
        await pair.heartbeat_of_slave()
        yield pair
