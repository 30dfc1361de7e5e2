"""The disk space of a log: what sends may use of it, and dropped segments that are to free it."""

import asyncio
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq.supervisor import Supervisor
from qmq_node.log.disk import Disk
from qmq_node.log.gather import commit_bytes_of
from qmq_node.log.log import SegmentedLog

FILES_MAX = 8
"""Most files deleted at a time."""
RETRY_SECONDS = 60.0
"""Pause after a failed deletion."""


@dataclass(eq=False, repr=False)
class LogSpace:
    """The free space of a log, and the reserve below which sends are refused, so that stored messages can still be processed."""

    _log: SegmentedLog
    _disk: Disk
    _folder: str
    """A folder on the disk of the log."""
    _reserve_bytes: int
    """What sends leave free on the disk, and in the log."""
    disk_free_bytes: int = field(default=0, init=False)
    disk_total_bytes: int = field(default=0, init=False)

    def measure(self) -> None:
        """Measure the free space of the disk. To be called about once a second."""
        self.disk_free_bytes, self.disk_total_bytes = self._disk.space(self._folder)

    @property
    def is_disk_full(self) -> bool:
        """Whether less than the reserve is free on the disk."""
        return self.disk_free_bytes < self._reserve_bytes

    def lacks_space(self) -> Reason:
        """Why sends are refused for lack of space; "" when there is space."""
        reserve, room = self._reserve_bytes, self._log.gather.room_bytes
        if room >= 2 * reserve:
            return NO_REASON
        log_reserve = self._log_reserve_bytes
        if self.disk_free_bytes < reserve and room < 2 * log_reserve:
            return Reason.of(Code.DISK_SPACE, free=self.disk_free_bytes, reserve=reserve)
        return self._lacks_room(room, log_reserve)

    def lacks_space_for_copy(self, record_bytes: int) -> Reason:
        """Why a record of stored messages, written again, would use the space reserved for acks and pulls; "" if it does not."""
        log = self._log
        # A record larger than half a segment must fit when the next segment exists: otherwise it could never be written.
        beside = max(0, log.gather.current_segment_bytes - commit_bytes_of(record_bytes))
        return self._lacks_room(log.gather.room_after(record_bytes), min(self._log_reserve_bytes, beside))

    @property
    def _log_reserve_bytes(self) -> int:
        """Bytes of the log that are reserved for acks and pulls."""
        # Small segments hold a smaller reserve: otherwise no send would ever fit beside it.
        return min(self._reserve_bytes, self._log.gather.current_segment_bytes // 2)

    def _lacks_room(self, room: int, log_reserve: int) -> Reason:
        if room >= log_reserve:
            return NO_REASON
        # Until the next segment exists, it is not known whether there is space for it: what is left is for acks.
        code = Code.LOG_SPACE if self._log.gather.is_out_of_space else Code.NO_SEGMENT
        return Reason.of(code, room=room, reserve=log_reserve)


class SegmentRemoval:
    """Drops segments of one log. Called on the event loop."""

    def __init__(self, log: SegmentedLog, clock: Clock, supervisor: Supervisor) -> None:
        self._log = log
        self._clock = clock
        self._supervisor = supervisor
        self._task: asyncio.Task[None] | None = None
        self._not_before = 0.0

    def drop_before(self, offset: int) -> list[int]:
        """Drop whole segments below a log offset, never the current one; returns their bases. Their files are deleted later.

        To be called periodically: each call also continues with files of segments that were dropped before.
        """
        bases = self._log.hide_before(offset)
        is_running = self._task is not None and not self._task.done()
        if not is_running and self._log.stored.hidden_segments and self._clock.monotonic() >= self._not_before:
            self._task = self._supervisor.background("segment_removal", self._delete())
        return bases

    async def _delete(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._log.stored.delete_hidden, FILES_MAX)
        except OSError:
            self._not_before = self._clock.monotonic() + RETRY_SECONDS
            raise

    async def close(self) -> None:
        """Wait for the current deletion; remaining segments are dropped again after the next start."""
        if self._task is not None:
            await asyncio.wait([self._task])
