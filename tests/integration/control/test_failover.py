"""A broker that is killed: its group is offline in the API, others take what is sent, and it comes back by itself."""

import asyncio
import time

from tests.support.control import ControlPlane
from tests.support.traffic import Traffic
from tests.support.waiting import eventually_async


async def test_a_killed_broker_is_offline_in_the_api_within_10_s_and_comes_back_by_itself(plane: ControlPlane) -> None:
    system = plane.system

    async def state(group: str) -> str:
        answer: dict[str, str] = await asyncio.to_thread(plane.group, group)
        return answer["state"]

    async def until(group: str, wanted: str, within_s: float) -> float:
        began = time.monotonic()
        while await state(group) != wanted:
            assert time.monotonic() - began < within_s, f"{group} is not {wanted} within {within_s:g} s"
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async with Traffic(system.meta_url, ["orders", "payments"], ("billing", "audit"), per_second=50) as traffic:
        traffic.begin_sending()
        await eventually_async(lambda: traffic.sent > 100, 20)
        system.brokers["g1"].kill()
        await until("g1", "offline", 10)
        assert await state("g2") == "read_write"
        before = traffic.sent
        await eventually_async(lambda: traffic.sent > before + 100, 10, "the other group takes everything")
        system.brokers["g1"].start()
        await until("g1", "read_write", 15)
        before = traffic.sent
        await eventually_async(lambda: traffic.sent > before + 100, 10)
        await traffic.end_sending()
        await eventually_async(lambda: not traffic.missing(), 30, "every acknowledged message came")
        assert not traffic.phantoms()
        # A send whose answer was lost with the broker is tried again elsewhere: no error, at most a copy.
        assert not traffic.errors
    entries = (await asyncio.to_thread(plane.get, "/audit/?target=g1&limit=20"))["results"]
    assert any("heartbeat" in entry["reason"] for entry in entries), entries
