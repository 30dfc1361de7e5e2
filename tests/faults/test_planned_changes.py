"""A switch-over that an operator requests, under load on real processes. Rolling restarts: tests/faults/replication."""

from collections.abc import Callable

from qmq.node_admin import NodeAdmin
from tests.faults.replication.load import Load
from tests.faults.replication.scene import NODE_FLAGS, in_sync, logs_are_equal, start
from tests.support.system import System


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
