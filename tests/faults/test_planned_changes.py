"""A switch-over that an operator requests, under load on real processes. Rolling restarts: tests/faults/replication."""

import asyncio
from collections.abc import Callable

from console.cluster.places import NodePlace
from console.cluster.stats import NodeAsker
from console.collector.summing import summed
from console.snapshot.history import entries_of
from console.snapshot.state import KIND_BROKER, empty
from qmq.node_admin import NodeAdmin
from tests.faults.replication.load import Load
from tests.faults.replication.scene import NODE_FLAGS, in_sync, logs_are_equal, master_of, start
from tests.support.servers.system import System
from tests.support.waiting import eventually


async def test_an_operator_switches_over_and_back(new_system: Callable[..., System]) -> None:
    system = new_system(groups=2, copies=2, broker_flags=NODE_FLAGS)
    await start(system)
    async with Load(system.meta_url, per_second=200) as load:
        for _ in range(2):
            master = await in_sync(system, "g1")
            _, port = system.ports[master.removesuffix("-a")]
            answer = await NodeAdmin(f"127.0.0.1:{port}", timeout_seconds=20).switch_over()
            assert answer["from"] == master
            assert answer["to"] != master
            await in_sync(system, "g1", answer["to"])
            await load.flows()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


async def test_the_send_rate_of_the_whole_system_is_known_after_each_switch_over(
    new_system: Callable[..., System],
) -> None:
    """Also with an idle subject: the new master's first answer has no rates."""
    system = new_system(groups=1, copies=2, broker_flags=NODE_FLAGS)
    await start(system)
    asker, state = NodeAsker(), empty()

    def place(node: str, master: str) -> NodePlace:
        _, port = system.ports[node.removesuffix("-a")]
        return NodePlace(node, "g1", KIND_BROKER, node == master, "", f"127.0.0.1:{port}")

    def is_known() -> bool:
        nonlocal state
        master = master_of(system, "g1")
        places = [place(node, master) for node in system.members("g1")]
        state = empty() | summed(state, 0, places, asyncio.run(asker.stats(places)), {})
        return bool(state["subjects"]) and entries_of(state)["system"]["system"]["send_rate"] is not None

    async def becomes_known() -> None:
        await asyncio.to_thread(eventually, is_known, what="the send rate is known")

    await becomes_known()
    for _ in range(3):
        master = await in_sync(system, "g1")
        await NodeAdmin(place(master, master).admin_address, timeout_seconds=20).switch_over()
        await becomes_known()
