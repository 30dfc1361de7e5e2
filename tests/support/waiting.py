"""Wait for a condition, until the limit of the test; never for time to pass."""

import asyncio
import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

from tests.sim.world.loop import SimulatedLoop

T = TypeVar("T")
LOOK_SECONDS = 0.01
ASK_SECONDS = 0.25
"""Between looks by the API: it answers 300 questions of one person a minute about messages, 1,200 others."""
LIMIT_SHARE = 0.9
"""Of a test's limit, for the conditions it waits for: the failure names the condition before pytest-timeout ends the test."""
DEFAULT_SECONDS = 300.0
"""For a condition outside of a test."""
VIRTUAL_SECONDS = 10.0
"""For a condition in virtual time, unless a test names another limit."""


class FigureAboveLimit(UserWarning):
    """Something took longer than an idle machine needs for it. pytest lists these warnings at the end of a run."""


def figure(what: str, seconds: float, limit_s: float = math.inf) -> None:
    """Print what took how long beside its limit: `figure: WHAT: 6.8 s of 10`. See figures with `pytest -rP`.

    A figure above its limit is a warning and fails nothing: how fast a busy machine is says nothing about correctness.
    """
    print(f"figure: {what}: {seconds:.1f} s" + (f" of {limit_s:g}" if limit_s < math.inf else ""))
    if seconds > limit_s:
        warnings.warn(f"{what}: {seconds:.1f} s, the limit is {limit_s:g} s", FigureAboveLimit, stacklevel=2)


@contextlib.contextmanager
def timed(what: str, limit_s: float) -> Iterator[None]:
    """Print the seconds that the block takes as a figure."""
    began = time.monotonic()
    yield
    figure(what, time.monotonic() - began, limit_s)


_ends_at: float | None = None
"""Of the running test's limit, in monotonic seconds."""


@contextlib.contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """Inside the block, conditions have LIMIT_SHARE of so many seconds, counted from its start."""
    global _ends_at
    before, _ends_at = _ends_at, time.monotonic() + seconds * LIMIT_SHARE
    try:
        yield
    finally:
        _ends_at = before


def _deadline() -> float:
    return time.monotonic() + DEFAULT_SECONDS if _ends_at is None else _ends_at


def eventually(condition: Callable[[], T], what: str = "", *, every_s: float = LOOK_SECONDS) -> T:
    """Return the condition's first true value. The only deadline is the limit of the test.

    Args:
        what: the condition in words, for the failure.
        every_s: seconds between two evaluations of the condition; more than the default when each is expensive.
    """
    began, deadline = time.monotonic(), _deadline()
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {time.monotonic() - began:.0f} s: {what or condition}")
        time.sleep(every_s)
    return value


async def eventually_async(
    condition: Callable[[], T], within_s: float = VIRTUAL_SECONDS, what: str = "", every_s: float = LOOK_SECONDS
) -> T:
    """As `eventually`; other tasks of the event loop run between two evaluations. `within_s` is the limit in virtual time only."""
    if isinstance(asyncio.get_running_loop(), SimulatedLoop):
        return await _within(condition, within_s, what, every_s)
    began, deadline = time.monotonic(), _deadline()
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {time.monotonic() - began:.0f} s: {what or condition}")
        await asyncio.sleep(every_s)
    return value


async def _within(condition: Callable[[], T], seconds: float, what: str, every_s: float) -> T:
    """As `eventually_async`, by the clock of the event loop."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not (value := condition()):
        if loop.time() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what or condition}")
        await asyncio.sleep(every_s)
    return value
