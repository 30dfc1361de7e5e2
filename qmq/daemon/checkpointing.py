"""Checkpoints: what bounds a restart's replay.

State is taken on the event loop at the end of a commit, when everything synced has been applied; the files are synced and
written in a thread. A checkpoint may hold actions that are not synced yet, so it is written only after they are: what it
says is then never ahead of the log.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from qmq.clock import Clock
from qmq.daemon.committer import Committer
from qmq.log.log import SegmentedLog
from qmq.log.record import Position

logger = logging.getLogger("qmq.checkpoint")

RETRY_SECONDS = 1.0
"""After a checkpoint that could not be written."""


@dataclass(frozen=True, slots=True)
class CheckpointDraft:
    """State that holds everything of the log below `position`; to be saved once all below `appended_end` is synced."""

    state: bytes
    position: Position
    synced_to: int
    appended_end: int


D = TypeVar("D", bound=CheckpointDraft)


class CheckpointWriter(Protocol[D]):
    """Takes a store's state and writes it; no event loop, no thread of its own."""

    def draft(self) -> D:
        """The state at the end of the last commit.

        Raises:
            OSError: a file it counts on could not be written; nothing is lost, try again later.
        """
        ...

    def save(self, draft: D) -> None:
        """Make a draft, and all files it counts on, durable; from any one thread. Raises OSError."""
        ...

    def saved(self, draft: D) -> None:
        """Back on the store's thread, after a `save` that went well."""
        ...


class Checkpointing(Generic[D]):
    """Makes checkpoints of a store when they are due, one at a time.

    Args:
        log: the log whose replay they bound.
        loaded_offset: where the checkpoint that the store was opened from stands, 0 without one.
    """

    def __init__(
        self,
        writer: CheckpointWriter[D],
        log: SegmentedLog,
        committer: Committer,
        clock: Clock,
        bytes_between: int,
        seconds: float,
        loaded_offset: int,
    ) -> None:
        self._writer = writer
        self._log = log
        self._committer = committer
        self._clock = clock
        self._bytes_between = bytes_between
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self.last_position = log.position
        self._offsets = (loaded_offset, loaded_offset)
        self._last_at = clock.monotonic()
        self._not_before = clock.monotonic()
        self.saved = 0
        self.failures = 0
        self.last_seconds = 0.0

    @property
    def floor(self) -> int:
        """The log from here on is needed to replay the older of the two checkpoints kept; retention stays below."""
        return self._offsets[0]

    def maybe(self) -> None:
        """Called at the end of a commit: begin a checkpoint when enough was written, or enough time has passed."""
        if self._task is not None:
            return
        written, now = self._log.position.offset - self.last_position.offset, self._clock.monotonic()
        due = written >= self._bytes_between or (written > 0 and now - self._last_at >= self._seconds)
        if due and now >= self._not_before:
            self._task = asyncio.get_running_loop().create_task(self._make())
            self._task.add_done_callback(self._made)

    def _made(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self._last_at = self._clock.monotonic()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # A full disk, say: the old checkpoints are whole, and it is tried again.
            self.failures += 1
            self._not_before = self._last_at + RETRY_SECONDS
            logger.error("a checkpoint could not be written: %s", error)

    async def _make(self) -> None:
        began = self._clock.monotonic()
        draft = self._writer.draft()
        loop = asyncio.get_running_loop()
        synced = loop.create_future()
        self._committer.when_synced(draft.appended_end - 1, lambda: synced.set_result(None))
        await synced
        await loop.run_in_executor(None, self._writer.save, draft)
        self._writer.saved(draft)
        self.last_position = draft.position
        self._offsets = (self._offsets[1], draft.position.offset)
        self.saved += 1
        self.last_seconds = self._clock.monotonic() - began
        logger.info("checkpoint at log offset %d, %d bytes", draft.position.offset, len(draft.state))

    async def finish(self) -> None:
        """At a graceful stop: wait for one under way, make a last one."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._log.position.offset != self.last_position.offset:
            try:
                await self._make()
            except OSError as error:
                self.failures += 1
                logger.error("the last checkpoint could not be written, the next start replays more: %s", error)
