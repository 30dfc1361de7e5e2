"""Members of a broker group whose log is damaged."""

import asyncio

from metaserver.server import Metaserver
from qmq.log.record import HEADER_BYTES
from tests.sim.loop import running_loop
from tests.sim.replication.test_cluster import begun, cluster_of, received

OVERDUE_SECONDS = 10.0
"""After this time without a heartbeat of the master, another member would have been promoted."""


async def test_a_member_with_a_damaged_log_is_not_promoted() -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        host = group.hosts["g1-b"]
        host.kill()
        for path in list(host.disk.names):
            if "/log/" not in path and "checkpoint" in path:
                host.disk.remove(path)
        inode = host.disk.names[f"/{host.name}/log/{0:020}"]
        inode.content[HEADER_BYTES] ^= 1
        inode.synced[HEADER_BYTES] ^= 1
        host.start()
        await host.has_started.wait()
        await group.in_sync("g1-a", "g1-b")
        (damage,) = group.broker("g1-b").log.damaged
        group.hosts["g1-a"].kill()
        began = running_loop().time()
        await asyncio.sleep(OVERDUE_SECONDS)
        assert (group.row.master, running_loop().time() - began) == ("g1-a", OVERDUE_SECONDS)
        meta = group.cluster.meta.server
        assert isinstance(meta, Metaserver)
        reason = f"node g1-b: its log is damaged between offsets 0 and {damage.end}"
        assert reason in meta.handlers.promotions.blocked["g1"]
        group.hosts["g1-a"].start()
        await group.hosts["g1-a"].has_started.wait()
        await group.serves("g1-a")
        assert await received(group) == sent
