"""Checkpoints: what bounds a restart's replay.

State is taken on the event loop at the end of a commit, when everything synced has been applied; the files are synced and
written in a thread. A checkpoint may hold actions that are not synced yet, so it is written only after they are: what it
says is then never ahead of the log.
"""

import asyncio
import logging
from dataclasses import dataclass

from broker_node.recovery import CHECKPOINT_NAME, encode_state
from broker_node.store import MessageStore
from qmq.clock import Clock
from qmq.daemon.committer import Committer
from qmq.log.checkpoint import CheckpointStore
from qmq.log.index import sync_files
from qmq.log.record import Position

logger = logging.getLogger("qmq.broker.checkpoint")


@dataclass(frozen=True, slots=True)
class CheckpointDraft:
    state: bytes
    position: Position
    synced_to: int
    appended_end: int
    index_files: list[str]


class CheckpointWriter:
    """Takes a store's state and writes it; no event loop, no thread of its own."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._files = CheckpointStore(store.disk, store.paths.checkpoint, CHECKPOINT_NAME)
        self._owed: set[str] = set()
        """Index files written and not synced: the next checkpoint counts on them, so it syncs them first."""

    def draft(self) -> CheckpointDraft:
        """The state at the end of the last commit; to be saved once everything appended so far is synced.

        Raises:
            OSError: an index could not be written; nothing is lost, try again later.
        """
        store = self._store
        flushed = [store.flush_index(index) for index in store.dirty_indexes]
        if not all(flushed):
            raise OSError("an index could not be written")
        for index in store.dirty_indexes:
            self._owed.update(index.unsynced_files())
        store.dirty_indexes.clear()
        log = store.log
        state = encode_state(store)
        return CheckpointDraft(state, log.position, log.known_synced_to, log.appended_end, list(self._owed))

    def save(self, draft: CheckpointDraft) -> None:
        """Make a draft durable; from any one thread. Raises OSError."""
        sync_files(self._store.disk, draft.index_files)
        self._files.save(draft.state, draft.position, draft.synced_to)

    def saved(self, draft: CheckpointDraft) -> None:
        """Back on the store's thread: what the draft synced is not owed any more."""
        self._owed.difference_update(draft.index_files)


class Checkpointing:
    """Makes checkpoints of a store when they are due, one at a time."""

    def __init__(
        self,
        store: MessageStore,
        committer: Committer,
        clock: Clock,
        bytes_between: int,
        seconds: float,
        loaded_offset: int,
    ) -> None:
        """`loaded_offset`: where the checkpoint that the store was opened from stands, 0 without one."""
        self._store = store
        self._writer = CheckpointWriter(store)
        self._committer = committer
        self._clock = clock
        self._bytes_between = bytes_between
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self.last_position = store.log.position
        self._offsets = (loaded_offset, loaded_offset)
        self._last_at = clock.monotonic()
        self.saved = 0
        self.failures = 0

    @property
    def floor(self) -> int:
        """The log from here on is needed to replay the older of the two checkpoints kept; retention stays below."""
        return self._offsets[0]

    def maybe(self) -> None:
        """Called at the end of a commit: begin a checkpoint when enough was written, or enough time has passed."""
        position = self._store.log.position
        written = position.offset - self.last_position.offset
        due = written >= self._bytes_between or (
            written > 0 and self._clock.monotonic() - self._last_at >= self._seconds
        )
        if due and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._make())
            self._task.add_done_callback(self._made)

    def _made(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self._last_at = self._clock.monotonic()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # A full disk, say: the old checkpoints are whole, the next attempt comes with its time.
            self.failures += 1
            logger.error("a checkpoint could not be written: %s", error)

    async def _make(self) -> None:
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
        logger.info("checkpoint at log offset %d, %d bytes", draft.position.offset, len(draft.state))

    async def finish(self) -> None:
        """At a graceful stop: wait for one under way, make a last one."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._store.log.position.offset != self.last_position.offset:
            try:
                await self._make()
            except OSError as error:
                self.failures += 1
                logger.error("the last checkpoint could not be written, the next start replays more: %s", error)
