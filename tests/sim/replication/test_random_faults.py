"""Members of a group under random kills, power cuts, stops, promotions and switch-overs: nothing acknowledged is lost."""

import asyncio
import os
from random import Random

import pytest

from tests.sim.replication.pair import client_of, members, stored
from tests.sim.replication.storms import Storm, settle
from tests.sim.world.loop import running_loop

SEEDS = 400 if os.environ.get("QMQ_SIM") == "full" else 30
STEPS = 12


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_nothing_acknowledged_is_lost(seed: int, count: int) -> None:
    rng = Random(seed)
    async with members(running_loop(), count, in_sync_min=rng.choice((1, 2))) as group:
        storm = Storm(group, rng)
        await group.promote("g1-a")
        producing = asyncio.create_task(storm.produce())
        for _ in range(STEPS):
            await storm.step()
        await settle(group)
        await asyncio.sleep(1)
        for task in (producing, *storm.switches):
            task.cancel()
        await asyncio.wait([producing, *storm.switches])
        assert not any(task.exception() for task in storm.switches if not task.cancelled())
        await group.all_equal()
        states = group.states()
        assert all(state == states[0] for state in states)
        async with client_of(group.broker(group.membership.value.master)) as client:
            found = await stored(client)
    assert len(storm.acknowledged) > 10
    assert len(found) == len(set(found)), "a message is stored twice"
    assert set(storm.acknowledged) <= set(found)
    acknowledged = set(storm.acknowledged)
    assert [name for name in found if name in acknowledged] == storm.acknowledged, (
        "acknowledged messages changed their order"
    )
