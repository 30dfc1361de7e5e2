"""A pause over REST reaches the nodes by way of the database and the metaserver, holds pulls, and lets them go again."""

import asyncio
from collections.abc import Callable

from qmq import Consumer, Producer
from tests.support.servers.system import System
from tests.support.waiting import eventually_async

PATH = "/consumer-groups/orders/billing"


async def test_pause_holds_the_pulls_of_a_group_and_resume_releases_them(
    make_plane: Callable[..., System],
) -> None:
    plane = make_plane(groups=1)
    await asyncio.to_thread(plane.prepare)
    await asyncio.to_thread(plane.start_nodes)
    await asyncio.to_thread(plane.console.start)
    numbers = iter(range(1000))

    async with (
        Producer(plane.meta_url, app="test") as producer,
        Consumer(plane.meta_url, "orders", "billing", start="earliest") as consumer,
    ):

        async def send() -> str:
            return (await producer.send("orders", {"n": next(numbers)})).message_id

        async def take(seconds: float) -> list[str]:
            got = await consumer.pull(10, timeout=seconds)
            for delivery in got:
                await delivery.ack()
            return [delivery.message_id for delivery in got]

        first = await send()
        assert await take(20) == [first]
        await eventually_async(
            lambda: plane.ask("GET", f"{PATH}/").status == 200, what="the consumer made its group known"
        )
        await asyncio.to_thread(plane.post, f"{PATH}/pause/", {"reason": "deploy"})

        def is_held() -> bool:
            stats = plane.admin("g1", "/stats?subject=orders")["subjects"][0]
            return any(group["group"] == "billing" and group["paused"] for group in stats["groups"])

        await eventually_async(is_held, what="the pause is in force on the node")
        await take(1)  # what was asked for before the pause came may still be answered
        held = [await send() for _ in range(3)]
        assert await take(2) == []
        page = await asyncio.to_thread(plane.get, f"{PATH}/")
        assert (page["is_paused"], page["lag"], page["pause_reason"]) == (True, 3, "deploy")
        assert all(member["is_paused"] for member in page["members"])
        await asyncio.to_thread(plane.post, f"{PATH}/resume/")
        got: list[str] = []
        while len(got) < 3:
            more = await take(20)
            assert more, "released"
            got += more
        assert got == held
