"""F28, F32: the database or all metaservers are away while clients run."""

import asyncio

import pytest

from metaserver.server import RELOAD_SECONDS, ROUTE_FILE_ALONE_SECONDS
from metaserver.stored.write_behind import BACK_OFF_SECONDS
from qmq.net.timing import DEFAULT_BACKOFF
from tests.sim.faults.scenario import NETWORK_SECONDS, Scenario, running
from tests.sim.world.database import AWAY_SECONDS

OUTAGE_SECONDS = 60.0
STORED_SECONDS = BACK_OFF_SECONDS[-1] + AWAY_SECONDS + NETWORK_SECONDS
"""What waits for the database is stored at the latest so long after its return: a query that still fails, and the longest pause."""


async def newcomer(scenario: Scenario, subject: str, seconds: float = 3 * NETWORK_SECONDS) -> None:
    """A producer and a consumer that start now exchange messages of a subject at once."""
    began = scenario.loop.now
    scenario.add_consumer(f"reader of {subject} at {began}", subject)
    name = f"writer of {subject} at {began}"
    scenario.add_producer(name, subject, every=5.0)
    await scenario.until(
        lambda: any(item.subject == subject and item.at > began for item in scenario.received),
        seconds + 0.5,
        "delivered",
    )
    (first, *_) = [send for send in scenario.sends if send.producer == name]
    assert first.seconds < seconds


async def test_f28_clients_do_not_notice_that_the_database_is_away() -> None:
    async with running() as scenario:
        database = scenario.cluster.database
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        scenario.add_producer("p2", delay=1.0, every=0.5)
        await newcomer(scenario, "known")
        await asyncio.sleep(2)
        began = scenario.loop.now
        database.is_away = True
        await asyncio.sleep(OUTAGE_SECONDS / 2)
        await newcomer(scenario, "new")
        assert "new" not in database.stored.routes
        assert scenario.meta.serving.write_behind.pending > 0
        await asyncio.sleep(ROUTE_FILE_ALONE_SECONDS + NETWORK_SECONDS)
        assert b'"new"' in bytes(scenario.host("meta").disk.names["/meta/routes.log"].content)
        await asyncio.sleep(OUTAGE_SECONDS / 2)
        database.is_away = False
        took = await scenario.until(lambda: "new" in database.stored.routes, 30, "the new subject is stored")
        assert took < STORED_SECONDS
        took = await scenario.until(lambda: not scenario.meta.serving.write_behind.pending, 30, "everything is stored")
        assert took < NETWORK_SECONDS + 0.05
        await asyncio.sleep(20)
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}
        assert max(send.seconds for send in scenario.sends) < 3 * NETWORK_SECONDS
        assert not scenario.repeated()


@pytest.mark.parametrize("fault", ["slow", "replies lost"])
async def test_f28_a_database_that_is_slow_or_loses_its_replies_is_not_waited_for(fault: str) -> None:
    async with running() as scenario:
        database = scenario.cluster.database
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        await asyncio.sleep(2)
        began = scenario.loop.now
        database.slowness = 1_000.0 if fault == "slow" else 1.0
        for number in range(3):
            database.lost_replies = 3 if fault == "replies lost" else 0
            await newcomer(scenario, f"new{number}")
            await asyncio.sleep(10)
        database.slowness = 1.0
        await asyncio.sleep(20)
        assert scenario.changes_since(began) == []
        assert {database.stored.routes[f"new{number}"].version for number in range(3)} == {1}
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}
        assert max(send.seconds for send in scenario.sends) < 3 * NETWORK_SECONDS


async def test_f28_a_node_that_dies_while_the_database_is_away_is_offline_on_time() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(2)
        scenario.cluster.database.is_away = True
        await asyncio.sleep(10)
        began = scenario.loop.now
        scenario.host("g1").kill()
        await asyncio.sleep(7)
        assert scenario.changes_since(began) == [("g1", "offline")]
        scenario.host("g1").start()
        await asyncio.sleep(1)
        scenario.cluster.database.is_away = False
        await asyncio.sleep(RELOAD_SECONDS + STORED_SECONDS)
        assert scenario.changes_since(began) == [("g1", "offline"), ("g1", "read_write")]
        assert str(scenario.cluster.database.stored.groups["g1"].state) == "read_write"
        await scenario.settle()
        assert max(send.seconds for send in scenario.sends) < 0.2


async def test_f32_a_metaserver_that_starts_without_its_database_serves_from_its_route_file() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        await newcomer(scenario, "known")
        await asyncio.sleep(10)
        began = scenario.loop.now
        scenario.cluster.database.is_away = True
        await asyncio.sleep(2)
        await newcomer(scenario, "new")
        await asyncio.sleep(ROUTE_FILE_ALONE_SECONDS + NETWORK_SECONDS)
        before = dict(scenario.meta.directory.routes)
        scenario.host("meta").cut_power()
        scenario.cluster.network.power_on("meta")
        scenario.host("meta").start()
        await scenario.until(lambda: scenario.host("meta").is_serving, AWAY_SECONDS + NETWORK_SECONDS, "it serves")
        assert dict(scenario.meta.directory.routes) == before
        await asyncio.sleep(5)  # nodes have registered
        for subject in ("known", "new"):
            await newcomer(scenario, subject)
        await asyncio.sleep(20)
        scenario.cluster.database.is_away = False
        await scenario.until(lambda: "new" in scenario.cluster.database.stored.routes, STORED_SECONDS, "stored")
        assert scenario.cluster.database.stored.routes["new"] == before["new"]
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}


async def test_f32_running_clients_do_not_notice_ten_minutes_without_a_metaserver() -> None:
    async with running(broker_settings={"checkpoint_seconds": 60.0}) as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=3.0)
        scenario.add_producer("p2", delay=1.0, every=10.0)
        await asyncio.sleep(3)
        began = scenario.loop.now
        scenario.host("meta").kill()
        await asyncio.sleep(600 - 10)
        scenario.add_producer("late", "unknown", every=5.0)
        await asyncio.sleep(10)
        assert not [send for send in scenario.sends if send.subject == "unknown" and send.ended]
        returned = scenario.loop.now
        scenario.host("meta").start()
        await scenario.until(
            lambda: any(send.subject == "unknown" and send.ended for send in scenario.sends), 10, "sent"
        )
        # The client, and the nodes before it, ask again after the longest pauses.
        assert scenario.loop.now < returned + DEFAULT_BACKOFF.longest + BACK_OFF_SECONDS[-1] + 2 * NETWORK_SECONDS
        await asyncio.sleep(20)
        assert scenario.changes_since(began) == []
        await scenario.settle()
        known = [send for send in scenario.sends if send.subject != "unknown"]
        assert {send.attempts for send in known} == {1}
        assert max(send.seconds for send in known) < NETWORK_SECONDS
        assert not scenario.repeated()
