"""Tests in this folder run in virtual time: coroutines on a simulated loop, with its network, disks and threads.

Clocks of the product that are not handed in read virtual time too.
"""

from collections.abc import Callable, Iterator, Mapping

import pytest

from qmq.clock import SYSTEM_RANDOM, SystemClock
from tests.sim.seed import SEED
from tests.sim.world import blocking
from tests.sim.world.loop import SimulatedClock, SimulatedLoop, running_loop
from tests.sim.world.world import World
from tests.support.runner.results import SEED as SEED_PROPERTY

WORLDS: list[World] = []
"""The loops of the present test."""


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], SimulatedLoop]]:
    """Run each coroutine on a simulated loop."""

    def new() -> World:
        WORLDS.append(World(SEED))
        return WORLDS[-1]

    return {"virtual": new}


@pytest.fixture(autouse=True)
def virtual_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let `SystemClock` read the clock of the simulated loop, and blocking clients wait in virtual time.

    At the end no exception has reached the loop: one that a test expects it takes from `running_loop().errors`.
    """
    request.node.user_properties.append((SEED_PROPERTY, SEED))
    monkeypatch.setattr(SystemClock, "monotonic", lambda _: SimulatedClock(running_loop()).monotonic())
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: SimulatedClock(running_loop()).wall_ms())
    monkeypatch.setattr("qmq.clock.time", blocking.TIME)
    monkeypatch.setattr("socket.create_connection", blocking.create_connection)
    SYSTEM_RANDOM.seed(SEED)
    yield
    errors = [error for world in WORLDS for error in world.errors]
    WORLDS.clear()
    assert not errors, f"exceptions reached the loop: {errors[:3]}"
