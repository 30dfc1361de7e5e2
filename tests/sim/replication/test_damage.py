"""Members of a broker group whose log is damaged."""

import asyncio

from metaserver.server import Metaserver
from qmq.protocol.codes import ReplicaRole
from qmq_node.log.record import HEADER_BYTES
from tests.sim.replication.groups import begun, cluster_of, received
from tests.sim.replication.pair import client_of, send
from tests.sim.world.cluster import Host
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async

OVERDUE_SECONDS = 10.0
"""After this time without a heartbeat of the master, another member would have been promoted."""


def flip(host: Host, place: int) -> None:
    """Change a byte of the first segment of a node that does not run, and have it replay the log from its begin."""
    for path in list(host.disk.names):
        if "/log/" not in path and "checkpoint" in path:
            host.disk.remove(path)
    inode = host.disk.names[f"/{host.name}/log/{0:020}"]
    inode.content[place] ^= 1
    inode.synced[place] ^= 1


async def test_a_member_with_a_damaged_log_is_not_promoted() -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        host = group.hosts["g1-b"]
        host.kill()
        flip(host, HEADER_BYTES)
        host.start()
        await host.has_started.wait()
        await group.in_sync("g1-a", "g1-b")
        (damage,) = group.broker("g1-b").log.stored.damaged
        group.hosts["g1-a"].kill()
        began = running_loop().time()
        await asyncio.sleep(OVERDUE_SECONDS)
        assert (group.membership.master, running_loop().time() - began) == ("g1-a", OVERDUE_SECONDS)
        meta = group.cluster.meta.server
        assert isinstance(meta, Metaserver)
        reason = f"node g1-b: its log is damaged between offsets 0 and {damage.end}"
        assert reason in meta.handlers.promotions.blocked["g1"]
        group.hosts["g1-a"].start()
        await group.hosts["g1-a"].has_started.wait()
        await group.serves("g1-a")
        assert await received(group) == sent


async def test_a_slave_whose_log_can_not_be_applied_says_so_and_the_others_serve() -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        host = group.hosts["g1-b"]
        place = group.master.log.written_end // 2
        async with client_of(group.master) as client:
            await client.begin()
            sent += await send(client, range(20, 30))
        host.kill()
        flip(host, place)
        host.has_damaged_log = True
        host.start()
        await host.has_started.wait()
        slave = group.broker("g1-b")
        await eventually_async(lambda: slave.replication.member.role is ReplicaRole.FAILED, 60)
        (damage,) = slave.log.stored.damaged
        assert f"its log can't be applied: log offset {damage.begin}: " in slave.readiness()
        await group.in_sync("g1-a")
        assert await received(group) == sent
        # It waits for an operator, and does not start again and again.
        assert group.broker("g1-b") is slave
