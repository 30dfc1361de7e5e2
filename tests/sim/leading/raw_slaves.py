"""A slave that sends what it likes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qmq.net.caller import Caller
from tests.sim.leading.scene import Scene, ScriptedSlave, leading
from tests.support.waiting import eventually_async


@asynccontextmanager
async def with_a_good_slave() -> AsyncIterator[tuple[Scene, ScriptedSlave]]:
    """A master with slave b, which stays in sync until the end."""
    async with leading(commits_before=30) as scene:
        good = await scene.following("b")
        session = good.answer
        yield scene, good
        await scene.write()
        await eventually_async(lambda: len(scene.answered) == scene.sent)
        await eventually_async(lambda: good.has_all)
        good.check_log()
        assert good.answer is session
        assert good.is_connected
        assert scene.leading.counters.ended_sessions["rejected"] <= 1
        assert scene.leading.current_membership.in_sync[-1] == "b"


async def raw(scene: Scene) -> Caller:
    caller = Caller(*scene.listener.server.address)
    await caller.connect()
    return caller
