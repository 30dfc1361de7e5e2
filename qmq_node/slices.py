"""Work in slices, between which the event loop serves: generators that yield, and coroutines that spend units of work."""

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def run_to_end(steps: Generator[None, None, T]) -> T:
    """Run all slices at once and return the result; for code without an event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


async def run_in_slices(steps: Generator[None, None, T]) -> T:
    """Run slice by slice on the event loop, which serves in between; the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


class Pacer:
    """Ends an iteration of the event loop after this number of units of work.

    Args:
        units_max: units of one iteration.
    """

    def __init__(self, units_max: int) -> None:
        self._units_max = units_max
        self._left = units_max

    async def spend(self, units: int = 1) -> None:
        """Call before work of this number of units; when the iteration has no room for them, clients are served first."""
        if units > self._left < self._units_max:
            self._left = self._units_max
            await asyncio.sleep(0)
        self._left -= units
