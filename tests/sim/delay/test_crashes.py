"""F33: the delay node is killed, or its host loses power, while thousands of messages fall due in one second."""

import asyncio
import random
from typing import cast

import pytest

from broker_node.broker import Broker
from delay_node.delay_node import DelayNode
from qmq.protocol.delayed import DelayedTarget, Operation, Outcome
from qmq.protocol.messages import Message
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import connected, delayed, now_ms, stored_in
from tests.support.promises import judging

COUNT = 4_000
CANCELLED = COUNT // 50
BATCH = 500
LEAD_MS = 5_000
"""All is sent and cancelled before the burst begins."""
CATCH_UP_SECONDS = 5.0
"""After its start the delay node has delivered everything overdue."""


def stored(cluster: Cluster) -> list[Message]:
    return stored_in([cast(Broker, host.server) for host in cluster.brokers.values()], "orders")


@pytest.mark.slow
@pytest.mark.parametrize("has_power", [True, False])
@pytest.mark.parametrize("after_ms", [-1, 300, 999])
async def test_f33_a_crash_around_a_burst_in_one_second(after_ms: int, has_power: bool) -> None:
    loop, rng = running_loop(), random.Random(33)
    # Without a checkpoint the next start learns what was cancelled from the log alone.
    async with Cluster(loop, brokers=2, delays=1, delay_settings={"checkpoint_seconds": 3_600.0}) as cluster:
        host = cluster.delays["d1"]
        second = (now_ms() + LEAD_MS) // 1000 * 1000
        dues = [second + rng.randrange(1_000) for _ in range(COUNT)]
        gone = rng.sample(range(COUNT), CANCELLED)
        async with connected(cast(DelayNode, host.server)) as client:
            for at in range(0, COUNT, BATCH):
                batch = [delayed(at + i, due) for i, due in enumerate(dues[at : at + BATCH])]
                assert await client.send(*batch) == {}
            changes = await client.change(
                Operation.CANCEL, *[DelayedTarget(f"m{n}", "orders", dues[n]) for n in sorted(gone)]
            )
            assert {change.outcome for change in changes} == {Outcome.DONE}
        crash_at = second + after_ms
        await asyncio.sleep((crash_at - now_ms()) / 1000)
        before = stored(cluster)
        with judging():
            assert all(item.time_ms <= crash_at for item in before), "early"
        due = sum(due_ms <= crash_at - 100 for due_ms in dues)
        assert due * 0.9 <= len(before) < COUNT
        if has_power:
            host.kill()
        else:
            host.cut_power()
            cluster.network.power_on(host.name)
        host.start()
        expected = {f"m{n}" for n in range(COUNT)} - {f"m{n}" for n in gone}
        await asyncio.sleep(CATCH_UP_SECONDS)
        with judging():
            assert {item.message_id for item in stored(cluster)} == expected, (
                "each at least once, none that was cancelled"
            )
