"""Tests in this folder run in virtual time: coroutines on a simulated loop, with its network, disks and threads.

Clocks of the product that are not handed in read virtual time too.
"""

import os
from collections.abc import Callable, Mapping

import pytest

from qmq.clock import SYSTEM_RANDOM, SystemClock
from tests.sim import blocking
from tests.sim.loop import SimulatedClock, SimulatedLoop, running_loop
from tests.sim.world import World
from tests.support.results import SEED as SEED_PROPERTY

SEED = int(os.environ.get("QMQ_SIM_SEED", "1"))
"""Decides every delay and order of a test that names no seed of its own."""


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], SimulatedLoop]]:
    """Run each coroutine on a simulated loop."""
    return {"virtual": lambda: World(SEED)}


@pytest.fixture(autouse=True)
def virtual_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `SystemClock` read the clock of the simulated loop, and blocking clients wait in virtual time."""
    request.node.user_properties.append((SEED_PROPERTY, SEED))
    monkeypatch.setattr(SystemClock, "monotonic", lambda _: SimulatedClock(running_loop()).monotonic())
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: SimulatedClock(running_loop()).wall_ms())
    monkeypatch.setattr("qmq.clock.time", blocking.TIME)
    monkeypatch.setattr("socket.create_connection", blocking.create_connection)
    SYSTEM_RANDOM.seed(SEED)
