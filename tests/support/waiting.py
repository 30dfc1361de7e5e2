"""Wait for a condition, with a deadline; never for time to pass."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.sim.loop import SimulatedLoop

T = TypeVar("T")
LOOK_SECONDS = 0.01
ASK_SECONDS = 0.25
"""Between looks by the API: it answers 300 questions of one person a minute about messages, 1,200 others."""
PATIENCE = 2
"""Deadlines are for a machine that does nothing else. Where other tests want its cores and its disk, so many times that."""
IS_ALONE = os.environ.get("QMQ_FAULTS") == "full"
"""`make faults` has the machine for itself: what the product promises in seconds is held against the clock there."""


def promised(seconds: float) -> float:
    """What a promise of the product may take in this run: itself where tests run alone, else with PATIENCE."""
    return seconds if IS_ALONE else seconds * PATIENCE


async def within(awaitable: Awaitable[T], seconds: float) -> T:
    """Its result.

    Raises:
        TimeoutError: Not within so many seconds, with PATIENCE unless time is virtual.
    """
    return await asyncio.wait_for(awaitable, seconds * _patience())


def _patience() -> int:
    return 1 if isinstance(asyncio.get_running_loop(), SimulatedLoop) else PATIENCE


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
    loop = asyncio.get_running_loop()
    seconds = within_s * _patience()
    deadline = loop.time() + seconds
    while True:
        value = condition()
        if value:
            return value
        if loop.time() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what or condition}")
        await asyncio.sleep(LOOK_SECONDS)
