"""Rebalancing under load: broker groups are added and drained, with the real plan and the real questions to the nodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from console.jobs.rebalance import JOIN_SECONDS, Place, _look_at
from console.placement.plan import Move, advance, plan
from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from qmq.protocol.names import retry_subject
from tests.sim.faults.scenario import NETWORK_SECONDS, Scenario, running
from tests.sim.world.cluster import SMALL
from tests.support.drivers.in_process import connected, message

SUBJECTS = [f"subject{number}" for number in range(3)]
PLAN_SECONDS, STEP_SECONDS = 10.0, 2.0
"""How often the loops `rebalance` and `moves` run."""


class Loops:
    """The background jobs `rebalance` and `moves` over the simulated database."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._database = scenario.cluster.database
        self._changed_at: dict[str, float] = {}
        self._empty_once: set[tuple[str, int, str]] = set()
        self.steps: list[tuple[float, str, str]] = []

    def plan(self) -> None:
        """Begin moves."""
        stored = self._database.stored
        groups = [group for group in stored.groups.values() if group.kind is GroupKind.BROKER]
        taking = [
            group.name
            for group in groups
            if group.state is GroupState.READ_WRITE and group.operator_state is OperatorState.NORMAL
        ]
        leaving = [group.name for group in groups if group.operator_state is OperatorState.DRAINING]
        for move in plan(list(stored.routes.values()), taking, leaving, minimum=2, most=50):
            self._step(move)

    async def advance(self) -> None:
        """Take the next step of what moves."""
        stored = self._database.stored
        nodes = {stored.groups[node.broker_group].name: node for node in stored.nodes.values()}
        places = {name: Place(name, node.address, node.admin_address) for name, node in nodes.items()}
        empty_now = set()
        for route in [route for route in stored.routes.values() if route.phases]:
            known = sorted(
                {client.group for client in stored.clients if client.subject == route.subject and client.group}
            )
            is_old_enough = self._scenario.loop.now - self._changed_at[route.subject] >= JOIN_SECONDS
            sight = await _look_at(route, known, places, is_old_enough)
            keys = {(route.subject, route.version, name) for name in sight.empty}
            empty_now |= keys
            empty = {name for _, _, name in keys & self._empty_once}
            move = advance(route, ready=sight.ready, empty=empty)
            if move is not None:
                self._step(move)
        self._empty_once = empty_now

    def _step(self, move: Move) -> None:
        now = self._scenario.loop.now
        if self._database.set_route(replace(move.route, version=move.route.version + 1)):
            self._changed_at[move.route.subject] = now
            self.steps.append((now, move.route.subject, move.reason))

    async def run(self) -> None:
        """Run both loops at their pace."""
        turns = 0
        while True:
            if turns % round(PLAN_SECONDS / STEP_SECONDS) == 0:
                self.plan()
            await self.advance()
            turns += 1
            await asyncio.sleep(STEP_SECONDS)

    @property
    def are_done(self) -> bool:
        """Whether no subject moves."""
        return not any(route.phases for route in self._database.stored.routes.values())

    def used(self) -> set[str]:
        """Broker groups that serve a subject."""
        return {name for route in self._database.stored.routes.values() for name in route.broker_groups}


async def test_two_groups_more_and_one_drained_lose_and_double_nothing_under_load() -> None:
    async with running(delays=0) as scenario:
        for subject in SUBJECTS:
            scenario.add_consumer(f"c of {subject}", subject)
            scenario.add_producer(f"p of {subject}", subject, every=0.5)
        await asyncio.sleep(3)
        for name in ("g3", "g4"):
            cluster = scenario.cluster
            cluster.brokers[name] = cluster._node(name, Broker, BrokerOptions, SMALL)
            cluster.brokers[name].start()
        await asyncio.sleep(3)
        began = scenario.loop.now
        loops = Loops(scenario)
        task = asyncio.ensure_future(loops.run())
        await scenario.until(lambda: loops.are_done and loops.used() == {"g1", "g2", "g3", "g4"}, 60, "all are used")
        # A move: planned, joined after JOIN_SECONDS, left, drained and seen empty twice, each in a step of its own.
        assert scenario.loop.now < began + 2 * PLAN_SECONDS + JOIN_SECONDS + 8 * STEP_SECONDS
        scenario.cluster.database.set_operator_state("g1", OperatorState.DRAINING)
        drained = scenario.loop.now
        await scenario.until(lambda: loops.are_done and loops.used() == {"g2", "g3", "g4"}, 60, "g1 is left")
        assert scenario.loop.now < drained + 2 * PLAN_SECONDS + JOIN_SECONDS + 8 * STEP_SECONDS
        left = scenario.loop.now
        await asyncio.sleep(5)
        task.cancel()
        assert {send.broker_group for send in scenario.sends_of(left + 2, left + 5) if send.is_acked} == {
            "g2",
            "g3",
            "g4",
        }
        assert not [send for send in scenario.sends if send.error is not None]
        assert not any(Phase.JOINING in route.phases.values() for route in cluster.database.stored.routes.values())
        await scenario.settle()
        assert not scenario.repeated()
        assert max(send.seconds for send in scenario.sends) < 1.0 + NETWORK_SECONDS


@asynccontextmanager
async def with_messages() -> AsyncIterator[tuple[Scenario, Broker, dict[str, Place]]]:
    """Messages of subject "orders" are stored at a broker, and more are sent."""
    async with running(delays=0) as scenario:
        scenario.add_producer("p", "orders", every=0.1)
        await scenario.until(lambda: len(scenario.sends) > 20, 60, "messages are stored")
        broker, node = scenario.cluster.brokers["g1"].server, scenario.cluster.database.stored.nodes["g1-a"]
        assert isinstance(broker, Broker)
        yield scenario, broker, {"g1": Place("g1", node.address, node.admin_address)}


async def test_retries_that_a_group_never_pulled_on_a_joining_broker_group_reach_it() -> None:
    """Such a broker group was removed with the loss of its messages, returned, and was approved."""
    async with with_messages() as (scenario, broker, places):
        stored = scenario.cluster.database.stored
        async with connected(broker) as client:
            assert await client.send(message(1, retry_subject("orders", "billing"))) == {}
        joining = replace(stored.routes["orders"], phases={"g1": Phase.JOINING})
        assert (await _look_at(joining, ["billing", "shipping"], places, True)).ready == ("g1",)
        orders, retries = (broker.store.subjects[name] for name in ("orders", retry_subject("orders", "billing")))
        assert retries.groups["billing"].progress.next_sequence == retries.begin < retries.visible_end
        assert orders.begin < orders.groups["billing"].progress.next_sequence, "what is there was not sent for it"
        assert retry_subject("orders", "shipping") not in broker.store.subjects


async def test_a_drain_waits_for_a_group_that_has_no_position_there() -> None:
    async with with_messages() as (scenario, broker, places):
        database = scenario.cluster.database
        route = database.stored.routes["orders"]
        draining = replace(route, version=route.version + 1, phases={"g1": Phase.DRAINING})
        assert database.set_route(draining)
        await scenario.until(lambda: "orders" in broker.policy.subjects, 60, "the node has the change")
        subject = broker.store.subjects["orders"]
        await scenario.until(lambda: subject.visible_end == subject.next_sequence, 60, "all is synced")
        sight = await _look_at(draining, ["absent"], places, True)
        assert sight.empty == ()
        assert [(part.code, part.values["group"], part.values["count"]) for part in sight.why] == [
            ("waiting.lag", "absent", subject.visible_end - subject.begin)
        ]
        async with connected(broker) as client:
            await client.begin("orders", "absent", "latest")
        assert (await _look_at(draining, ["absent"], places, True)).empty == ("g1",)
