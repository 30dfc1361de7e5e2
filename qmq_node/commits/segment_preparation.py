"""class SegmentPreparation: creates a log's next segment in time and in another thread, so that a roll costs nothing."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from qmq.supervisor import Supervisor
from qmq_node.log.log import SegmentedLog

logger = logging.getLogger("qmq.committer")

PREPARE_SECONDS = 1.0
"""How often the next segment is created if it is missing; also the pause after a failure, for example a full disk."""


@dataclass(eq=False, repr=False)
class SegmentPreparation:
    """Creates the next segment of a log."""

    _log: SegmentedLog
    _supervisor: Supervisor
    on_prepared: Callable[[], None] = lambda: None
    """Called when a segment was created, or could not be."""

    def start(self) -> None:
        """Start the periodic job."""
        self._supervisor.every(PREPARE_SECONDS, "segment_preparation", self._prepare, until_close=True)

    def soon(self) -> None:
        """Create the segment now if it is required. Called after each commit; after a failure only the job tries again."""
        if self._log.gather.needs_segment and not self._log.gather.is_out_of_space:
            self._supervisor.run_soon("segment_preparation")

    async def check_space(self) -> None:
        """Create the segment if it is missing, so that a lack of space is known before the first request arrives."""
        try:
            await self._prepare()
        except OSError as error:
            logger.error("the next segment can't be created: %s", error)

    async def _prepare(self) -> None:
        if self._log.gather.needs_segment or self._log.gather.is_out_of_space:
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._log.prepare_next)
            finally:
                self.on_prepared()
