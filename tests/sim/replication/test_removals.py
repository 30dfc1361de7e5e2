"""Members that are removed while clients send and pull all the time: whole nodes, and a membership that the test changes."""

import asyncio
from dataclasses import replace

from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.group_memberships import MembershipResult
from qmq_node.member.hand_over import PAUSE_SECONDS
from qmq_node.member.role import Member
from qmq_node.replication.rules.members import RemoveMember
from qmq_node.replication.rules.membership import Resignation
from tests.sim.replication.node_traffic import traffic
from tests.sim.replication.pair import PROMOTION, Members, client_of, in_sync, members, send, stored
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async


def remove(group: Members, name: str) -> None:
    """Remove a member, as an operator does."""
    before = group.membership.value
    change = RemoveMember(before.epoch, before.version, name, PROMOTION.format(before.epoch + 1))
    group.membership.value = change.applied_to(before)
    group.announce()


def role(group: Members, name: str) -> ReplicaRole:
    """The role of a node."""
    member: Member = group.broker(name).replication.member
    return member.role


def limitations(group: Members, name: str) -> tuple[str, ...]:
    """Why others are preferred to a node, as it reports."""
    broker = group.broker(name)
    request: NodeRegisterRequest = broker.registration.request(BrokerRequestType.HEARTBEAT)
    return request.limitations


async def test_a_master_whose_last_slave_is_removed_continues_alone() -> None:
    async with members(running_loop(), in_sync_min=1) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        life, process = group.broker("g1-a"), group.hosts["g1-a"].process
        async with traffic(group) as clients:
            remove(group, "g1-b")
            await eventually_async(lambda: group.broker("g1-a").replication.member.is_alone)
        assert (clients.lost, clients.longest < 0.1) == (0, True)
        assert group.broker("g1-a") is life
        assert group.hosts["g1-a"].process is process
        state = life.replication.replica.state
        assert (state.epoch, state.is_only_member, life.log.epoch, life.log.epochs.last_epoch) == (3, True, 3, 3)
        assert role(group, "g1-b") is ReplicaRole.SPARE
        # It resumes without a metaserver, with all that it has.
        group.uninformed |= {"g1-a"}
        group.hosts["g1-a"].kill()
        await group.start("g1-a")
        await eventually_async(lambda: group.is_master("g1-a"))
        async with client_of(group.broker("g1-a")) as client:
            assert set(clients.acknowledged) <= set(await stored(client))
            await send(client, range(100_000, 100_010))


async def test_three_members_become_one_while_clients_send() -> None:
    async with members(running_loop(), 3) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b", "g1-c")
        async with traffic(group) as clients:
            remove(group, "g1-b")
            remove(group, "g1-c")
            await eventually_async(lambda: group.broker("g1-a").replication.member.is_alone)
        assert (clients.lost, clients.longest < 0.1) == (0, True)
        assert [role(group, name) for name in ("g1-b", "g1-c")] == [ReplicaRole.SPARE] * 2


async def test_what_waits_for_a_removed_slave_is_answered() -> None:
    async with members(running_loop(), in_sync_min=1) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        group.membership.is_available = False
        group.hosts["g1-b"].kill()
        broker = group.broker("g1-a")
        async with client_of(broker) as client:
            sending = asyncio.create_task(send(client, range(5)))
            await eventually_async(lambda: broker.log.synced_end > broker.log.high_watermark)
            await asyncio.sleep(10)
            assert not sending.done()
            remove(group, "g1-b")
            assert await stored(client) == await sending


async def test_a_promoted_member_that_does_not_serve_yet_continues_alone() -> None:
    async with members(running_loop(), in_sync_min=1) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        async with client_of(group.broker("g1-a")) as client:
            sent = await send(client, range(20))
        group.hosts["g1-a"].kill()
        row = group.membership
        row.value = Resignation(
            "g1", "g1-a", row.value.epoch, row.value.promotion_id, row.value.version, "g1-b", 0, 0
        ).applied_to(row.value, "g1-b", PROMOTION.format(3))
        row.is_available = False
        group.announce()
        # The old master counts until it is removed.
        await eventually_async(lambda: role(group, "g1-b") is ReplicaRole.PROMOTED)
        await asyncio.sleep(1)
        remove(group, "g1-a")
        await eventually_async(lambda: group.is_master("g1-b"))
        assert role(group, "g1-b") is ReplicaRole.MASTER
        async with client_of(group.broker("g1-b")) as client:
            assert await stored(client) == sent
            await send(client, range(20, 30))


async def test_a_removed_member_that_comes_back_with_its_folder_follows_no_one() -> None:
    async with members(running_loop(), in_sync_min=1) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        remove(group, "g1-b")
        await eventually_async(lambda: group.broker("g1-a").replication.member.is_alone)
        group.hosts["g1-b"].kill()
        await group.start("g1-b")
        await eventually_async(lambda: role(group, "g1-b") is ReplicaRole.SPARE)
        assert not group.is_master("g1-b")


async def test_a_master_that_is_replaced_switches_over_by_itself() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        row = group.membership
        async with traffic(group) as clients:
            row.value = replace(row.value, replaced="g1-a", replacement="g1-b", version=row.value.version + 1)
            group.announce()
            await eventually_async(lambda: group.is_master("g1-b"))
        assert (clients.lost, clients.longest < 1.0) == (2, True)
        await in_sync(group, "g1-a", "g1-b")
        remove(group, "g1-a")
        await eventually_async(lambda: group.broker("g1-b").replication.member.is_alone)


async def test_a_master_that_can_not_hand_over_tries_again_after_a_pause() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        row = group.membership
        row.outcomes = [MembershipResult.REFUSED] * 2
        row.value = replace(row.value, replaced="g1-a", replacement="g1-b", version=row.value.version + 1)
        began, reported = running_loop().now, set[str]()

        def is_replaced() -> bool:
            if group.is_master("g1-a"):
                reported.update(limitations(group, "g1-a"))
            return group.is_master("g1-b")

        await eventually_async(is_replaced, 60)
        assert len(row.resignations) == 3
        assert running_loop().now - began >= 3 * PAUSE_SECONDS
        (why,) = reported
        assert why.startswith("another node is to replace it, but it can't switch over yet: ")
        await in_sync(group, "g1-a", "g1-b")
        assert limitations(group, "g1-a") == limitations(group, "g1-b") == ()


async def test_a_master_that_is_not_to_be_replaced_any_more_has_no_problem() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        row = group.membership
        row.outcomes = [MembershipResult.REFUSED]
        row.value = replace(row.value, replaced="g1-a", replacement="g1-b", version=row.value.version + 1)
        await eventually_async(lambda: limitations(group, "g1-a"), 60)
        row.value = replace(row.value, replaced="", replacement="", version=row.value.version + 1)
        group.announce()
        await eventually_async(lambda: not limitations(group, "g1-a"), 60)
        assert group.is_master("g1-a")
