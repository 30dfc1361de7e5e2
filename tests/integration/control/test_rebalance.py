"""Two broker groups added under load: subjects spread, and every acknowledged message is consumed, once."""

import asyncio
import time
from collections import Counter
from typing import Any

from tests.support.control import ControlPlane
from tests.support.traffic import Traffic
from tests.support.waiting import eventually_async
from tests.support.whole import in_whole_fault_runs

pytestmark = in_whole_fault_runs

SUBJECTS = [f"subject{number:02}" for number in range(20)]


async def test_two_new_groups_take_a_share_of_20_subjects_under_load(plane: ControlPlane) -> None:
    system = plane.system

    async def routes() -> dict[str, dict[str, Any]]:
        rows = (await asyncio.to_thread(plane.get, "/subjects/?limit=100"))["results"]
        return {row["name"]: row for row in rows}

    async with Traffic(system.meta_url, SUBJECTS, ("billing", "audit"), per_second=10) as traffic:
        await traffic.begin_sending(system)
        await eventually_async(lambda: all(traffic.acked.values()), 30)
        for name in ("g3", "g4"):
            await asyncio.to_thread(system.add_broker(name).start)
        began = time.monotonic()
        while True:
            rows = await routes()
            load = Counter(group for row in rows.values() for group in row["broker_groups"])
            if not any(row["phases"] for row in rows.values()) and max(load.values()) <= 12:
                break
            assert time.monotonic() - began < 150, (load, await asyncio.to_thread(plane.loop, "moves"))
            await asyncio.sleep(0.5)
        assert set(load) == {"g1", "g2", "g3", "g4"}, load
        assert all(len(row["broker_groups"]) == 2 for row in rows.values())
        before = traffic.sent
        await eventually_async(lambda: traffic.sent > before + 400, 20, "the load goes on")
        await traffic.end_sending()
        await traffic.check_received()
        traffic.check_received_once()
        assert not traffic.errors
    moves = (await asyncio.to_thread(plane.get, "/audit/?action=route.step&limit=100"))["results"]
    assert moves
    assert all(entry["reason"] for entry in moves)
