"""A master and the real slaves' side: the logs become equal, records are applied, and answers wait for both."""

import asyncio
from random import Random

import pytest

from qmq_node.commits.applying import Applying
from qmq_node.replication.master import sender
from qmq_node.replication.slave.follow_outcomes import FollowerIdentity, MustCopy
from qmq_node.replication.slave.follower import Follower
from tests.sim.leading.scene import EPOCH, PROMOTION, SECRET, Scene, leading, membership
from tests.sim.replication.following import Payloads, payloads_of
from tests.sim.world.loop import running_loop
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import assert_prefix, opened_copy, slave_copy_of
from tests.support.drivers.in_process import machine
from tests.support.drivers.logs import drop_before
from tests.support.waiting import eventually_async


class RealSlave:
    """A follower with its log on a disk of its own."""

    def __init__(self, scene: Scene, node_id: str, disk: MemoryDisk) -> None:
        self.scene, self.node_id, self.disk = scene, node_id, disk
        self.log, _ = opened_copy(disk)
        self.store = Payloads()
        self.failures: list[BaseException] = []
        on = machine()
        self.follower = Follower(
            self.log,
            slave_copy_of(self.log, EPOCH, PROMOTION, on.clock)[0],
            FollowerIdentity("g1", node_id, "boot", SECRET, EPOCH, PROMOTION, ""),
            Applying(self.log, self.store),
            on.clock,
            scene.new_supervisor(),
            on.start_thread,
            self.failures.append,
        )
        host, port = scene.listener.server.address
        self.task = asyncio.create_task(self.follower.run(f"{host}:{port}"))

    @property
    def synced_end(self) -> int:
        return self.log.synced_end

    @property
    def in_sync(self) -> bool:
        return self.node_id in self.scene.leading.current_membership.in_sync

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        self.log.close()


def all_equal(scene: Scene, slaves: list[RealSlave]) -> bool:
    return all(slave.log.written_end == scene.log.written_end for slave in slaves)


@pytest.mark.parametrize("seed", range(6))
async def test_logs_become_equal_and_records_are_applied(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    monkeypatch.setattr(sender, "READ_BYTES", 5_000)
    async with leading(membership(in_sync_min=1), commits_before=30) as scene:
        scene.append()
        slaves = {name: RealSlave(scene, name, MemoryDisk()) for name in ("a", "b")}
        scene.slaves = dict(slaves)  # type: ignore[arg-type]
        for _ in range(60):
            kind = rng.randrange(8)
            if kind < 5:
                for _ in range(rng.choice([1, 5, 30])):
                    scene.append(rng.choice([0, 50, 1_000, 6_000]))
                await scene.wait(rng.choice([0.0, 0.001, 0.2]))
            elif kind == 5:
                name = rng.choice("ab")
                await slaves[name].stop()
                await scene.wait(rng.choice([0.0, 0.2, 1.5]))
                slaves[name] = RealSlave(scene, name, slaves[name].disk)
                scene.slaves[name] = slaves[name]  # type: ignore[assignment]
            elif kind == 6:
                for end in list(running_loop().network.connections())[:1]:
                    running_loop().network.reset(end)
            else:
                await scene.wait(4.0)
        present = list(slaves.values())
        scene.append()
        await eventually_async(lambda: all(slave.in_sync for slave in present))
        await eventually_async(lambda: len(scene.answered) == scene.sent)
        await eventually_async(lambda: all_equal(scene, present))
        await eventually_async(lambda: all(s.log.high_watermark == scene.log.high_watermark for s in present))
        for slave in present:
            assert_prefix(slave.log, scene.log)
            assert slave.store.payloads == payloads_of(scene.log)[-len(slave.store.payloads) :]
            assert slave.failures == []
        assert scene.leading.counters.alarms == 0
        assert scene.leading.counters.rejected_confirmations == {}
        for slave in present:
            await slave.stop()


async def test_a_slave_that_is_too_far_behind_is_told_to_copy() -> None:
    async with leading(commits_before=120) as scene:
        await asyncio.to_thread(drop_before, scene.log, 9_000)
        slave = RealSlave(scene, "a", MemoryDisk())
        await asyncio.wait([slave.task])
        with pytest.raises(MustCopy, match="the slave's log ends at 0, and the master's begins at 8192"):
            slave.task.result()
        slave.log.close()
