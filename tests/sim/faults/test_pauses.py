"""F24, and F22 for nodes without a slave: a process stands still and continues.

Leases, failover and consumer leases in exact seconds.
"""

import asyncio

import pytest

from broker_node.options import BrokerOptions
from metaserver.memory.live_groups import EXPIRY_SECONDS, HEARTBEAT_SECONDS
from metaserver.server import EXPIRE_SECONDS
from qmq.client.acker import HEARTBEAT_SECONDS as CONSUMER_HEARTBEAT_SECONDS
from qmq.protocol.codes import BrokerGroupState
from qmq_node.metaservers.metaserver_session import BACK_OFF_SECONDS
from qmq_node.node.storage import JOB_SECONDS
from tests.sim.faults.scenario import NETWORK_SECONDS, OFFLINE_SECONDS, TIMEOUTS, Scenario, running
from tests.sim.world.cluster import RESTART_SECONDS

PAUSE_SECONDS = 12.0
assert PAUSE_SECONDS > EXPIRY_SECONDS
CONSUMER_LEASE_SECONDS = BrokerOptions.__dataclass_fields__["consumer_lease_seconds"].default
RETRY_DELAY_SECONDS = BrokerOptions.__dataclass_fields__["retry_delay_seconds"].default


async def paused(scenario: Scenario, name: str, seconds: float = PAUSE_SECONDS) -> float:
    """Let a host's process stand still for so long; returns when it continued."""
    client = scenario.clients.get(name)
    process = client.process if client is not None else scenario.host(name).process
    assert process is not None
    process.pause()
    await asyncio.sleep(seconds)
    process.resume()
    return scenario.loop.now


async def test_f24_a_metaserver_that_stood_still_takes_no_live_node_for_dead() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        scenario.add_producer("p2", delay=1.0)
        await asyncio.sleep(3)
        began = scenario.loop.now
        await paused(scenario, "meta")
        await asyncio.sleep(3 * EXPIRY_SECONDS)
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert max(send.seconds for send in scenario.sends) < NETWORK_SECONDS
        assert not scenario.repeated()


async def test_f27_a_metaserver_whose_machine_was_suspended_takes_no_live_node_for_dead() -> None:
    """Unlike a paused process, a suspended machine has received nothing meanwhile: its own pause is all that it knows."""
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(3)
        began = scenario.loop.now
        scenario.cut(*(("meta", name) for name in ("g1", "g2", "d1", "c1", "p1")))
        await paused(scenario, "meta")
        scenario.heal()
        await asyncio.sleep(2 * EXPIRY_SECONDS)
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert max(send.seconds for send in scenario.sends) < NETWORK_SECONDS


async def test_f24_a_node_that_died_while_the_metaserver_stood_still_is_offline_one_expiry_after_its_return() -> None:
    async with running() as scenario:
        routes = scenario.watch_routes()
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(3)
        began = scenario.loop.now
        resuming = asyncio.ensure_future(paused(scenario, "meta"))
        await asyncio.sleep(1)
        scenario.host("g1").kill()
        returned = await resuming
        await asyncio.sleep(EXPIRY_SECONDS)
        assert scenario.changes_since(began) == []
        await asyncio.sleep(EXPIRE_SECONDS + NETWORK_SECONDS)
        assert scenario.changes_since(began) == [("g1", "offline")]
        gone = routes.first(lambda states: "g1" not in states, returned)
        assert returned + EXPIRY_SECONDS <= gone <= returned + EXPIRY_SECONDS + EXPIRE_SECONDS + NETWORK_SECONDS
        # Sends went to the other group at once: clients need no metaserver for that.
        assert max(send.seconds for send in scenario.sends if send.ended) < 0.2
        scenario.host("g1").start()
        await scenario.settle()
        assert not scenario.repeated()


@pytest.mark.parametrize("node", ["g1", "d1"])
async def test_a_killed_node_is_offline_after_exactly_one_expiry_and_back_with_its_first_heartbeat(node: str) -> None:
    async with running() as scenario:
        routes = scenario.watch_routes()
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        scenario.add_producer("p2", delay=1.0)
        await asyncio.sleep(3)
        began = scenario.loop.now
        scenario.host(node).kill()
        last = scenario.heartbeat_at(node)
        assert began - HEARTBEAT_SECONDS - NETWORK_SECONDS < last <= began
        await asyncio.sleep(PAUSE_SECONDS)
        (offline,) = [one.at for one in scenario.changes if one.at > began]
        assert last + EXPIRY_SECONDS < offline <= last + OFFLINE_SECONDS + NETWORK_SECONDS
        started = scenario.loop.now
        scenario.host(node).start()
        await asyncio.sleep(1)
        (online,) = [one.at for one in scenario.changes if one.at > started]
        assert online < started + 2 * NETWORK_SECONDS
        if node == "g1":
            gone = routes.first(lambda states: "g1" not in states, began)
            assert last + EXPIRY_SECONDS < gone <= last + OFFLINE_SECONDS + NETWORK_SECONDS
            back = routes.first(lambda states: states.get("g1") is BrokerGroupState.READ_WRITE, started)
            assert back < started + 2 * NETWORK_SECONDS
        await scenario.settle(may_repeat={send.value for send in scenario.sends if send.due is not None})


async def test_a_node_that_restarts_at_once_keeps_its_group_online() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(2)
        began = scenario.loop.now
        for _ in range(5):
            scenario.host("g1").kill()
            await asyncio.sleep(RESTART_SECONDS)
            scenario.host("g1").start()
            await asyncio.sleep(2)
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert max(send.seconds for send in scenario.sends) < 0.2


async def test_f24_a_delay_node_that_stood_still_is_offline_meanwhile_and_delivers_what_fell_due_at_once() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", delay=2.0)
        await asyncio.sleep(4)
        began = scenario.loop.now
        resuming = asyncio.ensure_future(paused(scenario, "d1"))
        await asyncio.sleep(1)
        last = scenario.heartbeat_at("d1")
        await asyncio.sleep(PAUSE_SECONDS - 1.5)
        (offline,) = [one.at for one in scenario.changes if one.at > began]
        assert last + EXPIRY_SECONDS < offline <= last + OFFLINE_SECONDS + NETWORK_SECONDS
        returned = await resuming
        await asyncio.sleep(1)
        (online,) = [one.at for one in scenario.changes if one.at > offline]
        assert online < returned + BACK_OFF_SECONDS[0] + 2 * NETWORK_SECONDS
        fell_due = {send.value for send in scenario.sends if began < (send.due or 0.0) <= returned and send.is_acked}
        arrived = {item.value: item.at for item in scenario.received}
        assert fell_due
        assert max(arrived[value] for value in fell_due) < returned + 2 * NETWORK_SECONDS
        # A send that waited for the node was tried again meanwhile, and the node answers each attempt.
        await scenario.settle()


async def test_f24_a_consumer_that_stood_still_keeps_its_messages() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_consumer("c2")
        scenario.add_producer("p1", every=0.1)
        await asyncio.sleep(2)
        began = scenario.loop.now
        returned = await paused(scenario, "c1")
        assert {item.consumer for item in scenario.received if item.at > began} == {"c2"}
        await scenario.until(lambda: not scenario.missing(), 5, "what was sent to the paused consumer")
        assert scenario.loop.now < returned + 2 * NETWORK_SECONDS
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert not scenario.repeated()


async def test_f24_a_consumer_that_stands_still_longer_than_its_lease_loses_its_messages_to_the_others() -> None:
    async with running(broker_settings={"retry_delay_seconds": RETRY_DELAY_SECONDS}) as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=1.0)
        await asyncio.sleep(3)
        process = scenario.clients["c1"].process
        process.pause()
        began = scenario.loop.now
        await asyncio.sleep(5)
        await scenario.end("p1")
        scenario.add_consumer("c2")
        await asyncio.sleep(5)
        (held,) = scenario.missing().values()
        # The pull that is held at the broker counts as contact until it is answered.
        await asyncio.sleep(CONSUMER_LEASE_SECONDS - CONSUMER_HEARTBEAT_SECONDS - (scenario.loop.now - began))
        assert not {item.value for item in scenario.received} & held
        rest = CONSUMER_HEARTBEAT_SECONDS + 5 + JOB_SECONDS + RETRY_DELAY_SECONDS + JOB_SECONDS
        await scenario.until(lambda: not scenario.missing(), rest, "c2 received them")
        assert {item.consumer for item in scenario.received if item.value in held} == {"c2"}
        assert {item.attempt for item in scenario.received if item.value in held} == {1}, "it did not fail"
        process.resume()
        await scenario.settle(may_repeat=held)


async def test_f24_a_producer_that_stood_still_stores_its_messages_once() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.0, at_once=4)
        scenario.add_producer("p2")
        await asyncio.sleep(0.5)
        began = scenario.loop.now
        await paused(scenario, "p1")
        assert [send for send in scenario.sends if send.producer == "p1" and send.ended is None and send.began <= began]
        await scenario.end("p1")
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert not scenario.repeated()


async def test_f22_a_broker_that_stood_still_is_replaced_by_the_other_group_and_loses_nothing() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.1, at_once=4)
        await asyncio.sleep(2)
        began = scenario.loop.now
        returned = await paused(scenario, "g1")
        during = [send for send in scenario.sends_of(began, returned) if send.ended]
        assert max(send.seconds for send in during) < TIMEOUTS.send + 0.1 + NETWORK_SECONDS
        assert {send.broker_group for send in during if send.ended and send.ended > began + 0.1} == {"g2"}
        await asyncio.sleep(2)
        assert scenario.changes_since(began) == [("g1", "offline"), ("g1", "read_write")]
        await scenario.settle()
