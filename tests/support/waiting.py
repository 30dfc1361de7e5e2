"""Wait for a condition, with a deadline; never for time to pass."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK_SECONDS = 0.01
PATIENCE = 2
"""Deadlines are for a machine that does nothing else. Where other tests want its cores and its disk, so many times that."""


def eventually(
    condition: Callable[[], T], within_s: float = 10.0, what: str = "", *, every_s: float = LOOK_SECONDS
) -> T:
    """The condition's first true value; fails the test when there is none in time. `every_s`: between looks that cost something."""
    deadline = time.monotonic() + within_s * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s * PATIENCE:g} s: {what or condition}")
        time.sleep(every_s)


async def eventually_async(condition: Callable[[], T], within_s: float = 10.0, what: str = "") -> T:
    """As `eventually`, letting the event loop go on."""
    deadline = time.monotonic() + within_s * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s * PATIENCE:g} s: {what or condition}")
        await asyncio.sleep(LOOK_SECONDS)
