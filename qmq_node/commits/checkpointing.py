"""Checkpoints: what bounds a restart's replay.

State is taken on the event loop, from the end of a commit on, when everything below the high watermark has been applied, and in
slices: the node serves in between. The files are written and synced in a thread. A checkpoint may hold actions that are not
confirmed yet, so it is saved only after they are: it is then never ahead of what stays in the log.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from dataclasses import InitVar, dataclass, field
from typing import Generic, Protocol, TypeVar

from qmq.clock import Clock
from qmq.errors import LogError
from qmq.supervisor import Supervisor
from qmq_node.commits.committer import Committer
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import Position
from qmq_node.slices import run_in_slices

logger = logging.getLogger("qmq.checkpoint")

CHECK_SECONDS = 1.0
"""How often it is checked whether a checkpoint is due."""
RETRY_SECONDS = 5.0
"""Pause after a checkpoint that could not be written: taking the state costs the event loop time."""


@dataclass(frozen=True, slots=True)
class CheckpointDraft:
    """State that holds everything of the log below `position`; to be saved once all below `records_end` is confirmed.

    So a checkpoint mentions nothing that a truncation of the log may remove: it stands at or below the high watermark, and what its
    state holds of later records was below it, too, when the file was written.
    """

    state: list[bytes]
    """In parts."""
    position: Position
    synced_to: int
    """At most the high watermark."""
    records_end: int


D = TypeVar("D", bound=CheckpointDraft)


class CheckpointWriter(Protocol[D]):
    """Takes a store's state and writes it; no event loop, no thread of its own."""

    @property
    def has_removals(self) -> bool:
        """Whether something but writes needs the next checkpoint, such as files to be removed: it is due in time also then."""

    async def ready(self) -> None:
        """Return when the state may be taken; `draft` follows before the event loop runs anything else. Raises LogError."""

    def draft(self) -> Generator[None, None, D]:
        """Take the state and set aside what has to be written, in slices. The log position is the one at the begin."""

    def save(self, draft: D) -> None:
        """Make a draft, and all files it counts on, durable; from any one thread. Raises OSError."""

    def saved(self, draft: D) -> None:
        """Back on the store's thread, after a `save` that went well."""


@dataclass(eq=False, repr=False)
class Checkpointing(Generic[D]):
    """Makes checkpoints of a store when they are due, one at a time. A failed one, on a full disk for example, is retried."""

    _writer: CheckpointWriter[D]
    _log: SegmentedLog
    """The log whose replay they bound."""
    committer: Committer | None
    """None on a slave, whose store holds nothing that is not confirmed."""
    _clock: Clock
    _supervisor: Supervisor
    _bytes_between: int
    _seconds: float
    loaded_offset: InitVar[int]
    """Where the checkpoint that the store was opened from stands, 0 without one."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a checkpoint is made."""
    is_started: bool = field(default=False, init=False)
    is_suspended: bool = field(default=False, init=False)
    """Whether none is made, because the store may hold what is not confirmed, and nothing confirms it: a member was promoted, and
    does not write to its log yet."""
    on_saved: Callable[[], None] = field(default_factory=lambda: lambda: None, init=False)
    """Called after each checkpoint."""
    _has_failed: bool = False
    saved: int = 0
    failures: int = 0

    def __post_init__(self, loaded_offset: int) -> None:
        self.last_position = self._log.watermark.position
        self._offsets = (loaded_offset, loaded_offset)
        self._last_at = self._clock.monotonic()

    @property
    def floor(self) -> int:
        """The log from here on is required to replay the older of the two checkpoints kept; retention stays below."""
        return self._offsets[0]

    def start(self) -> None:
        """Start the periodic job; on the event loop."""
        self.is_started = True
        self._supervisor.every(
            CHECK_SECONDS, "checkpoint", self._make_if_due, retry_seconds=RETRY_SECONDS, until_close=True
        )

    def maybe(self) -> None:
        """Called at the end of a commit: begin a checkpoint when one is due. After a failure only the job tries again."""
        if not self.lock.locked() and not self._has_failed and self._is_due():
            self._supervisor.run_soon("checkpoint")

    def _is_due(self) -> bool:
        """Whether enough was written, or enough time has passed."""
        written = self._log.watermark.position.offset - self.last_position.offset
        return written >= self._bytes_between or (
            (written > 0 or self._writer.has_removals) and self._clock.monotonic() - self._last_at >= self._seconds
        )

    async def _make_if_due(self) -> None:
        if not self._is_due():
            return
        try:
            async with self.lock:
                await self._make()
        except Exception:
            self.failures += 1
            self._has_failed = True
            raise

    async def make(self) -> None:
        """Make a checkpoint now, unless nothing was written since the last one. Raises OSError, or LogError if the log fails."""
        async with self.lock:
            if self._log.watermark.position.offset != self.last_position.offset:
                await self._make()

    async def _make(self) -> None:
        if self.is_suspended:
            return
        began = self._clock.monotonic()
        await self._writer.ready()
        draft = await run_in_slices(self._writer.draft())
        if self.committer is not None:
            await self.committer.synced(draft.records_end - 1)
        await asyncio.get_running_loop().run_in_executor(None, self._writer.save, draft)
        self._writer.saved(draft)
        self.last_position = draft.position
        self._offsets = (self._offsets[1], draft.position.offset)
        self.saved += 1
        self._has_failed = False
        self._last_at = self._clock.monotonic()
        self.on_saved()
        logger.info(
            "checkpoint at log offset %d, %d bytes, %.3f s",
            draft.position.offset, sum(map(len, draft.state)), self._last_at - began,
        )  # fmt: skip

    @property
    def _may_be_unconfirmed(self) -> bool:
        is_replicated = self.committer is not None and self.committer.is_replicated
        return self.is_suspended or (is_replicated and self._log.high_watermark < self._log.gather.records_end)

    async def finish(self) -> None:
        """At a graceful stop: wait for one under way, make a last one, and another when it allows files to be deleted.

        None is made while commits wait for other nodes, which may never confirm them, or while the store may hold some that nothing
        confirms: the next start replays more.
        """
        if self._may_be_unconfirmed:
            return
        async with self.lock:
            for _ in range(2):
                if self._may_be_unconfirmed:
                    return
                if self._log.watermark.position.offset == self.last_position.offset and not self._writer.has_removals:
                    return
                try:
                    await self._make()
                except (OSError, LogError) as error:
                    self.failures += 1
                    logger.error("the last checkpoint could not be written, the next start replays more: %s", error)
                    return
