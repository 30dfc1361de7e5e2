"""Switch-overs of whole nodes while clients send and pull all the time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_node.broker import Broker
from qmq.errors import ConnectionLost
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.codes import Command
from qmq.protocol.group_memberships import MembershipResult
from qmq_node.replication import switch_overs
from qmq_node.replication.switch_overs import (
    DRAIN_SECONDS,
    OUTCOME_SECONDS,
    STOP_SECONDS_MAX,
    SUCCESSOR_SECONDS,
    SwitchOverRejected,
    SwitchOverUnknown,
)
from tests.sim.replication.groups import begun, cluster_of
from tests.sim.replication.node_traffic import traffic
from tests.sim.replication.pair import Members, client_of, in_sync, members
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import message
from tests.support.waiting import eventually_async


def admin(broker: Broker) -> NodeAdmin:
    """The admin pages of a node."""
    return NodeAdmin("{}:{}".format(*broker.admin.address), timeout_seconds=20)


@asynccontextmanager
async def ready(count: int = 2, in_sync_min: int = 2) -> AsyncIterator[Members]:
    """A group whose first node is the master, and all others are in sync."""
    async with members(running_loop(), count, in_sync_min) as group:
        await group.promote("g1-a")
        await in_sync(group, *group.hosts)
        async with client_of(group.broker("g1-a")) as client:
            await client.begin()
        yield group


@pytest.mark.parametrize("count", [2, 3])
async def test_a_switch_over_loses_rejects_and_repeats_nothing(count: int) -> None:
    async with ready(count) as group:
        old = group.broker("g1-a")
        async with traffic(group) as clients:
            saved = old.checkpoints.saved
            answer = await group.broker("g1-a").replication.switch_over("g1-b")
            assert (answer["from"], answer["to"], answer["epoch"]) == ("g1-a", "g1-b", 3)
            assert answer["held_seconds"] < 0.2
            await eventually_async(lambda: group.is_master("g1-b"))
        assert clients.lost == 2, "each client once"
        assert clients.longest < 1.0
        resignation = group.membership.resignations[0]
        assert (resignation.successor, resignation.is_leaving) == ("g1-b", False)
        assert group.broker("g1-b").log.stored.read_crc_at(resignation.end) == resignation.crc
        assert group.membership.value.in_sync == tuple(group.hosts)
        assert group.hosts["g1-a"].exits == [], "the process does not end"
        assert group.hosts["g1-a"].starts in (2, 3), "once more if it alone has the last seal"
        assert old.checkpoints.saved == saved + 1
        assert group.broker("g1-a").data.recovery.loaded_offset > 0, (
            "it replays little, so that its successor serves soon"
        )
        await group.all_equal()
        states = group.states()
        assert all(state == states[0] for state in states)


async def test_back_and_forth() -> None:
    async with ready() as group:
        async with traffic(group) as clients:
            for _ in range(3):
                for old, new in (("g1-a", "g1-b"), ("g1-b", "g1-a")):
                    assert (await group.broker(old).replication.switch_over(""))["to"] == new
                    await eventually_async(lambda new=new: group.is_master(new))  # type: ignore[misc]
                    await asyncio.sleep(0.5)
        assert clients.longest < 1.0


async def test_the_slave_that_takes_over_is_named_or_the_one_that_has_most() -> None:
    async with ready(3) as group:
        master = group.broker("g1-a")
        with pytest.raises(
            SwitchOverRejected, match=r"node g1-x is no slave of broker group g1: its slaves are g1-b, g1-c"
        ):
            await master.replication.switch_over("g1-x")
        with pytest.raises(SwitchOverRejected, match="node g1-a is no slave of broker group g1"):
            await master.replication.switch_over("g1-a")
        with pytest.raises(SwitchOverRejected, match="node g1-b is not a master with slaves"):
            await group.broker("g1-b").replication.switch_over("g1-a")
        group.hosts["g1-b"].kill()
        await in_sync(group, "g1-a", "g1-c")
        with pytest.raises(SwitchOverRejected, match="node g1-b is not connected"):
            await master.replication.switch_over("g1-b")
        assert (await master.replication.switch_over(""))["to"] == "g1-c"
        await eventually_async(lambda: group.is_master("g1-c"))


async def test_without_a_slave_that_can_be_promoted_no_client_is_held() -> None:
    async with ready() as group:
        master = group.broker("g1-a")
        group.hosts["g1-b"].kill()
        await in_sync(group, "g1-a")
        held: list[None] = []
        master.server.hold = lambda: held.append(None)  # type: ignore[method-assign]
        with pytest.raises(SwitchOverRejected, match="node g1-b is not connected"):
            await master.replication.switch_over("")
        assert held == []


@pytest.mark.parametrize("outcome", [MembershipResult.REFUSED, MembershipResult.STALE])
async def test_a_master_whose_resignation_is_refused_serves_again_at_once(outcome: MembershipResult) -> None:
    async with ready(3) as group:
        master = group.broker("g1-a")
        async with traffic(group) as clients:
            if outcome is MembershipResult.REFUSED:
                group.membership.outcomes = [MembershipResult.REFUSED]
            else:
                # The membership was changed, and the node does not know it yet.
                membership = group.membership.value
                group.membership.value = membership.with_in_sync(frozenset(membership.in_sync) - {"g1-b"})
            began = running_loop().now
            with pytest.raises(SwitchOverRejected, match=r"not now|node g1-b is not in sync"):
                await master.replication.switch_over("g1-b")
            assert running_loop().now - began < 0.5
        assert clients.lost == 0
        assert group.is_master("g1-a")
        assert group.membership.value.epoch == 2


async def test_a_resignation_for_an_older_membership_is_repeated_for_the_newer_one() -> None:
    async with ready(3) as group:
        membership = group.membership.value
        group.membership.value = membership.with_in_sync(frozenset(membership.in_sync) - {"g1-c"})
        await group.broker("g1-a").replication.switch_over("g1-b")
        assert [one.in_sync_version for one in group.membership.resignations] == [
            membership.version,
            membership.version + 1,
        ]
        await eventually_async(lambda: group.is_master("g1-b"))


async def test_a_resignation_whose_answer_is_lost_is_resolved_by_the_next_request() -> None:
    async with ready() as group:
        group.membership.on_change = lambda: None
        group.uninformed = {"g1-a"}
        group.membership.outcomes = [MembershipResult.UNAVAILABLE]
        async with traffic(group) as clients:
            switching = asyncio.create_task(group.broker("g1-a").replication.switch_over(""))
            assert (await switching)["to"] == "g1-b"
            assert len(group.membership.resignations) == 2
            group.uninformed.clear()
            await eventually_async(lambda: group.is_master("g1-b"))
        assert clients.longest < 2.0


async def test_while_the_database_is_away_a_master_serves_again_after_a_limited_time() -> None:
    assert (DRAIN_SECONDS, OUTCOME_SECONDS) == (2.0, 2.0)
    async with ready() as group:
        master = group.broker("g1-a")
        async with traffic(group) as clients:
            group.membership.is_available = False
            began = running_loop().now
            with pytest.raises(SwitchOverUnknown, match="it is unknown whether the master is changed"):
                await master.replication.switch_over("")
            assert running_loop().now - began == pytest.approx(OUTCOME_SECONDS, abs=0.3)
            acknowledged = len(clients.acknowledged)
            await eventually_async(lambda: len(clients.acknowledged) > acknowledged + 20)
            group.membership.is_available = True
        assert (clients.lost, group.membership.value.master) == (0, "g1-a")


async def test_a_resignation_that_is_executed_later_loses_nothing() -> None:
    async with ready() as group:
        master = group.broker("g1-a")
        async with traffic(group, 3.0) as clients:
            group.membership.is_available = False
            with pytest.raises(SwitchOverUnknown):
                await master.replication.switch_over("")
            acknowledged = len(clients.acknowledged)
            await eventually_async(lambda: len(clients.acknowledged) > acknowledged + 20)
            group.membership.is_available = True
            resignation = group.membership.resignations[-1]
            group.membership.value = resignation.applied_to(
                group.membership.value, resignation.successor, "00000000-0000-4000-8000-000000000003"
            )
            await eventually_async(lambda: group.is_master("g1-b"))
        await group.all_equal()


async def test_a_switch_over_waits_for_requests_in_progress_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_overs, "CHECKPOINT_SECONDS", 0.0)
    async with ready() as group:
        master = group.broker("g1-a")
        async with client_of(master) as client, client_of(master) as waiting:
            pulling = asyncio.create_task(waiting.pull(timeout_ms=25_000))
            await eventually_async(lambda: master.handlers.polls.held == 1)
            # The slave confirms nothing.
            group.membership.is_available = False
            group.hosts["g1-b"].process.pause()  # type: ignore[union-attr]
            sending = asyncio.create_task(client.send(message(0)))
            await eventually_async(lambda: master.server.requests_in_progress == 2)
            began = running_loop().now
            with pytest.raises(SwitchOverRejected, match=r"after 2 s 1 requests are in progress, .* lack \d+ bytes"):
                await master.replication.switch_over("")
            assert running_loop().now - began == pytest.approx(DRAIN_SECONDS, abs=0.3)
            assert await pulling == (-1, []), "it is answered as if its time were up"
            again = asyncio.create_task(waiting.pull(timeout_ms=25_000))
            await eventually_async(lambda: master.handlers.polls.held == 1)
            group.hosts["g1-b"].process.resume()  # type: ignore[union-attr]
            assert await sending == {}
            assert await again == (0, ["m0"])


async def test_a_switch_over_waits_for_records_of_clients_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_overs, "CHECKPOINT_SECONDS", 0.0)
    async with ready() as group:
        master = group.broker("g1-a")
        group.membership.is_available = False
        group.hosts["g1-b"].process.pause()  # type: ignore[union-attr]
        async with client_of(master) as client:
            sending = asyncio.create_task(client.send(message(0)))
            await eventually_async(lambda: master.log.gather.records_end > master.log.high_watermark)
        with pytest.raises(ConnectionLost):
            await sending
        await eventually_async(lambda: not master.server.connections)
        with pytest.raises(SwitchOverRejected, match="after 2 s 0 requests are in progress"):
            await master.replication.switch_over("")
        group.membership.is_available = True
        group.hosts["g1-b"].process.resume()  # type: ignore[union-attr]
        await group.all_equal()
        assert (await master.replication.switch_over(""))["to"] == "g1-b"


async def test_a_switch_over_waits_for_requests_that_do_not_wait_for_the_log() -> None:
    async with ready() as group:
        master = group.broker("g1-a")
        master.handlers.table[Command.CONSUME_MANAGE] = lambda connection, frame: None
        async with client_of(master) as client:
            asking = asyncio.create_task(client.raw(Command.CONSUME_MANAGE, b""))
            await eventually_async(lambda: master.server.requests_in_progress == 1)
            with pytest.raises(SwitchOverRejected, match=r"after 2 s 1 requests are in progress, .* lack 0 bytes"):
                await master.replication.switch_over("")
        with pytest.raises(ConnectionLost):
            await asking


async def test_one_switch_over_at_a_time() -> None:
    async with ready() as group:
        master = group.broker("g1-a")
        group.membership.is_available = False
        first = asyncio.create_task(master.replication.switch_over(""))
        await eventually_async(lambda: group.membership.resignations)
        with pytest.raises(SwitchOverRejected, match="another switch-over of this node is in progress"):
            await master.replication.switch_over("")
        with pytest.raises(SwitchOverUnknown):
            await first


async def test_an_operator_requests_a_switch_over_by_the_admin_page() -> None:
    async with ready() as group:
        master, slave = group.broker("g1-a"), group.broker("g1-b")

        async def refused(broker: Broker, to: str) -> tuple[int, str, str]:
            with pytest.raises(NodeRefused) as refusal:
                await admin(broker).switch_over(to)
            return refusal.value.status, refusal.value.code, str(refusal.value)

        assert await refused(slave, "") == (409, "switch_over.rejected", "node g1-b is not a master with slaves")
        assert (await refused(master, "g1-x"))[:2] == (409, "switch_over.rejected")
        group.membership.is_available = False
        assert (await refused(master, "g1-b"))[:2] == (503, "change.unknown")
        group.membership.is_available = True
        answer = await admin(master).switch_over("g1-b")
        assert answer == {"from": "g1-a", "to": "g1-b", "epoch": 3, "held_seconds": answer["held_seconds"]}
        assert 0 < answer["held_seconds"] < 0.2


# --- stopping --------------------------------------------------------------------------------------------------------


async def test_a_master_that_stops_hands_over_first() -> None:
    async with ready(3) as group:
        async with traffic(group) as clients:
            began = running_loop().now
            await group.hosts["g1-a"].stop()
            assert running_loop().now - began == pytest.approx(SUCCESSOR_SECONDS, abs=0.3)
            assert group.is_master(group.membership.value.master)
        assert clients.longest < 1.0
        resignation = group.membership.resignations[0]
        assert resignation.is_leaving
        assert "g1-a" not in group.membership.value.in_sync


async def test_a_master_without_a_slave_that_can_take_over_stops_at_once() -> None:
    async with ready() as group:
        group.hosts["g1-b"].kill()
        await in_sync(group, "g1-a")
        began = running_loop().now
        await group.hosts["g1-a"].stop()
        assert running_loop().now - began < 0.3
        assert group.membership.resignations == []


async def test_a_master_stops_within_its_time_although_the_database_is_away() -> None:
    assert STOP_SECONDS_MAX == 5.0 > DRAIN_SECONDS + OUTCOME_SECONDS
    async with ready() as group:
        group.membership.is_available = False
        began = running_loop().now
        await group.hosts["g1-a"].stop()
        # Half of stop_seconds, which is 1.
        assert running_loop().now - began == pytest.approx(0.5, abs=0.2)
        group.membership.is_available = True
        await group.promote("g1-b")


async def test_the_master_of_an_empty_log_hands_over() -> None:
    async with cluster_of() as group:
        answer = await group.broker("g1-a").replication.switch_over("")
        assert (answer["from"], answer["to"]) == ("g1-a", "g1-b")
        await group.serves("g1-b")
        await group.in_sync("g1-a", "g1-b")
        assert await begun(group)
