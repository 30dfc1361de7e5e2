"""F18: the master of a group of three loses the packets of others, or others lose its packets, in network namespaces."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from metaserver.memory.live_groups import EXPIRY_SECONDS
from tests.faults.replication.direct_sends import DirectSends
from tests.faults.replication.failover import written_again
from tests.faults.replication.load import Load
from tests.faults.replication.network import META, Network, NetworkSystem, require_namespaces
from tests.faults.replication.scene import (
    IS_FULL,
    NODE_FLAGS,
    PER_SECOND,
    TURNS,
    Figures,
    becomes,
    in_sync,
    logs_are_equal,
    repeated,
    report_of,
    role_of,
    start,
)
from tests.support.whole import in_whole_fault_runs

CUT_SECONDS = 12.0 if IS_FULL else 4.0
"""At least."""
SILENT_SECONDS = EXPIRY_SECONDS + 6.0
"""A master that is silent for so long would have been replaced if its slaves received nothing from it."""
REQUESTS = 20
"""Sent directly to a master that is cut off."""
NODES = {"g1-a": "g1", "g1-b": "g1-b", "g1-c": "g1-c"}
"""Node ID to name in the system."""

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkSystem]:
    """A group of three members in namespaces, for all tests: processes in namespaces start slowly."""
    require_namespaces()
    folder = tmp_path_factory.mktemp("partitions")
    with (
        Network([META, *NODES.values()]) as network,
        NetworkSystem(folder, network, groups=1, copies=3, broker_flags=NODE_FLAGS) as system,
    ):
        asyncio.run(start(system, 5 * TURNS))
        yield system


def both_ways(pairs: Pairs) -> Pairs:
    """Return the pairs in both directions."""
    return [*pairs, *((receiver, sender) for sender, receiver in pairs)]


@repeated
@pytest.mark.parametrize(
    "direction", ["both", *(pytest.param(one, marks=in_whole_fault_runs) for one in ("to", "from"))]
)
async def test_f18_a_master_that_is_cut_off_from_metaserver_and_slaves_is_replaced(
    system: NetworkSystem, direction: str
) -> None:
    """Clients still reach it. `direction`: the packets to or from the master are lost, or both."""
    figures = Figures(f"F18, master alone, packets {direction}")
    async with Load(system.meta_url, PER_SECOND, f"alone-{direction}") as load:
        for _ in range(TURNS):
            master = await in_sync(system, "g1")
            await load.flows()
            others = [META, *(name for node, name in NODES.items() if node != master)]
            outward = [(NODES[master], name) for name in others]
            inward = [(name, NODES[master]) for name in others]
            pairs = {"both": outward + inward, "from": outward, "to": inward}[direction]
            async with DirectSends(load, system.host_of(NODES[master]), system.port_of(master), "g1") as direct:
                with system.network.lost(*pairs):
                    began = time.monotonic()
                    requests = [direct.send() for _ in range(REQUESTS)]
                    await becomes(system, "master", *(node for node in NODES if node != master))
                    await written_again(load, figures, began)
                    await load.until(began + CUT_SECONDS)
                await figures.timed(
                    "old master in sync after the cut", 30, lambda node=master: role_of(system, node) == "in_sync"
                )
                await asyncio.gather(*requests)
    figures.report()
    await logs_are_equal(system)


def in_sync_of(system: NetworkSystem) -> list[str]:
    """Return the in-sync set, as the master reports it."""
    for node in NODES:
        found = report_of(system, node)
        if found.get("role") == "master":
            return list(found["in_sync"])
    return []


@repeated
@in_whole_fault_runs
async def test_f18_a_slave_that_is_cut_off_from_the_master_is_removed_and_returns(system: NetworkSystem) -> None:
    figures = Figures("F18, master and slave")
    async with Load(system.meta_url, PER_SECOND, "slave") as load:
        master = await in_sync(system, "g1")
        slave = min(NODES.keys() - {master})
        for _ in range(TURNS):
            with system.network.lost(*both_ways([(NODES[master], NODES[slave])])):
                began = time.monotonic()
                await figures.timed("slave removed", 5, lambda: slave not in in_sync_of(system))
                await written_again(load, figures, time.monotonic())
                await load.until(began + CUT_SECONDS)
            await figures.timed("slave in sync after the cut", 30, lambda: len(in_sync_of(system)) == 3)
            await load.flows()
        assert await in_sync(system, "g1") == master
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


def promotions_of(system: NetworkSystem) -> int:
    """Return how many promotions the metaserver has decided: the nodes may learn of the last one later."""
    return sum(process.log().count("is promoted") for process in system.metas.values())


@repeated
@in_whole_fault_runs
async def test_f18_a_master_that_is_cut_off_from_the_metaserver_continues(system: NetworkSystem) -> None:
    """Its slaves hear it, so none is promoted."""
    figures = Figures("F18, master and metaserver")
    async with Load(system.meta_url, PER_SECOND, "metaserver") as load:
        master = await in_sync(system, "g1")
        promotions = promotions_of(system)
        for _ in range(TURNS):
            with system.network.lost(*both_ways([(NODES[master], META)])):
                began = time.monotonic()
                await load.until(began + max(CUT_SECONDS, SILENT_SECONDS))
                await load.flows()
                figures.add("slowest send", load.sends.seconds(began)[-1], 1)
            await load.flows()
        assert await in_sync(system, "g1") == master
        assert promotions_of(system) == promotions
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)
