"""A broker that is killed: its group is offline in the API, others take what is sent, and it comes back by itself."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.conformance.driver import NEWEST, JavaClient
from tests.support.control import ControlPlane
from tests.support.promises import judging
from tests.support.traffic import Traffic
from tests.support.waiting import ASK_SECONDS, eventually, eventually_async, promised


async def test_a_killed_broker_is_offline_in_the_api_within_10_s_and_comes_back_by_itself(plane: ControlPlane) -> None:
    system = plane.system

    async def state(group: str) -> str:
        answer: dict[str, str] = await asyncio.to_thread(plane.group, group)
        return answer["state"]

    async def until(group: str, wanted: str, within_s: float) -> float:
        began = time.monotonic()
        while await state(group) != wanted:
            assert time.monotonic() - began < promised(within_s), (
                f"{group} is not {wanted} within {promised(within_s):g} s"
            )
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async with Traffic(system.meta_url, ["orders", "payments"], ("billing", "audit"), per_second=50) as traffic:
        await traffic.begin_sending(system)
        await eventually_async(lambda: traffic.sent > 100, 60)
        system.brokers["g1"].kill()
        await until("g1", "offline", 10)
        assert await state("g2") == "read_write"
        before = traffic.sent
        await eventually_async(lambda: traffic.sent > before + 100, 60, "the other group takes everything")
        system.brokers["g1"].start()
        await until("g1", "read_write", 15)
        before = traffic.sent
        await eventually_async(lambda: traffic.sent > before + 100, 60)
        await traffic.end_sending()
        await traffic.check_received()
        # A send whose answer was lost with the broker is tried again elsewhere: no error, at most a copy.
        assert not traffic.errors
    entries = (await asyncio.to_thread(plane.get, "/audit/?target=g1&limit=20"))["results"]
    assert any("heartbeat" in entry["reason"] for entry in entries), entries


@pytest.mark.usefixtures("java_tools")
def test_the_official_client_goes_on_while_a_broker_is_killed(plane: ControlPlane, tmp_path: Path) -> None:
    system = plane.system
    client = JavaClient(NEWEST, system.meta_url, "java@@failover", tmp_path / "java.log")
    try:
        client.do("listen", subject="orders", group="g", name="orders/g")
        client.wait("listening", 1)

        def has_begun(name: str) -> bool:
            found = system.admin(name, "/stats?subject=orders")["subjects"]
            return any(group["group"] == "g" for item in found for group in item["groups"])

        eventually(lambda: all(has_begun(name) for name in ("g1", "g2")), 20, "the group begins on both")

        def settled() -> int:
            return len(client.of("sent")) + len(client.of("failed"))

        client.do("send", subject="orders", count=200)
        eventually(lambda: settled() >= 100, 30)
        system.brokers["g1"].kill()
        eventually(lambda: plane.group("g1")["state"] == "offline", 30, "its group is offline", every_s=ASK_SECONDS)
        eventually(lambda: settled() >= 200, 60, "every send is settled")
        before = len(client.of("sent"))
        client.do("send", subject="orders", count=200)
        eventually(lambda: len(client.of("sent")) >= before + 200, 60, "the other group takes all of them")
        system.brokers["g1"].start()
        eventually(lambda: plane.group("g1")["state"] == "read_write", 30, "it is back by itself", every_s=ASK_SECONDS)
        sent = {event["id"] for event in client.of("sent")}
        with judging():
            eventually(lambda: sent <= {event["id"] for event in client.of("message")}, 90, "every message comes")
    finally:
        client.stop()
