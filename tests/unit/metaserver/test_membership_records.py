"""When nodes may get a membership: memberships of other groups, failures and groups that are gone do not hold it back."""

import asyncio
import logging
from dataclasses import replace

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Metadata
from metaserver.replication.membership_records import MembershipRecords
from qmq.supervisor import Supervisor
from qmq_node.replication.rules.membership import Membership
from tests.support.stored_groups import changed
from tests.unit.metaserver.clusters import Cluster


class Scene:
    """Two groups, and a route file whose saves the test ends."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.directory = self.cluster.directory
        self.saves: list[asyncio.Future[None]] = []
        self.sent: list[list[str]] = []
        supervisor = Supervisor(
            self.cluster.clock, logger=logging.getLogger("test"), on_failure=lambda name, error: None
        )
        self.records = MembershipRecords(self.directory, self._save, supervisor, self.sent.append)

    async def load(self) -> None:
        group = BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, Membership("g1", ("a",), "a", ("a",), 1, 1, ""))
        await self.cluster.stored.load(Metadata((group, changed(group, name="g2"))))

    async def _save(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self.saves.append(future)
        await future

    async def turns(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_a_membership_does_not_wait_for_that_of_another_group_which_changes_later() -> None:
    scene = Scene()
    await scene.load()
    records = scene.records
    records.record(["g1"])
    await scene.turns()
    waits = asyncio.ensure_future(records.recorded("g1"))
    records.record(["g2"])
    await scene.turns()
    assert (waits.done(), scene.sent, len(scene.saves)) == (False, [], 1)
    scene.saves[0].set_result(None)
    await scene.turns()
    assert (waits.done(), scene.sent, len(scene.saves)) == (True, [["g1"]], 2)
    assert (records.is_recorded("g1"), records.is_recorded("g2")) == (True, False)
    scene.saves[1].set_result(None)
    await scene.turns()
    assert (scene.sent, records.is_recorded("g2")) == ([["g1"], ["g2"]], True)


async def test_a_membership_that_changes_while_it_is_written_is_written_again() -> None:
    scene = Scene()
    await scene.load()
    scene.records.record(["g1"])
    await scene.turns()
    membership = scene.directory.groups["g1"].membership
    scene.directory.learn_membership(replace(membership, version=2))
    scene.records.record(["g1"])
    waits = asyncio.ensure_future(scene.records.recorded("g1"))
    scene.saves[0].set_result(None)
    await scene.turns()
    assert (scene.records.is_recorded("g1"), waits.done(), len(scene.saves)) == (False, False, 2)
    scene.saves[1].set_result(None)
    await scene.turns()
    assert (scene.records.is_recorded("g1"), waits.done()) == (True, True)


async def test_a_failure_holds_back_nothing_that_comes_later() -> None:
    scene = Scene()
    await scene.load()
    scene.records.record(["g1"])
    await scene.turns()
    waits = asyncio.ensure_future(scene.records.recorded("g1"))
    del scene.directory.groups["g1"]
    scene.saves[0].set_exception(OSError("an error that the file does not handle"))
    await scene.turns()
    assert (waits.done(), scene.records.is_recorded("g1")) == (True, False)
    scene.records.record(["g1", "g2"])
    await scene.turns()
    scene.saves[1].set_result(None)
    await scene.turns()
    assert (scene.records.is_recorded("g2"), scene.sent[-1]) == (True, ["g2"])
