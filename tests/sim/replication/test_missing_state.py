"""The file that says what a member is in its group is lost, in the first epoch, in which no commit of the log shows that."""

import pytest

from qmq_node.log.record import FIRST_EPOCH
from qmq_node.replication.replica_state import FILE_NAME
from tests.sim.replication.groups import begun, cluster_of, received
from tests.sim.replication.pair import client_of, send


@pytest.mark.parametrize("node", ["g1-a", "g1-b"])
async def test_a_member_that_lost_what_it_is_in_its_group_does_not_serve_alone(node: str) -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        group.set(in_sync_min=1)
        assert group.broker(node).log.epoch == FIRST_EPOCH
        other = ({*group.hosts} - {node}).pop()
        host = group.hosts[node]
        host.kill()
        for names in (host.disk.names, host.disk.durable_names):
            del names[f"/{host.name}/{FILE_NAME}"]
        host.has_bad_disk = True
        group.cluster.network.cut(host.name, "meta")
        host.start()
        await group.serves(other)
        await group.in_sync(other)
        async with client_of(group.master) as client:
            sent += await send(client, range(20, 30))
        assert not host.is_serving
        assert f"/{host.name}/{FILE_NAME} is missing" in str(host.exits[-1])
        host.kill()
        group.cluster.network.heal()
        group.empty_disk(node)
        host.start()
        await group.in_sync("g1-a", "g1-b")
        assert await received(group) == sent
        await group.all_equal()
