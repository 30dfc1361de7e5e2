"""Planned changes of masters in whole systems with our client: switch-overs, and rolling restarts of all nodes (F6)."""

import pytest

from qmq.node_admin import NodeAdmin
from tests.sim.replication.client_traffic import system
from tests.sim.replication.groups import Group
from tests.support.waiting import eventually_async


async def test_a_switch_over_in_a_system() -> None:
    async with system(groups=1) as (cluster, traffic):
        group = Group(cluster, "g1")
        for successor in ("g1-b", "g1-a"):
            count = len(traffic.sent)
            admin = NodeAdmin("{}:{}".format(*group.master.admin.address), timeout_seconds=20)
            answer = await admin.switch_over(successor)
            assert answer["to"] == successor
            await group.serves(successor)
            await eventually_async(lambda count=count: len(traffic.sent) > count + 100, 60)  # type: ignore[misc]
            await group.in_sync("g1-a", "g1-b")
    assert traffic.longest < 1.0


@pytest.mark.parametrize("copies", [2, 3])
async def test_all_nodes_are_restarted_one_after_the_other(copies: int) -> None:
    async with system(groups=2, copies=copies) as (cluster, traffic):
        for name in cluster.brokers:
            group = Group(cluster, name)
            for host in group.hosts.values():
                count = len(traffic.sent)
                await host.stop()
                await eventually_async(lambda count=count: len(traffic.sent) > count + 50, 60)  # type: ignore[misc]
                host.start()
                await host.has_started.wait()
                await group.in_sync(*group.hosts)
    assert traffic.longest < 1.0
