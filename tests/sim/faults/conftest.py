"""Fixtures of fault scenarios."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.sim.seed import SEED
from tests.sim.world.world import World


@pytest.fixture
def run_world() -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    """Run a coroutine in a simulated world of its own; for tests that need many."""

    def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        loop = World(SEED)
        try:
            loop.run_until_complete(scenario())
        finally:
            loop.close()

    return run
