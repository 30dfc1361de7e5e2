"""The metaservers' database is restored from a backup whose in-sync set names a member that lacks acknowledged messages."""

import asyncio

import pytest

from metaserver.replication.restored_memberships import RESTORED_SECONDS
from metaserver.server import ROUTE_FILE_SECONDS, Metaserver
from tests.sim.replication.groups import Group, begun, cluster_of, promoted_by_operator, received
from tests.sim.replication.pair import client_of, send
from tests.support.waiting import eventually_async


async def with_messages_that_the_slave_lacks(group: Group, *, away: str = "") -> list[str]:
    """Back the database up, stop the slave, and send: the acknowledged messages.

    Args:
        away: a metaserver that ends before the slave is removed from the in-sync set; it has the membership of the backup.
    """
    sent = await begun(group)
    group.set(in_sync_min=1)
    await asyncio.sleep(ROUTE_FILE_SECONDS + 1)
    group.cluster.back_up()
    if away:
        group.cluster.metas[away].kill()
    group.hosts["g1-b"].kill()
    await group.in_sync("g1-a")
    async with client_of(group.master) as client:
        sent += await send(client, range(20, 30))
    return sent


def restore(group: Group, *, restarts: bool, files: str = "kept") -> None:
    """Restore the database, while no metaserver runs if all of them are restarted.

    Args:
        files: what then becomes of the route files: they are "kept", "restored" from the same backup, or "emptied".
    """
    metas = group.cluster.metas.values()
    for host in metas if restarts else ():
        host.kill()
    group.cluster.database.restore()
    assert group.membership.in_sync == ("g1-a", "g1-b")
    for host in metas if restarts else ():
        if files != "kept":
            group.cluster.restore_route_file(host, is_emptied=files == "emptied")
        host.start()


def membership_problems(group: Group) -> list[str]:
    """Why metaservers can't change the membership."""
    servers = [host.server for host in group.cluster.metas.values()]
    return [
        server.handlers.restored_memberships.blocked.get("g1", "")
        for server in servers
        if isinstance(server, Metaserver)
    ]


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("metas", [1, 2])
async def test_the_last_master_brings_the_membership_up_to_date(metas: int, restarts: bool) -> None:
    async with cluster_of(metas=metas) as group:
        sent = await with_messages_that_the_slave_lacks(group)
        restore(group, restarts=restarts)
        await group.in_sync("g1-a")
        group.hosts["g1-b"].start()
        await group.in_sync("g1-a", "g1-b")
        await eventually_async(lambda: not any(membership_problems(group)))
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert await received(group) == sent


@pytest.mark.parametrize("files", ["restored", "emptied"])
@pytest.mark.parametrize("lives_seconds", [1.5, 15.0])
async def test_a_master_that_alone_knows_the_newest_membership_is_not_replaced_by_a_member_that_lacks_messages(
    files: str, lives_seconds: float
) -> None:
    async with cluster_of() as group:
        sent = await with_messages_that_the_slave_lacks(group)
        restore(group, restarts=True, files=files)
        await group.cluster.meta.has_started.wait()
        await asyncio.sleep(lives_seconds)
        group.hosts["g1-a"].kill()
        group.hosts["g1-b"].start()
        await asyncio.sleep(20)
        assert (group.membership.master, group.membership.epoch) == ("g1-a", 1)
        is_up_to_date = lives_seconds > RESTORED_SECONDS
        assert (group.membership.in_sync == ("g1-a",), bool(membership_problems(group)[0])) == (
            is_up_to_date,
            not is_up_to_date,
        )
        group.hosts["g1-a"].start()
        if not is_up_to_date:
            await promoted_by_operator(group, "g1-a")
        await group.serves("g1-a")
        assert await received(group) == sent
        await group.in_sync("g1-a", "g1-b")
        await group.all_equal()


@pytest.mark.parametrize("files", ["restored", "emptied"])
async def test_a_slave_that_alone_knows_the_newest_membership_keeps_another_one_from_its_promotion(files: str) -> None:
    async with cluster_of(copies=3) as group:
        sent = await begun(group)
        group.set(in_sync_min=1)
        await asyncio.sleep(ROUTE_FILE_SECONDS + 1)
        group.cluster.back_up()
        group.hosts["g1-b"].kill()
        await group.in_sync("g1-a", "g1-c")
        async with client_of(group.master) as client:
            sent += await send(client, range(20, 30))
        await eventually_async(lambda: group.broker("g1-c").folder.replica.state.version == group.membership.version)
        for name in ("g1-a", "g1-c"):
            group.hosts[name].kill()
        group.cluster.meta.kill()
        group.cluster.database.restore()
        assert set(group.membership.in_sync) == {"g1-a", "g1-b", "g1-c"}
        group.cluster.restore_route_file(group.cluster.meta, is_emptied=files == "emptied")
        for host in (group.cluster.meta, group.hosts["g1-b"], group.hosts["g1-c"]):
            host.start()
        await asyncio.sleep(20)
        assert (group.membership.master, group.membership.epoch) == ("g1-a", 1)
        assert "the database was restored from a backup" in membership_problems(group)[0]
        await promoted_by_operator(group, "g1-c")
        await group.serves("g1-c")
        assert await received(group) == sent


@pytest.mark.parametrize("files", ["restored", "emptied"])
async def test_a_group_whose_master_alone_knows_the_newest_membership_loses_and_gets_slaves_again(files: str) -> None:
    async with cluster_of() as group:
        sent = await with_messages_that_the_slave_lacks(group)
        restore(group, restarts=True, files=files)
        group.hosts["g1-b"].start()
        await group.in_sync("g1-a", "g1-b")
        group.hosts["g1-b"].kill()
        await group.in_sync("g1-a")
        async with client_of(group.master) as client:
            sent += await send(client, range(30, 40))
        group.hosts["g1-b"].start()
        await group.in_sync("g1-a", "g1-b")
        assert not any(membership_problems(group))
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert await received(group) == sent


async def test_a_metaserver_that_was_away_knows_what_another_one_recorded() -> None:
    async with cluster_of(metas=2) as group:
        sent = await with_messages_that_the_slave_lacks(group, away="meta2")
        group.hosts["g1-a"].kill()
        restore(group, restarts=False)
        group.cluster.metas["meta2"].start()
        await asyncio.sleep(5)
        group.hosts["g1-b"].start()
        await asyncio.sleep(30)
        assert (group.membership.master, group.membership.epoch) == ("g1-a", 1)
        assert all("the database was restored from a backup" in problem for problem in membership_problems(group))
        group.hosts["g1-a"].start()
        await promoted_by_operator(group, "g1-a")
        await group.serves("g1-a")
        assert await received(group) == sent


@pytest.mark.parametrize("files", ["restored", "emptied"])
async def test_a_former_master_that_waits_is_not_promoted_before_the_last_one_has_reported(files: str) -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        group.set(in_sync_min=1)
        await asyncio.sleep(ROUTE_FILE_SECONDS + 1)
        group.cluster.back_up()
        meta, network = group.cluster.meta, group.cluster.network
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        async with client_of(group.master) as client:
            sent += await send(client, range(20, 30))
        meta.kill()
        group.hosts["g1-a"].start()
        group.cluster.database.restore()
        group.cluster.restore_route_file(meta, is_emptied=files == "emptied")
        network.cut("g1-b", "meta")
        meta.start()
        await asyncio.sleep(1.5)
        assert (group.membership.master, group.membership.epoch) == ("g1-a", 1)
        network.mend("g1-b", "meta")
        await group.serves("g1-b")
        await group.in_sync("g1-a", "g1-b")
        assert await received(group) == sent


@pytest.mark.parametrize("metas", [1, 2])
async def test_a_restored_membership_that_was_changed_since_does_not_look_current(metas: int) -> None:
    async with cluster_of(metas=metas) as group:
        sent = await with_messages_that_the_slave_lacks(group)
        group.hosts["g1-a"].kill()
        newest = group.membership
        restore(group, restarts=False)
        # What raised the version before `services.members.set_copies` could know that the membership is restored.
        group.set(in_sync_version=newest.version)
        assert group.membership.contradicts(newest)
        group.hosts["g1-b"].start()
        await asyncio.sleep(30)
        assert (group.membership.master, group.membership.epoch) == ("g1-a", 1)
        assert all("the database was restored from a backup" in problem for problem in membership_problems(group))
        group.hosts["g1-a"].start()
        await promoted_by_operator(group, "g1-a")
        await group.serves("g1-a")
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
            assert (group.membership.master, group.membership.epoch) == ("g1-a", 1)
        assert "the database was restored from a backup" in membership_problems(group)[0]
        group.hosts["g1-a"].start()
        await asyncio.sleep(15)
        assert group.membership.epoch == 1, "it restarted, so it does not know what it had counted"
        await promoted_by_operator(group, "g1-a")
        await group.serves("g1-a")
        assert await received(group) == sent
        await group.in_sync("g1-a", "g1-b")
        await group.all_equal()
