"""F25, F26: the wall clock of one machine steps while it serves."""

import asyncio

import pytest

from tests.sim.faults.scenario import NETWORK_SECONDS, running

HOUR_MS = 3_600_000


@pytest.mark.parametrize("name", ["g1", "meta"])
async def test_f25_a_clock_that_steps_costs_no_lease_and_no_message(name: str) -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        scenario.add_producer("p2", at_once=2)
        await asyncio.sleep(2)
        began = scenario.loop.now
        for offset_ms in (HOUR_MS, 0, -HOUR_MS, 0, *(30_000, -30_000) * 5, 0):
            scenario.host(name).clock.offset_ms = offset_ms
            await asyncio.sleep(2)
        assert scenario.changes_since(began) == []
        assert max(send.seconds for send in scenario.sends if send.ended) < NETWORK_SECONDS
        await scenario.settle()
        assert {send.attempts for send in scenario.sends} == {1}
