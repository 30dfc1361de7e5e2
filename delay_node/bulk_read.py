"""Reads in bulk (LIST_HOURS, READ_SCHEDULE): the schedule by hour of due time, entries as they are stored.

An hour that is read is opened as for a query: the state of each of its messages is a byte in memory. Only synced messages have
numbers, and an answer waits until the decisions it contains are synced.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from delay_node.records import State, ref_of
from delay_node.schedule_log import INDEX_BYTES, ScheduleLog, checks_of, is_whole
from delay_node.store import DelayStore
from qmq.errors import ReadRefused
from qmq.protocol import bulk_read
from qmq.protocol.codes import Command
from qmq.protocol.frames import Frame
from qmq.protocol.kinds import Part
from qmq.protocol.scan import CRC_BYTES
from qmq_node.node.node import Node
from qmq_node.server.connection import Connection

NAMES_BYTES = 1 << 20
"""About how many bytes of subject names one answer holds."""
ENTRY_BYTES = INDEX_BYTES + 1
"""Size of a message in an answer without its body."""
MESSAGE_BYTES_GUESSED = 256
"""How many entries are read for a page with bodies; fewer leave when messages are larger."""


@dataclass(frozen=True, slots=True)
class BulkReads:
    node: Node
    store: DelayStore

    def table(self) -> dict[int, Callable[[Connection, Frame], None]]:
        handler = self.node.bulk_reads.handler
        return {
            Command.LIST_HOURS: handler(bulk_read.ListHoursRequest, self._hours),
            Command.READ_SCHEDULE: handler(bulk_read.ReadScheduleRequest, self._schedule),
        }

    async def _hours(self, request: bulk_read.ListHoursRequest) -> list[Part]:
        store = self.store
        at = bisect_right(store.hours.order, request.after)
        numbers = store.hours.order[at : at + max(1, min(request.limit, bulk_read.HOURS_PAGE_MAX))]
        hours = []
        for number in numbers:
            hour = store.hours[number]
            data_bytes = hour.schedule.data.end
            hours.append(bulk_read.HourCounts(number, hour.schedule.count, hour.pending, hour.refused, data_bytes))
        next_after = numbers[-1] if at + len(numbers) < len(store.hours.order) else -1
        names, first = store.subjects.names, max(0, request.subjects_from)
        last, room = first, NAMES_BYTES
        while last < len(names) and room > 0:
            room -= 2 + len(names[last].encode())
            last += 1
        page = bulk_read.HoursPage(
            self.node.options.broker_group, self.node.node_id, tuple(hours), first, tuple(names[first:last]), len(names),
            next_after,
        )  # fmt: skip
        return [page.encode()]

    async def _schedule(self, request: bulk_read.ReadScheduleRequest) -> list[Part]:
        if not 0 <= request.begin <= request.end:
            raise ReadRefused(f"[{request.begin}, {request.end}) is not a valid range", code=bulk_read.WRONG_RANGE)
        bytes_max = self.node.bulk_reads.piece_bytes(request.bytes_max)
        each = ENTRY_BYTES + (MESSAGE_BYTES_GUESSED if request.with_data else 0)
        async with self.store.open_hours.use(request.hour) as hour:
            if hour is None:
                raise ReadRefused(f"hour {request.hour} has no messages on this node", code=bulk_read.UNKNOWN_HOUR)
            end = hour.schedule.count
            first = request.begin
            last = max(first, min(request.end, end, first + max(1, bytes_max // each)))
            assert hour.states is not None
            states = bytes(hour.states[first:last])
        await self.node.committer.synced(self.store.log.gather.records_end - 1)
        if request.with_data:
            entries, sizes, raws = await self.node.bulk_reads.in_thread(
                _with_raws, hour.schedule, first, last, bytes_max
            )
            empty = np.flatnonzero(np.frombuffer(sizes, dtype=">u4") == 0).tolist()
            # Lost ones were counted when the hour was opened.
            damaged = (ref_of(request.hour, first + i) for i in empty if states[i] != State.LOST)
            self.store.bodies.found_damage(damaged)
        else:
            read, sizes, raws = hour.schedule.index.read, b"", b""
            entries = await self.node.bulk_reads.in_thread(read, first * INDEX_BYTES, last * INDEX_BYTES)
        if self.store.hours.get(request.hour) is not hour:
            raise ReadRefused(f"hour {request.hour} was completed in the meantime", code=bulk_read.UNKNOWN_HOUR)
        return bulk_read.SchedulePage(end, first, entries, states[: len(entries) // INDEX_BYTES], sizes, raws).parts()


def _with_raws(schedule: ScheduleLog, first: int, last: int, bytes_max: int) -> tuple[bytes, bytes, bytes]:
    """Entries, the sizes of their raw messages (0 for one that fails its check) and the messages, up to `bytes_max` of them."""
    index = schedule.read_index(first, last)
    stored = np.where(index["check"] == checks_of(index), index["size"], 0).astype(np.int64)
    totals = np.cumsum(stored)
    count = min(len(index), max(1, int(np.searchsorted(totals, bytes_max, "right"))))
    places, stored = index["place"][:count].astype(np.int64), stored[:count]
    known = np.flatnonzero(stored)
    raws: list[bytes | memoryview] = []
    sizes = np.zeros(count, dtype=">u4")
    # Bodies lie in the order they came: neighbours are read with one call.
    breaks = np.flatnonzero(places[known][1:] != (places[known] + stored[known])[:-1]) + 1
    for stretch in np.split(known, breaks):
        if not len(stretch):
            continue
        begin = int(places[stretch[0]])
        data = memoryview(schedule.data.read(begin, int(places[stretch[-1]] + stored[stretch[-1]])))
        for i in stretch.tolist():
            at = int(places[i]) - begin
            entry = data[at : at + int(stored[i])]
            if is_whole(entry):
                sizes[i] = len(entry) - CRC_BYTES
                raws.append(entry[CRC_BYTES:])
    return index[:count].tobytes(), sizes.tobytes(), b"".join(raws)
