"""A broker that is killed: its group is offline in the API, others take what is sent, and it comes back by itself."""

import asyncio
from pathlib import Path

import pytest

from tests.served.conformance.driver import NEWEST, JavaClient
from tests.support.load.traffic import Traffic
from tests.support.promises import judging
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually, eventually_async, timed


async def test_a_killed_broker_is_offline_in_the_api_within_10_s_and_comes_back_by_itself(plane: System) -> None:

    async def becomes(group: str, state: str, limit_s: float) -> None:
        with timed(f"{group} is {state}", limit_s):
            await asyncio.to_thread(
                eventually,
                lambda: plane.group(group)["state"] == state,
                what=f"{group} is {state}",
                every_s=ASK_SECONDS,
            )

    async with Traffic(plane.meta_url, ["orders", "payments"], ("billing", "audit"), per_second=50) as traffic:
        await traffic.begin_sending(plane)
        await eventually_async(lambda: traffic.sent > 100)
        plane.brokers["g1"].kill()
        await becomes("g1", "offline", 10)
        assert (await asyncio.to_thread(plane.group, "g2"))["state"] == "read_write"
        before = traffic.sent
        await eventually_async(lambda: traffic.sent > before + 100, what="the other group takes everything")
        plane.brokers["g1"].start()
        await becomes("g1", "read_write", 15)
        before = traffic.sent
        await eventually_async(lambda: traffic.sent > before + 100)
        await traffic.end_sending()
        await traffic.check_received()
        # A send whose answer was lost with the broker is tried again elsewhere: no error, at most a copy.
        assert not traffic.errors
    entries = (await asyncio.to_thread(plane.get, "/audit/?target=g1&limit=20"))["results"]
    assert any("heartbeat" in entry["reason"] for entry in entries), entries


@pytest.mark.usefixtures("java_tools")
def test_the_official_client_goes_on_while_a_broker_is_killed(plane: System, tmp_path: Path) -> None:
    client = JavaClient(NEWEST, plane.meta_url, "java@@failover", tmp_path / "java.log")
    try:
        client.do("listen", subject="orders", group="g", name="orders/g")
        client.wait("listening", 1)

        def has_begun(name: str) -> bool:
            found = plane.admin(name, "/stats?subject=orders")["subjects"]
            return any(group["group"] == "g" for item in found for group in item["groups"])

        eventually(lambda: all(has_begun(name) for name in ("g1", "g2")), what="the group begins on both")

        def settled() -> int:
            return len(client.of("sent")) + len(client.of("failed"))

        client.do("send", subject="orders", count=200)
        eventually(lambda: settled() >= 100)
        plane.brokers["g1"].kill()
        eventually(lambda: plane.group("g1")["state"] == "offline", what="its group is offline", every_s=ASK_SECONDS)
        eventually(lambda: settled() >= 200, what="every send is settled")
        before = len(client.of("sent"))
        client.do("send", subject="orders", count=200)
        eventually(lambda: len(client.of("sent")) >= before + 200, what="the other group takes all of them")
        plane.brokers["g1"].start()
        eventually(lambda: plane.group("g1")["state"] == "read_write", what="it is back by itself", every_s=ASK_SECONDS)
        sent = {event["id"] for event in client.of("sent")}
        with judging():
            eventually(lambda: sent <= {event["id"] for event in client.of("message")}, what="every message comes")
    finally:
        client.stop()
