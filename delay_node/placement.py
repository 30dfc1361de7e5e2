"""Places messages in the schedules of their hours of due time: numbers before the log has a record, schedules and wheel after."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delay_node.errors import LimitReached
from delay_node.hour import Hour, Hours
from delay_node.records import HOUR_MS, NUMBER_MAX
from delay_node.schedule_log import INDEX, INDEX_BYTES, id_digests, lost_index, make_index
from delay_node.wheel import Wheel
from qmq.errors import LogError
from qmq.protocol.scan import CRC_BYTES, Run

logger = logging.getLogger("qmq.delay.placement")


@dataclass(slots=True)
class Placement:
    """A record's messages sorted by hour."""

    groups: list[tuple[Hour, int, int, int]]
    """An hour, which messages it gets ([first, end)), and the number of the first one in it."""
    index: bytes
    slices: list[memoryview]
    """The entries, one slice a message; or a single one for all of them."""
    dues_ms: list[int]
    ids: NDArray[np.uint32]
    data_bytes: int

    def cancel(self) -> None:
        """Free the numbers and places again: the log rejected the record."""
        sizes = np.frombuffer(self.index, dtype=INDEX)["size"]
        for hour, first, end, number in self.groups:
            hour.schedule.next_number = number
            hour.schedule.next_place -= int(sizes[first:end].sum())


class Placer:
    """Gives messages their numbers, and adds them to schedules and wheel. `on_near` gets the due time of what the wheel got."""

    def __init__(self, hours: Hours, wheel: Wheel) -> None:
        self._hours = hours
        self._wheel = wheel
        self.near_before_ms = 0
        """Hours that begin before this belong into the wheel."""
        self.fills_gaps = True
        """Whether numbers that the log does not have any more may be lost; while the log is opened."""
        self.gap = ""
        """The first numbers that were."""
        self.on_near: Callable[[int], None] = lambda due_ms: None

    def prepare(
        self, run: Run, data: memoryview, dues: NDArray[np.int64], subject: int, given: Sequence[int] | None = None
    ) -> tuple[Placement, list[int]]:
        """Sort a record's messages by hour; numbers are those `given`, or the next of each hour. Raises LimitReached."""
        begins = np.array(run.raw_begins, dtype=np.int64)
        sizes = np.array(run.raw_sizes(), dtype=np.int64) + CRC_BYTES
        ids = id_digests(data, begins)
        hours = dues // HOUR_MS
        order = np.argsort(hours, kind="stable") if (hours != hours[0]).any() else np.arange(len(hours))
        numbers = np.empty(len(hours), dtype=np.int64)
        if given is not None:
            order, numbers = self._unknown(order, hours, np.array(given, dtype=np.int64))
            if not len(order):
                return Placement([], b"", [], [], ids[:0], 0), []
        begins, sizes, dues, ids, hours = begins[order], sizes[order], dues[order], ids[order], hours[order]
        firsts = np.concatenate(([0], np.flatnonzero(np.diff(hours)) + 1))
        counts = np.diff(firsts, append=len(hours))
        targets = [self._hours.make(number) for number in hours[firsts].tolist()]
        schedules = [hour.schedule for hour in targets]
        if given is None:
            next_numbers = np.array([schedule.next_number for schedule in schedules])
            if (next_numbers + counts > NUMBER_MAX).any():
                raise LimitReached(f"the hour of due time holds {NUMBER_MAX} messages, its limit")
            numbers[order] = np.arange(len(hours)) + np.repeat(next_numbers - firsts, counts)
        else:
            next_numbers = numbers[order][firsts]
            for hour, number in zip(targets, next_numbers.tolist(), strict=True):
                self._fill(hour, number)
        ends = np.cumsum(sizes)
        bases = np.array([schedule.next_place for schedule in schedules]) - (ends - sizes)[firsts]
        index = make_index(ends - sizes + np.repeat(bases, counts), dues, sizes, ids, subject).tobytes()
        stops = firsts + counts
        groups = list(zip(targets, firsts.tolist(), stops.tolist(), next_numbers.tolist(), strict=True))
        for (hour, first, stop, number), place in zip(groups, (bases + ends[stops - 1]).tolist(), strict=True):
            hour.schedule.next_number = number + stop - first
            hour.schedule.next_place = place
        slices = _cut(data, begins - CRC_BYTES, sizes, is_one=len(targets) == 1)
        return Placement(groups, index, slices, dues.tolist(), ids, int(ends[-1])), numbers.tolist()

    def _unknown(
        self, order: NDArray[np.int64], hours: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """In replay: leave out the messages that their hours contain already, as after a salvage."""
        known = {n: self._hours.make(n).schedule.next_number for n in set(hours.tolist())}
        have = np.array([known[n] for n in hours.tolist()])
        return order[numbers[order] >= have[order]], numbers

    def _fill(self, hour: Hour, number: int) -> None:
        """In replay: add empty entries for numbers lost to corruption of the log, so that the others keep theirs. Raises LogError
        for those that can't be lost."""
        missing = number - hour.schedule.next_number
        if missing <= 0:
            return
        gap = (
            f"hour {hour.number}: {missing} messages from number {hour.schedule.next_number} on are missing in the log"
        )
        if not self.fills_gaps:
            raise LogError(gap)
        logger.error("%s: they are lost to its corruption", gap)
        self.gap = self.gap or gap
        hour.schedule.append(lost_index(missing), b"", hour.schedule.count)
        hour.schedule.next_number = number
        self._hours.dirty[hour] = None

    def place(self, placement: Placement, offset: int) -> None:
        """Add the messages of a synced record, which is at this log offset, to their hours, near ones to the wheel."""
        index, near_before = placement.index, self.near_before_ms // HOUR_MS
        for hour, first, end, number in placement.groups:
            slices = placement.slices[first:end]
            data = slices[0] if len(slices) == 1 else b"".join(slices)
            if not hour.schedule.count:
                hour.begins_at = offset
            hour.schedule.append(index[first * INDEX_BYTES : end * INDEX_BYTES], data, number)
            if hour.number <= near_before or hour.states is not None or hour.ids is not None:
                self._place_near(hour, placement.dues_ms[first:end], placement.ids[first:end], number)
            self._hours.dirty[hour] = None
        self._hours.unwritten_bytes += placement.data_bytes + len(index)

    def _place_near(self, hour: Hour, dues_ms: list[int], ids: NDArray[np.uint32], number: int) -> None:
        """Update what is in memory of an hour that messages were just added to."""
        if hour.begin_ms < self.near_before_ms and not hour.is_near and hour.schedule.count == len(dues_ms):
            # A new hour is in the wheel from its first message on; one with older messages is loaded instead.
            hour.is_near = True
            hour.states = bytearray() if hour.states is None else hour.states
        if hour.states is not None:
            hour.states += bytes(len(dues_ms))
        if hour.ids is not None:
            hour.ids.tail.extend(ids.tolist())
        if hour.is_near:
            add = self._wheel.add
            for due_ms in dues_ms:
                add(due_ms, number)
                number += 1
            self.on_near(min(dues_ms))


def _cut(data: memoryview, begins: NDArray[np.int64], sizes: NDArray[np.int64], *, is_one: bool) -> list[memoryview]:
    """The entries' bytes, one slice a message; as one slice if all are neighbours and go to one hour."""
    ends = begins + sizes
    if is_one and ends[-1] - begins[0] == sizes.sum():
        return [data[int(begins[0]) : int(ends[-1])]]
    return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
