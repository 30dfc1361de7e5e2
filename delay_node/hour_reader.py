"""Reads an hour's files into memory, in threads. The functions are jobs of `IoThreads.run`: they yield after each slice.

Cost for an hour of ten million messages: 560 MB read, eight bytes of keys sorted, no object a message.
"""

import asyncio
from array import array
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from delay_node.hour import Hour, IdIndex
from delay_node.records import GONE, NUMBER_BITS, State
from delay_node.schedule_log import INDEX_BYTES, IndexArray, checks_of

P = ParamSpec("P")
T = TypeVar("T")

SLICE_BYTES = 8 << 20
"""Bytes of an hour's files that one slice of a job reads; then the next job has its turn."""


def run_to_end(steps: Generator[None, None, T]) -> T:
    """Run all slices of a job at once and return its result; for code without an event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def _advance(steps: Generator[None, None, T]) -> tuple[bool, T | None]:
    """Run one slice: whether it was the last, and then the result."""
    try:
        next(steps)
    except StopIteration as end:
        return True, end.value
    return False, None


class IoThreads:
    """Two threads read message bodies; one runs everything longer, slice by slice, so that no job waits for a whole other one."""

    def __init__(self) -> None:
        self._bodies = ThreadPoolExecutor(max_workers=2, thread_name_prefix="delay-read")
        self._slices = ThreadPoolExecutor(max_workers=1, thread_name_prefix="delay-scan")

    async def read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a short read: due messages wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._bodies, lambda: work(*args, **kwargs))

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Run a job that yields after each SLICE_BYTES that it read; its result."""
        loop = asyncio.get_running_loop()
        while True:
            is_done, result = await loop.run_in_executor(self._slices, _advance, steps)
            if is_done:
                return result  # type: ignore[return-value]

    async def close(self) -> None:
        """Cancel what has not begun, and wait for the reads under way."""
        for pool in (self._bodies, self._slices):
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


SLICE_ENTRIES = SLICE_BYTES // INDEX_BYTES
_IS_GONE = np.array([state in GONE for state in range(max(State) + 1)])


@dataclass(slots=True)
class Opened:
    """The content of an hour's first messages."""

    states: bytearray
    moved: dict[int, int]
    """Number -> the hour the message was moved to."""
    seconds: list[tuple[int, "array[int]"]]
    """For the wheel: keys by second, of messages that wait for delivery."""
    lost: int
    """Index entries that fail their check: their messages can't be found any more."""
    damaged: int
    """Dispatch entries that fail their check: their messages may be delivered again."""


def slices(count: int) -> Generator[tuple[int, int], None, None]:
    """Yield the begins and ends of an index's slices."""
    for begin in range(0, count, SLICE_ENTRIES):
        yield begin, min(begin + SLICE_ENTRIES, count)


def read_states(
    hour: Hour, count: int, dispatch_count: int, moved: dict[int, int] | None = None
) -> Generator[None, None, tuple[NDArray[np.uint8], int]]:
    """Read the states of an hour's first `count` messages, and how many dispatch entries fail their check.

    Args:
        moved: gets the hours that messages were moved to.

    Raises:
        LogError: the disk could not give them.
    """
    states = np.zeros(count, dtype=np.uint8)
    damaged = 0
    for begin, end in slices(dispatch_count):
        entries, bad = hour.dispatch.read(begin, end)
        damaged += bad
        entries = entries[entries["number"] < count]
        states[entries["number"]] = entries["what"]
        if moved is not None:
            there = entries[entries["what"] == State.MOVED]
            moved.update(zip(there["number"].tolist(), there["to_hour"].tolist(), strict=True))
        yield
    return states, damaged


def read_hour(hour: Hour, count: int, dispatch_count: int, *, for_wheel: bool) -> Generator[None, None, Opened]:
    """Read an hour's first `count` messages. Raises LogError."""
    moved: dict[int, int] = {}
    states, damaged = yield from read_states(hour, count, dispatch_count, moved)
    lost_count = 0
    parts: list[NDArray[np.uint64]] = []
    for begin, end in slices(count):
        index = hour.schedule.read_index(begin, end)
        here = states[begin:end]
        lost = (index["check"] != checks_of(index)) & ~_IS_GONE[here]
        here[lost] = State.LOST
        lost_count += int(lost.sum())
        if for_wheel:
            parts.append(_wheel_keys(index, here, hour.begin_ms, begin))
        yield
    seconds = _by_second(hour.begin_ms // 1000, parts)
    return Opened(bytearray(states.tobytes()), moved, seconds, lost_count, damaged)


def _wheel_keys(index: IndexArray, states: NDArray[np.uint8], begin_ms: int, first: int) -> NDArray[np.uint64]:
    """Second of the hour, millisecond, number of each waiting message: sorted, each second is one stretch of slot keys."""
    waiting = np.flatnonzero((states == State.PENDING) | (states == State.CLAIMED))
    within = (index["due"][waiting] - begin_ms).astype(np.uint64)
    keys = (within // np.uint64(1000)) << np.uint64(NUMBER_BITS + 10)
    keys |= (within % np.uint64(1000)) << np.uint64(NUMBER_BITS)
    keys |= (waiting + first).astype(np.uint64)
    return keys


def _by_second(first_second: int, parts: list[NDArray[np.uint64]]) -> list[tuple[int, "array[int]"]]:
    keys = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)
    keys.sort()
    shift = np.uint64(NUMBER_BITS + 10)
    present, begins = np.unique(keys >> shift, return_index=True)
    ends = [*begins.tolist()[1:], len(keys)]
    keys &= (np.uint64(1) << shift) - np.uint64(1)
    found = []
    for second, begin, end in zip(present.tolist(), begins.tolist(), ends, strict=False):
        found.append((first_second + int(second), array("Q", keys[begin:end].tobytes())))
    return found


def read_ids(hour: Hour, count: int) -> Generator[None, None, IdIndex]:
    """Make the id index of an hour's first `count` messages. Raises LogError."""
    digests = np.empty(count, dtype=np.uint32)
    for begin, end in slices(count):
        digests[begin:end] = hour.schedule.read_index(begin, end)["id"]
        yield
    order = np.argsort(digests, kind="stable").astype(np.uint32)
    return IdIndex(digests[order], order, count)
