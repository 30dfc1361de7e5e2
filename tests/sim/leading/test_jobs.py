"""An exception in each job of a master with slaves: it is reported and may cause a delay, and replication continues."""

from collections.abc import Awaitable, Callable

import pytest

from qmq.protocol.codes import Command
from qmq.protocol.replication import LOG_FILE, ReadCopyRequest, ReadRangeRequest
from tests.served.supervision.jobs import LEADING
from tests.sim.leading.scene import EPOCH, PROMOTION, Scene, leading
from tests.support.waiting import eventually_async

Exercise = Callable[[Scene], Awaitable[object]]


async def _write(scene: Scene) -> None:
    await scene.write()


async def _wait(scene: Scene) -> None:
    await scene.wait(1.5)


async def _ask(scene: Scene) -> None:
    slave = scene.slave("a")
    caller = await slave.connect()
    caller.call_soon(217, slave.request().encode()).add_done_callback(lambda future: future.exception())
    await scene.wait(0.1)
    await caller.close()


async def _change(scene: Scene) -> None:
    await scene.slave("a").follow()


async def _read(scene: Scene) -> None:
    await scene.slave("a").follow()


async def _read_state(scene: Scene) -> None:
    caller = await scene.slave("a").connect()
    request = ReadCopyRequest("g1", "a", EPOCH, PROMOTION, 0, 0, 100)
    caller.call_soon(220, request.encode()).add_done_callback(lambda future: future.exception())
    await scene.wait(0.1)
    await caller.close()


async def _read_range(scene: Scene) -> None:
    caller = await scene.slave("a").connect()
    request = ReadRangeRequest("g1", "a", EPOCH, PROMOTION, LOG_FILE, 0, 0, 100)
    caller.call_soon(Command.READ_RANGE, request.encode()).add_done_callback(lambda future: future.exception())
    await scene.wait(0.1)
    await caller.close()


EXERCISES: dict[str, Exercise] = {
    "replication_checks": _wait,
    "replication_connections": _wait,
    "replication_feed": _write,
    "replication_send": _write,
    "replication_read": _read,
    "replication_membership_change": _change,
    "replication_follow": _ask,
    "replication_copy": _read_state,
    "replication_range": _read_range,
}


def test_every_job_is_here() -> None:
    # A node has the port for slaves before it has any.
    assert set(EXERCISES) == LEADING["every"] | LEADING["one_shot"] | {"replication_connections"}


@pytest.mark.parametrize("name", EXERCISES)
async def test_a_job_that_fails_is_reported_and_delays_only(name: str) -> None:
    async with leading(commits_before=3) as scene:
        good = await scene.following("b")
        scene.expected_failures = {name}
        scene.supervisor.broken = frozenset({name})
        await EXERCISES[name](scene)
        await eventually_async(lambda: name in scene.supervisor.failing())
        assert set(scene.supervisor.failing()) == {name}
        scene.supervisor.broken = frozenset()
        slave = scene.slave("a")
        await slave.follow()
        await scene.write()
        await eventually_async(lambda: slave.in_sync and len(scene.answered) == scene.sent)
        await eventually_async(lambda: good.has_all and slave.has_all)
        assert good.in_sync
