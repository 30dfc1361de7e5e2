"""Promotions by metaservers that share a database, of scripted nodes: at once, and with the database failing meanwhile."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup
from metaserver.memory.live_groups import EXPIRY_SECONDS
from metaserver.server import Metaserver
from qmq.protocol.codes import BrokerRequestType, ClientType, Command, ReplicaRole
from qmq.protocol.group_memberships import GroupMembership
from qmq.protocol.reasons import Reason
from qmq_node.replication.rules.membership import Membership
from tests.sim.metaserver.repositories import FaultyRepository
from tests.sim.world.database import Database, SimulatedRepository
from tests.sim.world.loop import running_loop
from tests.support.drivers.metaserver_peers import Peer, peer, running
from tests.support.manual_clock import ManualClock
from tests.support.stored_groups import changed
from tests.support.waiting import eventually_async

PROMOTION = "00000000-0000-4000-8000-000000000003"
PORTS = {"g1-a": 1, "g1-b": 2, "g1-c": 3}


def stored_group(kind: GroupKind = GroupKind.BROKER, members: int = 2) -> BrokerGroup:
    nodes = tuple(PORTS)[:members]
    membership = Membership("g1", nodes, "g1-a", nodes, 3, 7, PROMOTION, copies=members)
    return BrokerGroup(kind, GroupState.READ_WRITE, membership)


GROUP = stored_group()


@dataclass
class Scene:
    """Metaservers over one database, and a group of a master and slaves that are in sync, with a connection to each of them."""

    clock: ManualClock
    repository: FaultyRepository
    metaservers: list[Metaserver]
    peers: dict[str, list[Peer]]
    """By node id, in the order of the metaservers."""

    async def heartbeats(self, *nodes: str, silent_ms: int = 10, **values: object) -> None:
        """A second passes, with heartbeats of these nodes, then the metaservers check their leases."""
        self.clock.advance(1.0)
        for node in nodes:
            for place, connection in enumerate(self.peers[node]):
                group = self.metaservers[place].directory.groups["g1"].group
                is_master = group.membership.master == node
                role = ReplicaRole.MASTER if is_master else ReplicaRole.IN_SYNC
                answer = await connection.register(
                    "g1", node, kind=group.kind, port=PORTS[node], boot_id=node,
                    request_type=BrokerRequestType.HEARTBEAT,
                    **{
                        "log_end": 500,
                        "epoch": 3, "promotion_id": PROMOTION, "log_epoch": 3, "replica_role": role, "state": 1 if is_master else 4,
                        "master_silent_ms": -1 if is_master else silent_ms, **values,
                    },
                )  # type: ignore[arg-type]  # fmt: skip
                assert answer.accepted
        for metaserver in self.metaservers:
            metaserver.handlers.expire()

    async def fails(self) -> None:
        """The master's connections end, and it is silent from now on."""
        for connection in self.peers.pop("g1-a"):
            await connection.caller.close()
        await eventually_async(
            lambda: all("g1-a" in meta.directory.groups["g1"].disconnected_at for meta in self.metaservers)
        )

    async def until_promoted(self) -> None:
        """Wait until all metaservers know that the first slave is the master."""
        for _ in range(20):
            await self.heartbeats(*self.peers, silent_ms=3000, replica_role=ReplicaRole.IN_SYNC, state=4)
            await eventually_async(lambda: not any(meta.handlers.promotions._running for meta in self.metaservers))
            for metaserver in self.metaservers:
                await metaserver.serving.reload()
            if self.masters == {"g1-b"}:
                return
        raise AssertionError(str([meta.handlers.promotions.blocked for meta in self.metaservers]))

    @property
    def masters(self) -> set[str]:
        """What the metaservers know."""
        return {meta.directory.groups["g1"].membership.master for meta in self.metaservers}


@asynccontextmanager
async def scene(folder: Path, metaservers: int = 1, group: BrokerGroup = GROUP) -> AsyncIterator[Scene]:
    repository, clock = FaultyRepository(), ManualClock()
    repository.groups["g1"] = group
    async with AsyncExitStack() as stack:
        metas = [
            await stack.enter_async_context(running(folder / str(number), clock, repository))
            for number in range(metaservers)
        ]
        nodes = group.membership.members
        peers = {node: [await stack.enter_async_context(peer(meta)) for meta in metas] for node in nodes}
        found = Scene(clock, repository, metas, peers)
        for _ in range(8):
            await found.heartbeats(*nodes)
        assert found.masters == {"g1-a"}
        yield found


async def test_a_master_with_an_empty_data_folder_is_replaced_though_its_log_was_never_reported(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        for _ in range(2):
            await found.heartbeats(
                "g1-a", replica_role=ReplicaRole.WAITING, epoch=1, promotion_id="", state=4,
                problems=(Reason("its data folder is empty"),),
            )  # fmt: skip
            await found.heartbeats("g1-b", silent_ms=3000)
            await eventually_async(lambda: not found.metaservers[0].handlers.promotions._running)
        assert found.repository.groups["g1"].membership.master == "g1-b"


@pytest.mark.parametrize("members", [2, 3])
@pytest.mark.parametrize(
    ("kind", "client_type"),
    [(GroupKind.BROKER, ClientType.CONSUMER), (GroupKind.DELAY, ClientType.DELAY_PRODUCER)],
)
async def test_a_slave_is_promoted_and_clients_are_sent_to_it_once_it_serves(
    tmp_path: Path, kind: GroupKind, client_type: ClientType, members: int
) -> None:
    async with (
        scene(tmp_path, group=stored_group(kind, members)) as found,
        peer(found.metaservers[0]) as client,
    ):
        client.ask("orders", client_type, "g")
        await eventually_async(lambda: len(client.pushed) == 1)
        await found.fails()
        await found.until_promoted()
        stored = found.repository.groups["g1"].membership
        others = tuple(PORTS)[1:members]
        assert (stored.master, stored.in_sync, stored.epoch, stored.version) == ("g1-b", others, 4, 8)
        (frame,) = [frame for frame in found.peers["g1-b"][0].pushed if frame.code == Command.ROLE][-1:]
        assert GroupMembership.decode(frame.body).master == "g1-b"
        await found.heartbeats("g1-b", epoch=4, replica_role=ReplicaRole.PROMOTED, state=4)
        assert len(client.pushed) == 1, "neither offline nor before it serves"
        await found.heartbeats("g1-b", epoch=4, log_epoch=4, replica_role=ReplicaRole.MASTER)
        await eventually_async(lambda: len(client.pushed) == 2)
        assert [answer.broker_groups[0].master for answer in client.answers()] == ["10.0.0.1:1", "10.0.0.1:2"]


async def test_of_two_metaservers_that_promote_at_once_one_does(tmp_path: Path) -> None:
    async with scene(tmp_path, metaservers=2) as found:
        await found.fails()
        await found.until_promoted()
        counters = [meta.serving.membership_changes.counters.changes for meta in found.metaservers]
        assert sorted(counters) == [0, 1]
        memberships = {meta.directory.groups["g1"].membership for meta in found.metaservers}
        assert memberships == {found.repository.groups["g1"].membership}
        assert found.repository.groups["g1"].membership.epoch == 4


async def test_a_slave_that_another_metaserver_saw_with_a_longer_log_is_not_promoted(tmp_path: Path) -> None:
    """An older copy of its data folder was put back, and this metaserver did not receive how far its log had reached."""
    async with scene(tmp_path) as found:
        (metaserver,) = found.metaservers
        nodes = found.repository.nodes
        nodes["g1-b"] = replace(nodes["g1-b"], log_end=900)
        await found.fails()
        for _ in range(4):
            await found.heartbeats("g1-b", silent_ms=3000)
            await eventually_async(lambda: not metaserver.handlers.promotions._running)
        assert found.repository.groups["g1"] == GROUP
        blocked = metaserver.handlers.promotions.blocked["g1"]
        assert "its log ends at 500, before the 900 that it reported" in blocked, "it knows that now"
        await found.heartbeats("g1-b", silent_ms=3000, log_end=900)
        await eventually_async(lambda: not metaserver.handlers.promotions._running)
        assert found.repository.groups["g1"].membership.master == "g1-b"


async def test_a_metaserver_stores_at_once_that_a_log_had_reached_a_higher_place(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        nodes = found.repository.nodes
        await found.heartbeats("g1-a", "g1-b")
        await eventually_async(lambda: nodes["g1-b"].log_end == 500)
        (connection,) = found.peers["g1-b"]
        values = {"port": 2, "boot_id": "g1-b", "epoch": 3, "log_epoch": 3, "state": 4}
        for end in (500, 900, 900, 600):
            await connection.register("g1", "g1-b", log_end=end, replica_role=ReplicaRole.WAITING, **values)
        await eventually_async(lambda: nodes["g1-b"].log_end == 900)


async def test_a_promotion_waits_for_the_database(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        found.repository.is_away = True
        await found.fails()
        for _ in range(4):
            await found.heartbeats("g1-b", silent_ms=3000)
        (metaserver,) = found.metaservers
        assert (found.masters, found.repository.groups["g1"]) == ({"g1-a"}, GROUP)
        assert "the database is away" in metaserver.handlers.promotions.blocked["g1"]
        assert metaserver.directory.groups["g1"].state is GroupState.READ_WRITE
        found.repository.is_away = False
        await found.until_promoted()


async def test_a_promotion_whose_reply_was_lost_is_one(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        found.repository.loses_replies = True
        await found.fails()
        await found.until_promoted()
        assert found.repository.groups["g1"].membership.epoch == 4, "it was not made twice"


async def test_no_slave_is_promoted_by_a_membership_from_a_backup(tmp_path: Path) -> None:
    """The backup names a slave as in sync that was removed since."""
    async with scene(tmp_path) as found:
        (metaserver,) = found.metaservers
        newer = changed(GROUP, in_sync=("g1-a",), in_sync_version=8)
        found.repository.groups["g1"] = newer
        found.repository.changes_made += 1
        await metaserver.serving.reload()
        found.repository.groups["g1"] = GROUP
        found.repository.changes_made += 1
        await metaserver.serving.reload()
        await found.fails()
        for _ in range(10):
            await found.heartbeats("g1-b", silent_ms=3000)
        assert (found.masters, found.repository.groups["g1"].membership.epoch) == ({"g1-a"}, 3)
        assert "node g1-b is not in sync" in metaserver.handlers.promotions.blocked["g1"]


@pytest.mark.parametrize("kind", GroupKind)
async def test_no_membership_from_a_backup_is_changed(tmp_path: Path, kind: GroupKind) -> None:
    group = stored_group(kind)
    async with scene(tmp_path, group=group) as found:
        (metaserver,) = found.metaservers
        found.repository.groups["g1"] = changed(group, in_sync_version=6)
        found.repository.changes_made += 1
        await metaserver.serving.reload()
        await found.fails()
        for _ in range(10):
            await found.heartbeats("g1-b", silent_ms=3000)
        assert found.masters == {"g1-a"}
        assert "the database was restored from a backup" in metaserver.handlers.promotions.blocked["g1"]


async def test_a_metaserver_that_observes_another_one_promotes_as_fast_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeats that the other one stored before the master failed are no sign of life afterwards."""
    clock, database = ManualClock(), Database(running_loop())
    database.stored.groups["g1"] = GROUP
    async with AsyncExitStack() as stack:
        metas = [
            await stack.enter_async_context(running(tmp_path / host, clock, SimulatedRepository(database, clock, host)))
            for host in ("meta", "meta2")
        ]
        nodes = GROUP.membership.members
        peers = {node: [await stack.enter_async_context(peer(meta)) for meta in metas] for node in nodes}
        found = Scene(clock, FaultyRepository(), metas, peers)

        async def observe() -> None:
            for meta in metas:
                await eventually_async(lambda meta=meta: not meta.serving.write_behind.has_work)  # type: ignore[misc]
                await meta.serving.reload()

        for _ in range(12):
            await found.heartbeats("g1-a", "g1-b")
            await observe()
        live = metas[0].directory.groups["g1"]
        assert live.peer_heartbeat_at is not None
        monkeypatch.setattr(metas[1].handlers.promotions, "check", lambda now: None)
        del found.peers["g1-a"]
        failed_at = clock.monotonic()
        while found.masters != {"g1-b"}:
            await found.heartbeats("g1-b", silent_ms=3000, replica_role=ReplicaRole.IN_SYNC, state=4)
            await observe()
            assert live.state is GroupState.READ_WRITE
            assert clock.monotonic() - failed_at < EXPIRY_SECONDS + 3, metas[0].handlers.promotions.blocked
        assert database.stored.groups["g1"].membership.epoch == 4
