"""class Feed: the newest commits of a log in memory, for slaves that keep pace."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from qmq.clock import Clock
from qmq.supervisor import Supervisor
from qmq_node.log.commit import SealedCommit
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import Position
from qmq_node.replication.master.commit_batch import CommitBatch

FEED_BYTES_MAX = 64 << 20
"""Bytes of commits and index entries that are kept. The oldest commit is dropped first, the newest never: it may not
be readable from the log yet."""
_CRC_BYTES = 4


@dataclass(eq=False, repr=False)
class Feed:
    """Commits from the moment before they are written. Their buffers are kept, not copied.

    A commit's records are views of receive buffers, so the memory in use can be larger than the commits: at most by the part of
    those buffers that other requests took.
    """

    _log: SegmentedLog
    _clock: Clock
    _supervisor: Supervisor
    _on_commit: Callable[[], None]
    """Called on the event loop when there is a new commit."""
    _bytes_max: int = FEED_BYTES_MAX
    kept_bytes: int = field(default=0, init=False)
    _commits: OrderedDict[int, tuple[CommitBatch, float]] = field(default_factory=OrderedDict, init=False)
    """By the end of the commit before it, each with the time when its writing began."""
    _last: Position | None = field(default=None, init=False)
    """Where the newest commit ends."""
    end: int = field(default=0, init=False)
    """The end of the newest commit, which may be being written; without one, where the log ended at the start."""

    def start(self) -> None:
        """Take the commits from now on. None may be being written: see `Committer.between_commits`."""
        self.end = self._log.written_end
        self._loop = asyncio.get_running_loop()
        self._log.writer.before_write = self._pass_on

    def stop(self) -> None:
        """Take no more commits, and drop those that are kept."""
        self._log.writer.before_write = None
        self._commits.clear()
        self.kept_bytes = 0

    def after(self, end: int) -> CommitBatch | None:
        """Return the commit behind the one that ends at `end`; None if it is not kept, or there is none yet."""
        found = self._commits.get(end)
        return found[0] if found is not None else None

    def crc_at(self, end: int) -> int | None:
        """Return the CRC of the newest commit if it ends at `end`, else None; `SegmentedLog.crc_at` has those that are written."""
        return self._last.chain if self._last is not None and self._last.offset == end else None

    def release(self, end: int) -> None:
        """Drop commits that end at or below `end`: those that every in-sync member and every following slave has confirmed.

        Their receive buffers are used again while the processor's caches hold them. A slave that connects again finds what it has
        not confirmed.
        """
        commits = self._commits
        while commits and next(iter(commits.values()))[0].end.offset <= end:
            self._drop_first()

    def begun_at(self, end: int) -> float | None:
        """Return when the writing of the first commit with records behind `end` began, in monotonic seconds.

        Infinity: there is none. None: it is not kept.
        """
        while end != self.end:
            found = self._commits.get(end)
            if found is None or found[0].records_end:
                return found[1] if found is not None else None
            # A seal, which a slave need not confirm.
            end = found[0].end.offset
        return inf

    def _pass_on(self, commit: SealedCommit, header: bytes) -> None:
        """Hand a commit over to the event loop; in the writing thread, just before the write.

        It arrives before the commit is reported as stored, as the loop runs both in this order.
        """
        self._loop.call_soon_threadsafe(self._add, commit, header)

    def _add(self, commit: SealedCommit, header: bytes) -> None:
        if self._log.writer.before_write is None:
            return
        segment = self._log.stored.segment_at(commit.offset) if commit.offset == commit.segment_base else None
        batch = CommitBatch(
            commit.segment_base,
            segment.bytes if segment is not None else 0,
            commit.offset,
            (Position(commit.end, int.from_bytes(header[-_CRC_BYTES:], "big")),),
            0 if commit.is_seal else commit.end,
            (header, *commit.parts),
            index_entries=commit.index_entries,
        )
        self._commits[self.end] = batch, self._clock.monotonic()
        self.end, self._last = commit.end, batch.end
        self.kept_bytes += batch.bytes + batch.index_bytes
        while self.kept_bytes > self._bytes_max and len(self._commits) > 1:
            self._drop_first()
        self._supervisor.call("replication_feed", self._on_commit)

    def _drop_first(self) -> None:
        batch = self._commits.popitem(last=False)[1][0]
        self.kept_bytes -= batch.bytes + batch.index_bytes
