"""class OpenHours: which hours are in memory: those in the wheel, those that queries and changes use, and recently used ones."""

import asyncio
import logging
from array import array
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
from numpy.typing import NDArray

from delay_node.hour import Hour, Hours, IdIndex
from delay_node.hour_reader import RANKS, IoThreads, Opened, read_dues, read_hour, read_ids
from delay_node.records import State
from qmq.errors import LogError

logger = logging.getLogger("qmq.delay.hours")

OPEN_FAR_ENTRIES_MAX = 4_000_000
"""Messages of far hours whose states and ids are in memory. Hours that no query uses are closed, the longest unused first; when
those in use are too many, queries wait. A larger hour is opened alone."""
OPEN_FAR_HOURS_MAX = 1_000
"""Far hours that stay open without a query, however small they are."""
TAIL_IDS_MAX = 200_000
"""Ids that are searched one by one; above it the sorted part of an id index is made again."""


class OpenHours:
    """Opens and closes hours. `on_lost` gets by how many more messages, or fewer, index entries fail their check."""

    def __init__(self, hours: Hours, io: IoThreads, on_lost: Callable[[int], None]) -> None:
        self._hours = hours
        self._io = io
        self._on_lost = on_lost
        self._far: OrderedDict[int, Hour] = OrderedDict()
        """Open hours that are not in the wheel, the longest unused first."""
        self._waiting: deque[tuple[Hour, asyncio.Future[None]]] = deque()
        """Users that wait for memory, in the order of arrival."""
        self.on_damaged: Callable[[Hour], None] = lambda hour: None
        """Called when entries of an hour fail their check."""
        self.must_wait: Callable[[Hour], bool] = lambda hour: False
        """Returns whether an hour some of whose decisions are damaged is not opened now, because they may be repaired soon."""

    def to_load(self, before_ms: int) -> list[Hour]:
        """Return the hours with pending messages that begin before a time and are not in the wheel, oldest first."""
        return [hour for hour in self._hours.before(before_ms) if not hour.is_near and hour.pending > 0]

    async def load(self, hour: Hour) -> list[tuple[int, "array[int]"]]:
        """Open an hour and return its waiting messages for the wheel: keys by second. Raises LogError; the hour is as it was."""
        async with hour.opening:
            if hour.is_near:
                return []
            hour.is_near = True
            self._far.pop(hour.number, None)
            try:
                return (await self._open(hour, for_wheel=True)).seconds
            except BaseException:
                hour.is_near = False
                raise

    @asynccontextmanager
    async def use(self, number: int) -> AsyncIterator[Hour | None]:
        """Have the states of an hour's messages in memory until the end of the `with` block; None: no such hour. Raises LogError.

        A task uses one hour at a time, so each one that waits for memory (OPEN_FAR_ENTRIES_MAX) gets it.
        """
        hour = self._hours.get(number)
        if hour is None:
            yield None
            return
        if self._waiting or not self._may_use(hour):
            slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((hour, slot))
            try:
                await slot
            except asyncio.CancelledError:
                if not slot.cancelled():
                    self._leave(hour)
                raise
        else:
            self._admit(hour)
        try:
            if self._hours.get(number) is not hour:
                # Its files were removed while this waited.
                yield None
                return
            async with hour.opening:
                if hour.states is None:
                    await self._open(hour, for_wheel=False)
            yield hour
        finally:
            self._leave(hour)

    def _may_use(self, hour: Hour) -> bool:
        """Whether there is memory for one more hour in use. One that is larger than the limit is used alone."""
        if hour.is_near or hour.users:
            return True
        in_use = [other.schedule.count for other in self._far.values() if other.users]
        return not in_use or sum(in_use) + hour.schedule.count <= OPEN_FAR_ENTRIES_MAX

    def _admit(self, hour: Hour) -> None:
        hour.users += 1
        if not hour.is_near:
            self._far[hour.number] = hour
            self._far.move_to_end(hour.number)
            self._close_unused()

    def _leave(self, hour: Hour) -> None:
        """End a use: admit waiting users, in order."""
        hour.users -= 1
        while self._waiting:
            waiting, slot = self._waiting[0]
            if not slot.done():
                if not self._may_use(waiting):
                    break
                self._admit(waiting)
                slot.set_result(None)
            self._waiting.popleft()
        self._close_unused()

    async def _open(self, hour: Hour, *, for_wheel: bool) -> Opened:
        known = hour.states
        count, dispatch_count = hour.schedule.count, hour.dispatch.count
        if known is None:
            hour.states = bytearray(count)
        try:
            opened = await self._io.run(read_hour(hour, count, dispatch_count, for_wheel=for_wheel))
            if opened.bad or opened.damaged:
                self.on_damaged(hour)
            if opened.damaged and known is None and self.must_wait(hour):
                raise LogError(
                    f"hour {hour.number}: {opened.damaged} dispatch entries fail their check; it is opened when they are repaired",
                    code="log.damaged",
                )
        except BaseException:
            if known is None:
                hour.states = None
            raise
        assert hour.states is not None
        if known is None:
            hour.states[:count] = opened.states
            hour.moved = opened.moved | hour.moved
        if opened.lost > hour.lost:
            logger.error("hour %d: %d schedule entries fail their check; their messages can't be found", hour.number,
                         opened.lost)  # fmt: skip
        if known is not None:
            # Those that were damaged since then are not in the wheel either.
            states, found = _array(hour.states)[:count], np.frombuffer(opened.states, dtype=np.uint8)
            states[(found == State.LOST) & (RANKS[states] < RANKS[State.REFUSED])] = State.LOST
            del states
        self._set_lost(hour, hour.states.count(State.LOST))
        if opened.damaged:
            logger.error("hour %d: %d dispatch entries fail their check; their messages may be delivered again",
                         hour.number, opened.damaged)  # fmt: skip
        return opened

    def _set_lost(self, hour: Hour, lost: int) -> None:
        if lost != hour.lost:
            self._on_lost(lost - hour.lost)
            hour.lost = lost
            self._hours.dirty[hour] = None

    async def reread(self, hour: Hour) -> dict[int, int]:
        """Take in what was repaired of an hour's index and dispatch log. Raises LogError; the hour is as it was.

        Returns the due times by number of messages that were lost and wait for delivery.
        """
        async with hour.opening:
            lost = [] if hour.states is None else np.flatnonzero(_array(hour.states) == State.LOST).tolist()
            count, dispatch_count = hour.schedule.count, hour.dispatch.count
            opened = await self._io.run(read_hour(hour, count, dispatch_count, for_wheel=False))
            dues_ms = await self._io.run(read_dues(hour, lost))
            async with hour.making_ids:
                # Digests of entries that were damaged.
                hour.ids = None
            if self._hours.get(hour.number) is not hour:
                return {}
            found = np.frombuffer(opened.states, dtype=np.uint8)
            if hour.states is None:
                self._set_lost(hour, opened.lost)
                return {}
            known = _array(hour.states)
            # Decisions of the meantime are in memory alone.
            before = known[:count]
            fresh = (found != State.LOST) & (RANKS[found] > RANKS[before]) & (before != State.LOST)
            before[fresh] = found[fresh]
            again = {number: due_ms for number, due_ms in dues_ms.items() if found[number] != State.LOST}
            for number in again:
                before[number] = found[number]
            # Only without a view the states can grow.
            del before, known
            hour.moved = opened.moved | hour.moved
            self._set_lost(hour, hour.states.count(State.LOST))
            return {n: due_ms for n, due_ms in again.items() if found[n] in (State.PENDING, State.CLAIMED)}

    def _close_unused(self) -> None:
        """Close hours that nothing uses, the longest unused first, until the rest keeps to the limits."""
        total = sum(hour.schedule.count for hour in self._far.values())
        for hour in list(self._far.values())[:-1]:
            if total <= OPEN_FAR_ENTRIES_MAX and len(self._far) <= OPEN_FAR_HOURS_MAX:
                return
            if not (hour.is_near or hour.users or hour.undecided or hour.opening.locked()):
                del self._far[hour.number]
                hour.close()
                total -= hour.schedule.count

    async def ids(self, hour: Hour) -> IdIndex:
        """Return the id index of an hour in use, made when it does not exist. Raises LogError."""
        async with hour.making_ids:
            while hour.ids is None or len(hour.ids.tail) > TAIL_IDS_MAX:
                made = await self._io.run(read_ids(hour, hour.schedule.count))
                while (known := made.count + len(made.tail)) < hour.schedule.count:
                    # Messages that came meanwhile may be in the file already.
                    late = await self._io.read(hour.schedule.read_index, known, hour.schedule.count)
                    made.tail.extend(late["id"].tolist())
                hour.ids = made
            return hour.ids


def _array(states: bytearray) -> NDArray[np.uint8]:
    """Return states as an array over the same memory. As long as it exists they can't grow."""
    return np.frombuffer(states, dtype=np.uint8)
