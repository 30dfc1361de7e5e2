"""Work in slices: a generator that yields where other work may have its turn, and returns its result."""

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
