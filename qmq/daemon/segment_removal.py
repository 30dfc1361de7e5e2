"""Deletes log segments that retention dropped, in a thread: an unlink of a large file and a sync of its folder take time."""

import asyncio
import logging

from qmq.clock import Clock
from qmq.log.log import SegmentedLog

logger = logging.getLogger("qmq.retention")

FILES_MAX = 8
"""Most files deleted by one job of the thread."""
RETRY_SECONDS = 60.0
"""How long after a failed deletion it is tried again."""


class SegmentRemoval:
    """Drops segments of one log; on the event loop."""

    def __init__(self, log: SegmentedLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._job: asyncio.Future[None] | None = None
        self._not_before = 0.0

    def drop_before(self, offset: int) -> list[int]:
        """Drop whole segments below a log offset, never the current one, and delete their files soon; their bases.

        To be called again and again: it also goes on with files that were dropped before and are not deleted yet.
        """
        bases = self._log.hide_before(offset)
        if self._job is None and self._log.hidden_segments and self._clock.monotonic() >= self._not_before:
            self._job = asyncio.get_running_loop().run_in_executor(None, self._log.delete_hidden, FILES_MAX)
            self._job.add_done_callback(self._deleted)
        return bases

    def _deleted(self, job: "asyncio.Future[None]") -> None:
        self._job = None
        error = None if job.cancelled() else job.exception()
        if error is not None:
            self._not_before = self._clock.monotonic() + RETRY_SECONDS
            logger.error("a log segment can't be deleted, the next try is in %g s: %s", RETRY_SECONDS, error)

    async def close(self) -> None:
        """Wait for a deletion under way; what is left is dropped again after the next start."""
        if self._job is not None:
            await asyncio.wait([self._job])
