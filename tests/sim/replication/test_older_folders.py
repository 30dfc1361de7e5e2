"""An only member with an older copy of its data folder accepts nothing before an operator has decided about what is missing."""

import asyncio
from typing import Any

import pytest

from qmq.protocol.messages import Message
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import connected, delayed, message, now_ms
from tests.support.waiting import eventually_async

REPORT_SECONDS = 4.0
"""Within this time the end of a node's log is stored."""


@pytest.mark.parametrize("name", ["g1", "d1"])
async def test_it_accepts_nothing_also_while_no_metaserver_can_be_reached(name: str) -> None:
    is_broker = name == "g1"
    async with Cluster(running_loop(), brokers=int(is_broker), delays=int(not is_broker)) as cluster:
        host = cluster.nodes[name]

        async def restarted(disk: Any) -> Any:
            host.kill()
            host.disk = disk
            host.start()
            await host.has_started.wait()
            return host.server

        async def send(number: int) -> dict[str, Any]:
            node: Any = host.server
            sent: Message = message(number) if is_broker else delayed(number, now_ms() + 3_600_000)
            async with connected(node) as client:
                return await client.send(sent)

        def refusal() -> str:
            node: Any = host.server
            return str(node.registration.refuse_sends()) if node is not None else ""

        assert await send(1) == {}
        older = host.disk.after_kill()
        assert await send(2) == {}
        await asyncio.sleep(REPORT_SECONDS)
        newest = host.disk.after_kill()
        await restarted(older)
        await eventually_async(lambda: "had reached" in refusal(), 60)
        cluster.meta.kill()
        await restarted(host.disk.after_kill())
        await asyncio.sleep(REPORT_SECONDS)
        assert refusal() == (
            "read only: its data folder is an older copy, or empty: acknowledged messages are missing, and no operator has accepted"
            " that, as far as this node knows"
        )
        assert list(await send(3)) == ["m3"]
        cluster.meta.start()
        await cluster.meta.has_started.wait()
        await eventually_async(lambda: "had reached" in refusal(), 60)
        await restarted(newest)
        await eventually_async(lambda: not refusal(), 60)
        assert await send(4) == {}
