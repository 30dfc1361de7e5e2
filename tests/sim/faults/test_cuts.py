"""F18, F19: hosts can't reach each other, in one direction or both, once or again and again."""

import asyncio

import pytest

from metaserver.memory.live_groups import EXPIRY_SECONDS
from qmq.client.fetcher import LONG_POLL_MS, PULL_ALLOWANCE_SECONDS
from qmq.net.caller import CONNECT_SECONDS
from qmq.protocol.codes import BrokerGroupState
from qmq_node.metaservers.metaserver_session import BACK_OFF_SECONDS, CALL_SECONDS
from tests.sim.faults.scenario import NETWORK_SECONDS, OFFLINE_SECONDS, TIMEOUTS, running
from tests.sim.world.network import RETRY_SECONDS, SYN_SECONDS

CUT_SECONDS = 30.0
REGISTERED_SECONDS = BACK_OFF_SECONDS[-1] + CONNECT_SECONDS + SYN_SECONDS + NETWORK_SECONDS
"""A node that reaches its metaserver again has registered at the latest so long after: a pause, and an attempt to connect that
began in the cut."""
ELSEWHERE_SECONDS = TIMEOUTS.send + 0.05 + NETWORK_SECONDS
"""A send that one broker group does not answer is stored by another after one time limit and the shortest pause."""


@pytest.mark.parametrize("direction", ["both", "requests", "answers"])
async def test_f18_a_producer_that_a_broker_does_not_reach_is_served_by_the_other_group(direction: str) -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.1)
        await asyncio.sleep(2)
        began = scenario.loop.now
        if direction == "both":
            scenario.cut(("p1", "g1"))
        else:
            pair = ("p1", "g1") if direction == "requests" else ("g1", "p1")
            scenario.cut(pair, one_way=True)
        await asyncio.sleep(CUT_SECONDS)
        during = scenario.sends_of(began, scenario.loop.now)
        assert max(send.seconds for send in during if send.ended) < ELSEWHERE_SECONDS
        assert {send.broker_group for send in during if send.is_acked and send.ended > began + 0.1} == {"g2"}
        assert scenario.changes_since(began) == []
        scenario.heal()
        healed = scenario.loop.now
        await scenario.until(
            lambda: any(send.broker_group == "g1" for send in scenario.sends_of(healed, healed + 60)), 60, "g1 is used"
        )
        await scenario.settle()


async def test_f18_a_consumer_that_a_broker_does_not_reach_reads_the_other_and_catches_up() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.1)
        await asyncio.sleep(2)
        began = scenario.loop.now
        scenario.cut(("c1", "g1"))
        await asyncio.sleep(CUT_SECONDS)
        assert {item.broker_group for item in scenario.received if item.at > began + 0.1} == {"g2"}
        assert {send.broker_group for send in scenario.sends_of(began, scenario.loop.now)} == {"g1", "g2"}
        scenario.heal()
        healed = scenario.loop.now
        await scenario.until(lambda: not scenario.missing(), 60, "everything arrived")
        # The pull under way is given up after its time limit; the next one is answered at once.
        given_up = began + LONG_POLL_MS / 1000 + PULL_ALLOWANCE_SECONDS
        assert given_up < healed
        assert scenario.loop.now < healed + SYN_SECONDS + RETRY_SECONDS[1] + 2.0 + NETWORK_SECONDS + 1
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert not scenario.repeated()


@pytest.mark.parametrize("direction", ["both", "heartbeats", "answers"])
async def test_f18_a_broker_cut_off_from_the_metaserver_is_offline_after_one_expiry_and_loses_nothing(
    direction: str,
) -> None:
    async with running() as scenario:
        routes = scenario.watch_routes()
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(3)
        began = scenario.loop.now
        if direction == "both":
            scenario.cut(("g1", "meta"))
        else:
            pair = ("g1", "meta") if direction == "heartbeats" else ("meta", "g1")
            scenario.cut(pair, one_way=True)
        await asyncio.sleep(CALL_SECONDS)
        last = scenario.heartbeat_at("g1")
        assert last <= began + (CALL_SECONDS if direction == "answers" else NETWORK_SECONDS)
        await asyncio.sleep(CUT_SECONDS - CALL_SECONDS)
        assert scenario.heartbeat_at("g1") == last
        gone = routes.first(lambda states: "g1" not in states, began)
        assert last + EXPIRY_SECONDS < gone < last + OFFLINE_SECONDS + NETWORK_SECONDS
        assert scenario.changes_since(began) == [("g1", "offline")]
        # No client saw an error: those that ran with the old route are still served by the group.
        assert max(send.seconds for send in scenario.sends if send.ended) < NETWORK_SECONDS
        assert {send.broker_group for send in scenario.sends_of(gone, scenario.loop.now) if send.is_acked} == {"g2"}
        scenario.heal()
        healed = scenario.loop.now
        await asyncio.sleep(REGISTERED_SECONDS)
        back = routes.first(lambda states: states.get("g1") is BrokerGroupState.READ_WRITE, healed)
        assert back < healed + REGISTERED_SECONDS
        assert scenario.changes_since(began) == [("g1", "offline"), ("g1", "read_write")]
        await scenario.settle()
        assert not scenario.repeated()


@pytest.mark.parametrize("one_way", [False, True])
async def test_f18_clients_cut_off_from_the_metaserver_notice_nothing(one_way: bool) -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(2)
        began = scenario.loop.now
        scenario.cut(("p1", "meta"), ("c1", "meta"), one_way=one_way)
        await asyncio.sleep(CUT_SECONDS)
        assert len(scenario.sends_of(began, scenario.loop.now)) > 0.9 * CUT_SECONDS / 0.21
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}
        assert max(send.seconds for send in scenario.sends) < NETWORK_SECONDS


async def test_f18_a_producer_cut_off_from_all_brokers_waits_and_no_send_fails() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(2)
        began = scenario.loop.now
        scenario.cut(("p1", "g1"), ("p1", "g2"))
        await asyncio.sleep(CUT_SECONDS)
        scenario.heal()
        healed = scenario.loop.now
        (waiting,) = [send for send in scenario.sends_of(began - 1, healed) if send.ended is None]
        await scenario.until(lambda: waiting.ended, 60, "the send that waited is stored")
        # An attempt that began in the cut ends with its time limit; the one after it, behind the longest pause, succeeds.
        assert waiting.is_acked
        assert waiting.ended is not None
        assert waiting.ended < healed + TIMEOUTS.send + 2.0 + NETWORK_SECONDS
        await scenario.settle()


async def test_f18_a_delay_node_cut_off_from_all_brokers_delivers_what_fell_due_when_it_reaches_them() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", delay=3.0)
        await asyncio.sleep(4)
        began = scenario.loop.now
        scenario.cut(("d1", "g1"), ("d1", "g2"))
        await asyncio.sleep(CUT_SECONDS)
        arrived = [item.at for item in scenario.received]
        assert max(arrived) < began + 2 * NETWORK_SECONDS
        assert scenario.changes_since(began) == []
        # Batches that fell due in the cut may have arrived without their answer, or arrive when the cut ends.
        healed = scenario.loop.now
        due = {send.value for send in scenario.sends if began - NETWORK_SECONDS <= (send.due or 0.0) <= healed}
        await scenario.settle(may_repeat=due)


async def test_f19_a_link_that_flaps_changes_no_role() -> None:
    """In some turns a heartbeat arrives after those of the connection that replaced its own."""
    async with running() as scenario:
        routes = scenario.watch_routes()
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        await asyncio.sleep(3)
        began = scenario.loop.now
        for _ in range(30):
            scenario.cut(("g1", "meta"), ("p1", "g2"))
            await asyncio.sleep(2)
            scenario.heal()
            await asyncio.sleep(2)
        assert scenario.changes_since(began) == []
        both = {"g1": BrokerGroupState.READ_WRITE, "g2": BrokerGroupState.READ_WRITE}
        assert all(states == both for _, states in routes.since(began))
        await scenario.settle()
