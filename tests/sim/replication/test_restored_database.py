"""The metaservers' database is restored from a backup whose in-sync set names a member that lacks acknowledged messages."""

import asyncio

import pytest

from metaserver.server import Metaserver
from qmq.replication.row import UncleanPromotion
from tests.sim.replication.pair import client_of
from tests.sim.replication.test_cluster import Group, begun, cluster_of, received
from tests.sim.replication.test_pair import send
from tests.support.waiting import eventually_async

PROMOTION = "00000000-0000-4000-8000-000000000009"


async def with_messages_that_the_slave_lacks(group: Group) -> list[str]:
    """Back the database up, stop the slave, and send: the acknowledged messages."""
    sent = await begun(group)
    group.set(in_sync_min=1)
    group.cluster.database.back_up()
    group.hosts["g1-b"].kill()
    await group.in_sync("g1-a")
    async with client_of(group.master) as client:
        sent += await send(client, range(20, 30))
    return sent


def restore(group: Group, *, restarts: bool) -> None:
    """Restore the database, while no metaserver runs if all of them are restarted."""
    metas = group.cluster.metas.values()
    for host in metas if restarts else ():
        host.kill()
    group.cluster.database.restore()
    assert group.row.in_sync == ("g1-a", "g1-b")
    for host in metas if restarts else ():
        host.start()


def row_problems(group: Group) -> list[str]:
    """Why metaservers can't change the row."""
    servers = [host.server for host in group.cluster.metas.values()]
    return [server.handlers.restored_rows.blocked.get("g1", "") for server in servers if isinstance(server, Metaserver)]


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("metas", [1, 2])
async def test_the_last_master_brings_the_row_up_to_date(metas: int, restarts: bool) -> None:
    async with cluster_of(metas=metas) as group:
        sent = await with_messages_that_the_slave_lacks(group)
        restore(group, restarts=restarts)
        await group.in_sync("g1-a")
        group.hosts["g1-b"].start()
        await group.in_sync("g1-a", "g1-b")
        await eventually_async(lambda: not any(row_problems(group)))
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert await received(group) == sent


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_member_that_lacks_messages_is_not_promoted_until_an_operator_decides(restarts: bool) -> None:
    async with cluster_of() as group:
        sent = await with_messages_that_the_slave_lacks(group)
        group.hosts["g1-a"].kill()
        restore(group, restarts=restarts)
        group.hosts["g1-b"].start()
        for _ in range(60):
            await asyncio.sleep(0.5)
            assert (group.row.master, group.row.epoch) == ("g1-a", 1)
        assert "the database was restored from a backup" in row_problems(group)[0]
        group.hosts["g1-a"].start()
        await asyncio.sleep(15)
        assert group.row.epoch == 1, "it restarted, so it does not know what it had counted"
        meta = group.cluster.meta.server
        assert isinstance(meta, Metaserver)
        row = group.row.group_row
        node, newest = group.broker("g1-a"), meta.directory.newest_place("g1")
        change = UncleanPromotion(*row.place, "g1-a", node.incarnation, node.boot_id, newest, PROMOTION)
        group.set(**{
            name: getattr(group.row.with_group_row(change.applied_to(row)), name)
            for name in ("epoch", "master", "in_sync", "in_sync_version", "promotion_id", "master_boot_id", "incarnations")
        })  # fmt: skip
        await group.serves("g1-a")
        assert await received(group) == sent
        await group.in_sync("g1-a", "g1-b")
        await group.all_equal()
