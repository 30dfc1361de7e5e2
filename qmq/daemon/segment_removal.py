"""class SegmentRemoval: deletes dropped log segments in a thread, because deleting large files takes time."""

import asyncio

from qmq.clock import Clock
from qmq.log.log import SegmentedLog
from qmq.supervisor import Supervisor

FILES_MAX = 8
"""Most files deleted at a time."""
RETRY_SECONDS = 60.0
"""Pause after a failed deletion."""


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
        if not is_running and self._log.hidden_segments and self._clock.monotonic() >= self._not_before:
            self._task = self._supervisor.background("segment_removal", self._delete())
        return bases

    async def _delete(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._log.delete_hidden, FILES_MAX)
        except OSError:
            self._not_before = self._clock.monotonic() + RETRY_SECONDS
            raise

    async def close(self) -> None:
        """Wait for the current deletion; remaining segments are dropped again after the next start."""
        if self._task is not None:
            await asyncio.wait([self._task])
