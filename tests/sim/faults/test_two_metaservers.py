"""Two metaservers over one database: nodes register with both, clients use one, and neither contradicts the other."""

import asyncio

import pytest

from metaserver.choices import OperatorState
from metaserver.memory.live_groups import HEARTBEAT_SECONDS, LEASE_SECONDS
from qmq.net.meta_connection import ANSWER_SECONDS
from qmq.net.timing import DEFAULT_BACKOFF
from qmq.protocol.codes import ClientType
from qmq.protocol.reasons import Reason
from qmq_node.metaservers.metaserver_session import BACK_OFF_SECONDS
from qmq_node.node.node import Node
from tests.sim.faults.scenario import NETWORK_SECONDS, OFFLINE_SECONDS, Scenario, running

PAGE_SECONDS = 1.5
"""Time limit of the address page (`qmq.net.discovery.find_metaserver`)."""
CHECK_SECONDS = 1.0
"""How often a client looks whether its metaserver answers."""
FAILOVER_SECONDS = CHECK_SECONDS + 2 * ANSWER_SECONDS + DEFAULT_BACKOFF.first + PAGE_SECONDS + 3 * NETWORK_SECONDS
"""A client whose metaserver stands still has what it asked for from the other one at the latest so much later."""
BOTH = ("meta", "meta2")


def other_than(meta: str) -> str:
    return BOTH[1 - BOTH.index(meta)]


def node(scenario: Scenario, group: str) -> Node:
    server = scenario.host(group).server
    assert isinstance(server, Node)
    return server


def states(scenario: Scenario, group: str) -> list[str]:
    metaservers = node(scenario, group).registration.metaservers
    assert metaservers is not None
    return [session["state"] for session in metaservers.report()]


def followed(scenario: Scenario, group: str) -> str:
    """The host of the metaserver whose decisions a node follows."""
    metaservers = node(scenario, group).registration.metaservers
    assert metaservers is not None
    (index,) = [number for number, session in enumerate(metaservers.report()) if session["is_followed"]]
    return BOTH[index]


def no_changes(scenario: Scenario, since: float) -> None:
    for meta in BOTH:
        assert scenario.changes_since(since, meta) == [], meta


async def is_routed_soon(scenario: Scenario, subject: str, seconds: float) -> None:
    """A producer and a consumer that start now exchange messages of a new subject."""
    began = scenario.loop.now
    scenario.add_consumer(f"reader of {subject}", subject)
    scenario.add_producer(f"writer of {subject}", subject, every=5.0)
    took = await scenario.until(
        lambda: any(item.subject == subject and item.at > began for item in scenario.received), seconds + 1, "delivered"
    )
    assert took < seconds


async def test_nodes_register_with_both_and_follow_the_first(caplog: pytest.LogCaptureFixture) -> None:
    async with running(metas=2) as scenario:
        for name in scenario.cluster.nodes:
            assert states(scenario, name) == ["registered", "registered"]
            assert followed(scenario, name) == "meta"
        for meta in BOTH:
            groups = scenario.metaserver(meta).directory.groups
            assert {name: str(live.state) for name, live in groups.items()} == dict.fromkeys(groups, "read_write")
            assert all(live.received_here for live in groups.values())
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        began = scenario.loop.now
        await asyncio.sleep(30)
        no_changes(scenario, began)
        assert scenario.cluster.database.stored.groups["g1"].state == "read_write"
        await scenario.settle()


@pytest.mark.parametrize("meta", BOTH)
async def test_one_is_killed_and_nothing_is_noticed(meta: str) -> None:
    async with running(metas=2) as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        await asyncio.sleep(3)
        began = scenario.loop.now
        scenario.host(meta).kill()
        await is_routed_soon(scenario, "new", 1.0)
        await asyncio.sleep(LEASE_SECONDS + HEARTBEAT_SECONDS)
        assert followed(scenario, "g1") == other_than(meta)
        await asyncio.sleep(30)
        await is_routed_soon(scenario, "newer", 1.0)
        assert scenario.changes_since(began, other_than(meta)) == []
        scenario.host(meta).start()
        await scenario.host(meta).has_started.wait()
        started = scenario.loop.now
        await asyncio.sleep(BACK_OFF_SECONDS[-1] + HEARTBEAT_SECONDS)
        assert all(states(scenario, name) == ["registered", "registered"] for name in scenario.cluster.nodes)
        assert followed(scenario, "g1") == "meta"
        await asyncio.sleep(20)
        assert scenario.changes_since(started + NETWORK_SECONDS, meta) == []
        assert scenario.changes_since(began, other_than(meta)) == []
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}


@pytest.mark.parametrize("meta", BOTH)
async def test_one_is_cut_off_from_all_nodes_and_follows_the_other(meta: str) -> None:
    async with running(metas=2) as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        await asyncio.sleep(3)
        began = scenario.loop.now
        scenario.cut(*((meta, name) for name in scenario.cluster.nodes))
        await asyncio.sleep(60)
        no_changes(scenario, began)
        # A node that dies now is offline at both: the one that hears nothing follows what the other stored.
        scenario.host("g1").kill()
        killed = scenario.loop.now
        await asyncio.sleep(OFFLINE_SECONDS + 2)
        for name in BOTH:
            assert scenario.changes_since(killed, name) == [("g1", "offline")], name
        scenario.host("g1").start()
        await asyncio.sleep(5)
        for name in BOTH:
            assert scenario.changes_since(killed, name) == [("g1", "offline"), ("g1", "read_write")], name
        scenario.heal()
        await asyncio.sleep(20)
        assert states(scenario, "g1") == ["registered", "registered"]
        assert len(scenario.changes_since(killed, meta)) == 2
        await scenario.settle()


@pytest.mark.parametrize("meta", BOTH)
async def test_one_is_cut_off_from_the_database_and_operators_decisions_reach_nodes_through_the_other(
    meta: str,
) -> None:
    async with running(metas=2) as scenario:
        database = scenario.cluster.database
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        await asyncio.sleep(15)  # each has seen the other
        began = scenario.loop.now
        database.unreachable_from.add(meta)
        await asyncio.sleep(20)
        database.set_operator_state("g1", OperatorState.READ_ONLY)
        await asyncio.sleep(5)
        assert node(scenario, "g1").policy.read_only
        assert followed(scenario, "g1") == other_than(meta)
        database.set_operator_state("g1", OperatorState.NORMAL)
        await asyncio.sleep(5)
        assert not node(scenario, "g1").policy.read_only
        await asyncio.sleep(30)
        database.unreachable_from.clear()
        await asyncio.sleep(20)
        assert followed(scenario, "g1") == "meta"
        for name in BOTH:
            # The one that can't read the database receives the state with the node's heartbeats.
            assert scenario.changes_since(began, name) == [("g1", "read_only"), ("g1", "read_write")], name
        await scenario.settle()


@pytest.mark.parametrize("meta", BOTH)
async def test_one_stands_still_and_clients_use_the_other_within_seconds(meta: str) -> None:
    async with running(metas=2) as scenario:
        routes = scenario.watch_routes()
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        await asyncio.sleep(3)
        began = scenario.loop.now
        process = scenario.host(meta).process
        assert process is not None
        process.pause()
        await is_routed_soon(scenario, "new", 2 * FAILOVER_SECONDS)
        other = scenario.metaserver(other_than(meta))
        for _ in range(60):
            await asyncio.sleep(0.5)
            ages = [other.directory.heartbeat_age(live) for live in other.directory.groups.values()]
            assert max(ages) < HEARTBEAT_SECONDS + NETWORK_SECONDS, "heartbeats wait for no other metaserver"
        assert followed(scenario, "g1") == other_than(meta)
        process.resume()
        await asyncio.sleep(20)
        no_changes(scenario, began)
        assert all(states(scenario, name) == ["registered", "registered"] for name in scenario.cluster.nodes)
        assert all(len(seen) == 2 for _, seen in routes.since(began))
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}


async def test_a_running_client_whose_metaserver_stands_still_gets_a_new_subjects_route_from_the_other() -> None:
    async with running(metas=2) as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        routes = scenario.watch_routes()
        await asyncio.sleep(3)
        process = scenario.host("meta").process
        assert process is not None
        process.pause()
        session = scenario.watcher
        assert session is not None
        began = scenario.loop.now
        assert session.routes("orders", ClientType.PRODUCER)
        found = await session.wait_routes("fresh", ClientType.PRODUCER)
        assert found
        assert scenario.loop.now < began + FAILOVER_SECONDS
        # All interests are registered with the other one: it pushes what changes.
        await asyncio.sleep(1)
        node(scenario, "g2").registration.operator_read_only = Reason("by the test")
        await asyncio.sleep(HEARTBEAT_SECONDS + 1)
        assert list(routes.seen[-1][1]) == ["g1"]
        node(scenario, "g2").registration.operator_read_only = Reason()
        process.resume()
        await scenario.settle()


@pytest.mark.parametrize("restarted", ["none", *BOTH])
async def test_a_subject_that_both_create_is_served_by_the_groups_of_both(restarted: str) -> None:
    """Without the database, each gives the new subject groups of its own choice; acknowledged messages are on all of them."""
    async with running(metas=2, brokers=5) as scenario:
        database = scenario.cluster.database
        await asyncio.sleep(15)
        database.is_away = True
        subjects = [f"new{number}" for number in range(3)]
        for subject in subjects:
            for producer, other in (("p1", "meta2"), ("p2", "meta")):
                name = f"{producer} of {subject}"
                scenario.cut((name, other))
                scenario.add_producer(name, subject, every=0.3)
            scenario.add_consumer(f"c1 of {subject}", subject)
        await asyncio.sleep(10)
        groups = {name: scenario.metaserver(name).directory.routes for name in BOTH}
        chosen = [{route.broker_groups for route in (groups[name][subject] for name in BOTH)} for subject in subjects]
        assert max(map(len, chosen)) == 2, "they agreed by chance: the test shows nothing"
        if restarted in BOTH:
            # It starts from its route file.
            scenario.host(restarted).kill()
            scenario.host(restarted).start()
            await scenario.host(restarted).has_started.wait()
            await asyncio.sleep(3)
        database.is_away = False
        await asyncio.sleep(20)
        for subject, before in zip(subjects, chosen, strict=True):
            routes = [scenario.metaserver(name).directory.routes[subject] for name in BOTH]
            assert routes[0] == routes[1] == database.stored.routes[subject]
            assert set(routes[0].broker_groups) == {name for names in before for name in names}
        await scenario.settle()
