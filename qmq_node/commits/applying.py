"""class Applying: keeps the derived state of a slave up to date, as far as the high watermark that its master sends."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from qmq.errors import LogError
from qmq_node.log.copied_log import CopiedCommits
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, CommitHeader, Position
from qmq_node.log.recovery import Commit
from qmq_node.log.replay import Replay
from qmq_node.slices import Pacer

SLICE_BYTES = 256 << 10
"""Records applied in one iteration of the event loop, unless a single one is larger: 2,000 messages of 128 bytes."""
READ_BYTES = 4 << 20
"""Commits read at a time, when they are not at hand any more."""
AT_HAND_BYTES_MAX = 64 << 20
"""Commits kept in memory from their arrival until they are applied; beyond it they are read from the log again."""


@dataclass(eq=False, repr=False)
class Applying:
    """Applies commits of a log to a store, up to the high watermark and never beyond: what is above it may be truncated.

    The log's own high watermark, where checkpoints stand, moves when a commit is applied, so a checkpoint holds all that is below
    its position. On the event loop.
    """

    _log: SegmentedLog
    _replay: Replay
    """Has replayed the log up to its position."""
    known_high_watermark: int = field(init=False)
    """The highest one that this node received; nothing below it may be truncated."""
    at_hand_bytes: int = field(default=0, init=False)
    """Bytes of commits in memory that are not applied yet, and of their index entries."""
    _at_hand: deque[Commit] = field(default_factory=deque, init=False)
    _running: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _may_continue: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        self.known_high_watermark = self._log.high_watermark
        self._pacer = Pacer(SLICE_BYTES)

    @property
    def applied_end(self) -> int:
        """The log offset up to which everything is applied."""
        return self._log.watermark.position.offset

    def received(self, copied: CopiedCommits, headers: Sequence[CommitHeader]) -> None:
        """Keep commits that were written until they are applied; in order, after `CopiedLog.complete`. No bytes are copied.

        What is not passed to this is read from the log.
        """
        for header in headers:
            size = header.end - header.offset
            if self.at_hand_bytes + size + len(copied.index_entries) <= AT_HAND_BYTES_MAX:
                place = header.offset - copied.offset
                body = copied.data[place + HEADER_BYTES : place + size]
                self._at_hand.append(Commit(header, body, False, copied.index_entries))
                self.at_hand_bytes += size + len(copied.index_entries)

    async def advance(self, high_watermark: int) -> None:
        """Apply what is below the high watermark and synced here; other work of the event loop has its turn in between. While the
        store is full it waits for a checkpoint.

        A lower one than before is ignored: a new master may know less.

        Raises LogError if commits can't be read again, or a record can't be applied. What was applied stays so.
        """
        self.known_high_watermark = max(self.known_high_watermark, high_watermark)
        async with self._running:
            try:
                while await self._apply_next(min(self.known_high_watermark, self._log.synced_end)):
                    pass
            finally:
                self._replay.finish()

    def continue_applying(self) -> None:
        """A checkpoint was made: the store may take more (`Replay.is_full`)."""
        self._may_continue.set()

    async def apply_all(self) -> None:
        """Apply the whole log, also what is above the high watermark: the node was promoted, so nothing of it is truncated any more
        unless it steps down, and then it opens its store again.

        The log's own high watermark stays. `advance` must not be called any more. Raises LogError as `advance`.
        """
        async with self._running:
            position = self._log.watermark.position
            while position.offset < self._log.synced_end:
                commits, behind = await asyncio.to_thread(
                    self._log.stored.read_commits, position, self._log.synced_end, READ_BYTES
                )
                for commit in commits:
                    for size in self._replay.steps(commit):
                        await self._pacer.spend(size)
                if behind.offset == position.offset:
                    raise LogError(f"no commit can be read at log offset {position.offset}", code="log.unreadable")
                position = behind
            self._at_hand.clear()
            self.at_hand_bytes = 0
            self._replay.finish()

    async def _apply_next(self, end: int) -> bool:
        """Apply the next commit or commits that end at or below `end`; False if there are none."""
        position = self._log.watermark.position
        while self._at_hand and self._at_hand[0].end <= position.offset:
            self._drop_first()
        if self._at_hand:
            commit = self._at_hand[0]
            if commit.header.previous_crc == position.chain:
                if commit.end > end:
                    return False
                await self._apply(commit)
                return True
            end = min(end, commit.offset)
        if position.offset >= end:
            return False
        commits, behind = await asyncio.to_thread(self._log.stored.read_commits, position, end, READ_BYTES)
        for commit in commits:
            await self._apply(commit)
        if behind.offset > self.applied_end:
            # Seals.
            self._log.watermark.confirm_applied(behind)
        if self.applied_end == position.offset:
            raise LogError(f"no commit can be read at log offset {position.offset}, up to {end}", code="log.unreadable")
        return True

    async def _apply(self, commit: Commit) -> None:
        while self._replay.is_full:
            self._may_continue.clear()
            await self._may_continue.wait()
        steps = self._replay.steps(commit)
        try:
            for size in steps:
                await self._pacer.spend(size)
        except asyncio.CancelledError:
            # A later call would apply the first records of the commit again.
            for _ in steps:
                pass
            self._applied(commit.header)
            raise
        self._applied(commit.header)

    def _applied(self, header: CommitHeader) -> None:
        self._log.watermark.confirm_applied(Position(header.end, header.crc), header if header.record_count else None)

    def _drop_first(self) -> None:
        commit = self._at_hand.popleft()
        self.at_hand_bytes -= commit.end - commit.offset + len(commit.index_entries)
