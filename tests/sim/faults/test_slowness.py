"""F16: disks that sync slowly. F20: links that are slow, narrow or silent. Every call ends by its deadline."""

import asyncio

import pytest

from qmq import Timeouts
from qmq.client.config import DEFAULT_LIMITS
from tests.sim.faults.scenario import NETWORK_SECONDS, TIMEOUTS, running

ELSEWHERE_SECONDS = TIMEOUTS.send + 0.05 + NETWORK_SECONDS
"""A send that one broker group does not answer is stored by another after one time limit and the shortest pause."""


@pytest.mark.parametrize("sync_seconds", [0.05, 0.2])
async def test_f16_a_send_waits_for_two_slow_syncs_at_most_and_shares_them_with_all_others(sync_seconds: float) -> None:
    async with running(delays=0) as scenario:
        scenario.add_consumer("c1")
        for name in ("g1", "g2"):
            scenario.host(name).weather.sync_seconds = sync_seconds
        for number in range(4):
            scenario.add_producer(f"p{number}", every=0.0, at_once=8)
        await asyncio.sleep(3)
        began, seconds = scenario.loop.now, 10 * sync_seconds
        await asyncio.sleep(seconds)
        sends = [send for send in scenario.sends if send.ended and began <= send.ended]
        # The sync under way when a send arrives, and its own: a segment's roll or a checkpoint may add one each.
        assert max(send.seconds for send in sends) < 4 * sync_seconds + NETWORK_SECONDS
        # 32 senders with one message each: one sync carries all that arrived before it.
        assert len(sends) >= 0.8 * 32 * seconds / (2 * sync_seconds + NETWORK_SECONDS)
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}
        assert not scenario.repeated()


async def test_f16_a_disk_that_hangs_longer_than_a_lease_has_its_group_read_only_and_delays_nothing_else() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.05, at_once=4)
        await asyncio.sleep(2)
        began = scenario.loop.now
        scenario.host("g1").weather.sync_seconds = 10.0
        await asyncio.sleep(1)
        scenario.host("g1").weather.sync_seconds = 0.0
        await asyncio.sleep(15)
        # Heartbeats do not wait for the disk, and sends not longer than one time limit.
        assert scenario.changes_since(began) == [("g1", "read_only"), ("g1", "read_write")]
        assert max(send.seconds for send in scenario.sends if send.ended) < ELSEWHERE_SECONDS
        late = [send for send in scenario.sends if send.ended and send.attempts > 1]
        assert 0 < len(late) <= 4 * DEFAULT_LIMITS.batches_in_flight
        await scenario.settle()


async def test_f16_a_slow_disk_of_a_delay_node_delays_what_is_sent_and_delivers_on_time() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.host("d1").weather.sync_seconds = 0.2
        scenario.add_producer("p1", delay=3.0)
        await asyncio.sleep(15)
        due = {send.value: send.due for send in scenario.sends}
        lateness = [item.at - (due[item.value] or 0.0) for item in scenario.received]
        assert lateness
        # A claim is synced before each batch: it waits for the sync under way and its own, and a checkpoint adds its files'.
        assert max(lateness) < 4 * 0.2 + 0.2 + NETWORK_SECONDS
        await scenario.settle()
        assert not scenario.repeated()


@pytest.mark.parametrize("link", ["clients", "metaserver", "delay node"])
async def test_f20_a_delay_of_200_ms_costs_round_trips_and_no_time_limit(link: str) -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        scenario.add_producer("p2", delay=2.0)
        await asyncio.sleep(2)
        began = scenario.loop.now
        pairs = {
            "clients": [(client, node) for client in ("c1", "p1", "p2") for node in ("g1", "g2", "d1", "meta")],
            "metaserver": [(node, "meta") for node in ("g1", "g2", "d1", "c1", "p1", "p2")],
            "delay node": [("d1", node) for node in ("g1", "g2")],
        }[link]
        for pair in pairs:
            scenario.cluster.network.slow_down(*pair, 0.2)
        await asyncio.sleep(20)
        during = [send for send in scenario.sends_of(began + 1, scenario.loop.now) if send.ended]
        trips = 2 if link == "clients" else 0
        assert max(send.seconds for send in during) < trips * 0.2 + NETWORK_SECONDS
        assert min(send.seconds for send in during) >= trips * 0.2
        due = {send.value: send.due for send in scenario.sends}
        lateness = [item.at - (due[item.value] or item.at) for item in scenario.received if item.at > began + 5]
        # An answer under way, the next pull, and its answer; or a batch's way to the broker.
        ways = {"clients": 3, "metaserver": 0, "delay node": 1}[link]
        assert max(lateness) < ways * 0.2 + 2 * NETWORK_SECONDS
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}
        assert not scenario.repeated()


async def test_f20_a_narrow_link_is_filled_and_no_send_times_out() -> None:
    rate, text = 125_000.0, "x" * 10_000
    async with running(brokers=1, delays=0) as scenario:
        scenario.add_consumer("c1")
        scenario.cluster.network.limit("p1", "g1", rate)
        await asyncio.sleep(1)
        scenario.add_producer("p1", every=0.0, at_once=8, text=text)
        await asyncio.sleep(3)
        began = scenario.loop.now
        await asyncio.sleep(10)
        sent = [send for send in scenario.sends if send.ended and send.ended > began]
        assert len(sent) > 0.8 * 10 * rate / len(text)
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}


async def test_f20_every_call_ends_by_its_deadline_while_nothing_is_answered() -> None:
    timeouts = Timeouts(send=2.0, delivery=6.0, route=3.0)
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", timeouts=timeouts)
        scenario.add_producer("p2", delay=1.0, timeouts=timeouts)
        await asyncio.sleep(3)
        for client in ("p1", "p2"):
            scenario.cut(*((client, node) for node in ("g1", "g2", "d1")))
        began = scenario.loop.now
        scenario.add_producer("p3", "fresh", timeouts=timeouts)
        scenario.cut(("p3", "meta"))
        await asyncio.sleep(30)
        ended = [send for send in scenario.sends if send.ended and send.ended > began + 1]
        assert {send.producer for send in ended} == {"p1", "p2", "p3"}
        assert all(send.error is not None and send.error.retriable for send in ended)
        # An attempt that began before the deadline has its own time limit.
        assert max(send.seconds for send in ended) <= timeouts.delivery + timeouts.route + NETWORK_SECONDS
        assert min(send.seconds for send in ended) > timeouts.delivery - timeouts.send - 2.0
        await scenario.settle(may_fail=True, may_repeat={send.value for send in scenario.sends if send.ended is None})
