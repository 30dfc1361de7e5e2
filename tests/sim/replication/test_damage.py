"""Members of a broker group whose log is damaged, and that can't repair it."""

import asyncio

from metaserver.server import Metaserver
from tests.sim.replication.damaging import commits, filled, flip, found
from tests.sim.replication.groups import cluster_of, received
from tests.sim.world.loop import running_loop

OVERDUE_SECONDS = 10.0
"""After this time without a heartbeat of the master, another member would have been promoted."""


async def test_a_member_with_a_damaged_log_is_not_promoted() -> None:
    async with cluster_of() as group:
        sent = await filled(group)
        host = group.hosts["g1-b"]
        damaged = commits(host)[3]
        flip(host, damaged.offset + 70)
        group.hosts["g1-a"].kill()
        found(group, "g1-b", damaged)
        began = running_loop().time()
        await asyncio.sleep(OVERDUE_SECONDS)
        assert (group.membership.master, running_loop().time() - began) == ("g1-a", OVERDUE_SECONDS)
        meta = group.cluster.meta.server
        assert isinstance(meta, Metaserver)
        reason = f"node g1-b: its log is damaged between offsets {damaged.offset} and {damaged.end}"
        assert reason in meta.handlers.promotions.blocked["g1"]
        group.hosts["g1-a"].start()
        await group.hosts["g1-a"].has_started.wait()
        await group.serves("g1-a", "g1-b")
        assert await received(group) == sent
