"""Two broker groups added under load: subjects spread, and every acknowledged message is consumed, once."""

import asyncio
from collections import Counter
from typing import Any

from tests.support.load.traffic import Traffic
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually, eventually_async, timed
from tests.support.whole import in_whole_fault_runs

pytestmark = in_whole_fault_runs

SUBJECTS = [f"subject{number:02}" for number in range(20)]


async def test_two_new_groups_take_a_share_of_20_subjects_under_load(plane: System) -> None:
    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = plane.get("/subjects/?limit=100")["results"]
        return found

    def is_balanced() -> bool:
        found = rows()
        load = Counter(group for row in found for group in row["broker_groups"])
        return not any(row["phases"] for row in found) and len(load) == 4 and max(load.values()) <= 12

    async with Traffic(plane.meta_url, SUBJECTS, ("billing", "audit"), per_second=10) as traffic:
        await traffic.begin_sending(plane)
        await eventually_async(lambda: all(traffic.acked.values()))
        for name in ("g3", "g4"):
            await asyncio.to_thread(plane.add_broker(name).start)
        with timed("20 subjects are moved", 150):
            await asyncio.to_thread(eventually, is_balanced, what="subjects are spread", every_s=ASK_SECONDS)
        assert all(len(row["broker_groups"]) == 2 for row in await asyncio.to_thread(rows))
        before = traffic.sent
        await eventually_async(lambda: traffic.sent > before + 400, what="400 more messages are sent")
        await traffic.end_sending()
        await traffic.check_received()
        traffic.check_received_once()
        assert not traffic.errors
    moves = (await asyncio.to_thread(plane.get, "/audit/?action=route.step&limit=100"))["results"]
    assert moves
    assert all(entry["reason"] for entry in moves)
