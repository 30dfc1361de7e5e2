"""Nodes and folders that do not belong to a group, and wrong clocks: members of the group notice nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace

import pytest

from broker_node.broker import Broker
from metaserver.memory.live_groups import EXPIRY_SECONDS
from qmq.errors import SettingError
from qmq.protocol.codes import Command, ReplicaRole, ResponseCode
from qmq.protocol.frames import FLAG_ONE_WAY, Frame
from qmq.protocol.group_memberships import InSyncChange, MembershipResponse, MembershipResult
from qmq_node.log.atomic_file import read_file, replace_file
from qmq_node.member.membership_client import MembershipClient
from qmq_node.node.data_dir import DataDirOwner
from qmq_node.replication.rules.membership import ChangeInSync, Membership
from tests.sim.replication.groups import Group, begun, cluster_of, received
from tests.sim.replication.pair import client_of, send
from tests.sim.world.cluster import SMALL, Host
from tests.support.drivers.in_process import message
from tests.support.waiting import eventually_async

HOUR_MS = 3_600_000
GROUP_MEMBERSHIP = Membership("g1", ("a", "b"), "a", ("a",), 3, 8, "")
OWNER = "/g1-b/node.json"


@asynccontextmanager
async def undisturbed(group: Group) -> AsyncIterator[None]:
    """The membership stays as it is, no session of a slave ends, and the group stores messages."""
    sent = await begun(group)
    membership, counters = group.membership, group.master.replication.member.leading
    assert counters is not None
    sessions, ended = counters.counters.sessions, dict(counters.counters.ended_sessions)
    yield
    assert group.membership == membership
    assert (counters.counters.sessions, dict(counters.counters.ended_sessions)) == (sessions, ended)
    assert counters.counters.alarms == 0
    async with client_of(group.master) as client:
        sent += await send(client, range(100, 105))
    assert await received(group) == sent
    await group.all_equal()


def server_of(host: Host) -> Broker:
    """The node of a host that has started."""
    assert isinstance(host.server, Broker)
    return host.server


@asynccontextmanager
async def stranger(group: Group, name: str, node_id: str) -> AsyncIterator[Broker]:
    """Another process with the id of a member, on a machine of its own, in the group `name`."""
    host = group.cluster.broker(name, "z", {**SMALL, "node_id": node_id})
    host.start()
    try:
        await host.has_started.wait()
        yield server_of(host)
    finally:
        host.kill()


@pytest.mark.parametrize("node_id", ["g1-a", "g1-b"])
async def test_a_second_process_with_the_id_of_a_member_gets_no_membership(node_id: str) -> None:
    async with cluster_of() as group, undisturbed(group), stranger(group, "g1", node_id) as second:
        for _ in range(round(2 * EXPIRY_SECONDS)):
            await asyncio.sleep(1.0)
            assert f"node {node_id} of group g1 is registered at" in second.readiness()
        assert (second.replication.member.role, second.replication.member.membership) == (ReplicaRole.WAITING, None)


async def test_the_id_of_a_member_is_not_moved_to_another_group() -> None:
    async with cluster_of() as group:
        async with undisturbed(group), stranger(group, "g2", "g1-b") as moved:
            await asyncio.sleep(EXPIRY_SECONDS)
            assert "node id g1-b is a member of broker group g1" in moved.readiness()
        # Not even when it is gone: its group needs it.
        group.hosts["g1-b"].kill()
        await eventually_async(lambda: group.membership.in_sync == ("g1-a",), 60)
        async with stranger(group, "g2", "g1-b") as moved:
            await asyncio.sleep(2 * EXPIRY_SECONDS)
            assert "node id g1-b is a member of broker group g1" in moved.readiness()
            assert "g2" not in group.cluster.database.stored.groups
        group.hosts["g1-b"].start()
        await group.in_sync("g1-a", "g1-b")


async def test_a_node_beyond_the_copies_says_why_it_is_no_member() -> None:
    async with cluster_of() as group, undisturbed(group), stranger(group, "g1", "g1-z") as spare:
        await eventually_async(lambda: spare.replication.member.role is ReplicaRole.SPARE)
        await eventually_async(lambda: "which has all of its 2 copies; raise `copies`" in spare.readiness())
        assert not spare.log.written_end


async def test_a_folder_of_another_group_is_not_used() -> None:
    async with cluster_of(3) as group:
        host = group.hosts["g1-b"]
        host.kill()
        await eventually_async(lambda: group.membership.in_sync == ("g1-a", "g1-c"), 60)
        own = read_file(host.disk, OWNER, 1000)
        assert own is not None
        async with undisturbed(group):
            replace_file(host.disk, OWNER, [own.replace(b'"g1"', b'"g2"')])
            host.start()
            await eventually_async(lambda: bool(host.exits), 60)
            (error,) = host.exits[:1]
            assert isinstance(error, SettingError)
            assert "belongs to broker g1-b of group g2, not to broker g1-b of group g1" in str(error)
            host.kill()
            replace_file(host.disk, OWNER, [own])
        assert asdict(DataDirOwner("broker", "g1", "g1-b"))["broker_group"].encode() in own
        host.start()
        await group.in_sync("g1-a", "g1-b", "g1-c")


@pytest.mark.parametrize("name", ["g1", "g1-b", "meta"])
async def test_a_clock_that_steps_changes_neither_membership_nor_sessions(name: str) -> None:
    async with cluster_of() as group, undisturbed(group), client_of(group.master) as client:
        clock = group.cluster.hosts[name].clock
        for number, offset_ms in enumerate((HOUR_MS, 0, -HOUR_MS, 0, *(30_000, -30_000) * 3)):
            sending = asyncio.create_task(client.send(message(200 + number, subject="during")))
            await asyncio.sleep(0)
            clock.offset_ms = offset_ms
            assert await sending == {}
            await asyncio.sleep(2.0)


@pytest.mark.parametrize("offset_ms", [HOUR_MS, -HOUR_MS])
async def test_with_wrong_clocks_a_slave_copies_and_a_master_is_replaced(offset_ms: int) -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        group.hosts["g1-b"].kill()
        group.empty_disk("g1-b")
        for name, factor in (("g1", 1), ("g1-b", -1), ("meta", -2)):
            group.cluster.hosts[name].clock.offset_ms = factor * offset_ms
        await eventually_async(lambda: group.membership.in_sync == ("g1-a",), 60)
        group.hosts["g1-b"].start()
        await group.in_sync("g1-a", "g1-b")
        for host in group.hosts.values():
            host.clock.offset_ms = 0
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        group.hosts["g1-a"].start()
        await group.in_sync("g1-a", "g1-b")
        assert await received(group) == sent
        await group.all_equal()


async def test_memberships_of_another_group_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster_of() as group, undisturbed(group):
        for node in group.hosts:
            broker = group.broker(node)
            assert broker.replication.member.membership is not None
            membership = replace(broker.replication.member.membership, broker_group="g2", epoch=9, master="g1-b")
            body = bytearray(membership.encode())
            broker.registration.pushed(Frame(Command.ROLE, 1, 0, FLAG_ONE_WAY, Command.ROLE, memoryview(body), body, 0))
            assert broker.registration.metaservers is not None
            answer = broker.registration.metaservers.sessions[0].last
            assert answer is not None
            broker.registration.registered(replace(answer, membership=membership))
            await asyncio.sleep(1.0)
            assert broker.replication.member.membership.broker_group == "g1"
        text = "a metaserver sent the membership of broker group g2 to a node of g1; it is ignored"
        assert caplog.text.count(text) == len(group.hosts), "once by each node, and not for each repetition"


async def test_the_membership_of_another_group_is_no_answer_to_a_change(caplog: pytest.LogCaptureFixture) -> None:
    class Session:
        """A metaserver that answers with the membership of g2."""

        url, is_closed = "http://meta", False

        def in_order(self) -> list["Session"]:
            return [self]

        @property
        def caller(self) -> "Session":
            return self

        async def call(self, command: int, body: bytes, *, timeout_s: float) -> Frame:
            membership = replace(GROUP_MEMBERSHIP, broker_group="g2").sent("")
            answer = bytearray(MembershipResponse(MembershipResult.DONE, "", membership).encode())
            return Frame(ResponseCode.SUCCESS, 1, 0, 0, command, memoryview(answer), answer, 0)

    change = ChangeInSync("g1", "a", 3, "", 7, InSyncChange.REMOVE, "b")
    requests = MembershipClient("g1", Session)  # type: ignore[arg-type]
    assert await requests.change_in_sync(change, "test") == (MembershipResult.UNAVAILABLE, None)
    requests = MembershipClient("g2", Session)  # type: ignore[arg-type]
    assert await requests.change_in_sync(change, "test") == (
        MembershipResult.DONE,
        replace(GROUP_MEMBERSHIP, broker_group="g2"),
    )
