"""Random writes, stalls, lost connections, crashes and unknown outcomes: the slaves end with the master's log, nothing is lost."""

import pytest

from qmq_node.replication.master import sender
from qmq_node.replication.rules.master import Master
from tests.sim.leading.scene import Scene, ScriptedSlave, leading, membership
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async

STEPS = 150
SIZES = (0, 10, 100, 1_000, 3_000, 7_000)
WINDOWS = (1, 200, 3_000, 20_000, 1 << 20)
SYNCS = (0.0005, 0.002, 0.02, 0.3)


class Oracle:
    """What each member has confirmed, computed from the frames of the slaves alone."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def check(self) -> None:
        """The high watermark is not above what a counted member has on its disk, and answers are those below it."""
        scene, high_watermark = self._scene, self._scene.committer.high_watermark
        assert high_watermark <= scene.log.synced_end
        for member in {*scene.store.membership.in_sync, *scene.leading.current_membership.in_sync} - {"m"}:
            slave = scene.slaves[member]
            assert slave.synced_end >= high_watermark
            assert max(slave.confirmed_ends, default=0) >= high_watermark
        assert scene.answered == list(range(len(scene.answered)))


async def crash(slave: ScriptedSlave) -> None:
    """The slave's process ends, and its machine loses what it has not synced."""
    await slave.disconnect()
    while slave.commits and slave.commits[-1].end > slave.synced_end:
        slave.commits.pop()


async def wipe(scene: Scene, slave: ScriptedSlave) -> None:
    """A slave that nothing rests on gets an empty disk."""
    await slave.disconnect()
    value: Master = scene.leading.master.value
    if slave.node_id not in value.counted and slave.node_id not in scene.store.membership.in_sync:
        slave.commits.clear()
        slave.segment_sizes.clear()
        slave.confirmed_ends.clear()
        slave.synced_end = 0


async def connect(scene: Scene, slave: ScriptedSlave) -> None:
    if slave.is_connected:
        await slave.disconnect()
    await slave.follow(window_bytes=running_loop().rng(f"window {scene.sent}").choice(WINDOWS))


async def run(seed: int) -> None:
    loop = running_loop()
    rng = loop.rng(f"scenario {seed}")
    in_sync = rng.choice([("m",), ("m", "a"), ("m", "a", "b")])
    async with leading(membership(*in_sync, in_sync_min=rng.choice([1, 2])), commits_before=0) as scene:
        scene.leading._feed._bytes_max = rng.choice([1_000, 10_000, 64 << 20])
        oracle = Oracle(scene)
        slaves = [scene.slave("a"), scene.slave("b")]
        for _ in range(STEPS):
            slave = rng.choice(slaves)
            kind = rng.randrange(20)
            if kind < 8:
                for _ in range(rng.choice([1, 1, 3, 20])):
                    scene.append(rng.choice(SIZES))
            elif kind < 11:
                await scene.wait(rng.choice([0.001, 0.01, 0.2, 1.0, 4.0]))
            elif kind < 14:
                if not slave.is_connected or rng.random() < 0.2:
                    await connect(scene, slave)
            elif kind == 14:
                if slave.caller is not None:
                    await slave.disconnect()
            elif kind == 15:
                slave.is_stalled = True
            elif kind == 16:
                slave.resume()
            elif kind == 17:
                slave.sync_seconds = rng.choice(SYNCS)
            elif kind == 18 and slave.caller is not None:
                await (wipe(scene, slave) if rng.random() < 0.5 else crash(slave))
            else:
                scene.store.outcomes = [rng.choice(["lost", "away", "done"]) for _ in range(3)]
            oracle.check()
        scene.store.outcomes = []
        for slave in slaves:
            slave.sync_seconds = 0.002
            slave.resume()
            if not slave.is_connected:
                await connect(scene, slave)
        await eventually_async(
            lambda: scene.leading.current_membership == scene.store.membership and all(s.in_sync for s in slaves), 20.0
        )
        await eventually_async(lambda: len(scene.answered) == scene.sent)
        await eventually_async(lambda: all(slave.has_all for slave in slaves))
        for slave in slaves:
            slave.check_log()
        oracle.check()
        assert scene.leading.counters.rejected_confirmations == {}
        assert scene.leading.counters.alarms == 0


@pytest.mark.parametrize("seed", range(40))
async def test_random_faults_lose_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "READ_BYTES", 5_000)
    await run(seed)
